"""The reference engine, wrong in one way each: what every invariant must notice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainstem.model.errors import CorruptData
from mainstem.storage.answer import Answer
from mainstem.storage.contract import (
    Budget,
    Commit,
    CommitResult,
    Committed,
    Found,
    LogEnd,
    MaintainReport,
    Place,
    ReadHint,
    ReadResult,
    StateSnapshot,
    TrimLog,
    WatchCallback,
)
from mainstem.testing.disk import SimulatedFile
from mainstem.wire.record_batch import rewrite_batch
from tests.simulation.model import ProducerModel, SentCommit
from tests.simulation.reference_engine import JournalEntry, ReferenceEngine, ReferenceWatch


class UnsyncedFile:
    """Writes, and says that it has synced."""

    def __init__(self, file: SimulatedFile) -> None:
        self.write = file.write

    def sync(self) -> None:
        pass


class AnswersWithoutTheSync(ReferenceEngine):
    def _recover(self) -> None:
        super()._recover()
        self._file = UnsyncedFile(self._file)  # type: ignore[assignment]


class ShowsWhatIsNotDurable(ReferenceEngine):
    def read(self, log: int, offset: int, max_bytes: int, hint: ReadHint = ReadHint.TAIL) -> Answer[ReadResult]:
        visible, self.visible = self.visible, self.sequenced
        try:
            return super().read(log, offset, max_bytes, hint)
        finally:
            self.visible = visible


class LoadsWhatIsNotDurable(ReferenceEngine):
    def load(self, scope: str) -> Answer[StateSnapshot]:
        if scope.startswith("engine/"):
            return super().load(scope)
        return Answer.of(StateSnapshot(dict(self.sequenced.scopes.get(scope, {}))))


class WritesACommitInTwoParts(ReferenceEngine):
    def _append(self, entries: list[JournalEntry], answer: Answer[Any], value: object) -> None:
        for entry, outcome in entries:
            if isinstance(entry, SentCommit) and entry.state and entry.appends:
                bare = entry._replace(state=(), changes=(), refers=())
                only = Committed(outcome.bases[: len(entry.appends)], outcome.repeated)
                if not entry.refers and not entry.changes:
                    super()._append([(bare, only)], Answer(), None)
                    rest = Committed(outcome.bases, list(range(len(entry.appends))))
                    super()._append([(entry, rest)], Answer(), None)
                    continue
            super()._append([(entry, outcome)], Answer(), None)
        super()._append([], answer, value)


class ForgetsProducers(ReferenceEngine):
    def _recover(self) -> None:
        super()._recover()
        for model in (self.sequenced, self.visible):
            for log in model.logs.values():
                log.producers.clear()


class TakesGapsInSequences(ReferenceEngine):
    def commit(self, commits: Sequence[Commit]) -> Answer[list[CommitResult]]:
        judge = ProducerModel.judge
        ProducerModel.judge = lambda self, epoch, sequence, count: None  # type: ignore[method-assign]
        try:
            return super().commit(commits)
        finally:
            ProducerModel.judge = judge  # type: ignore[method-assign]


class SkipsOffsets(ReferenceEngine):
    def commit(self, commits: Sequence[Commit]) -> Answer[list[CommitResult]]:
        answer: Answer[list[CommitResult]] = Answer()

        def shift(done: Answer[list[CommitResult]]) -> None:
            if done.error is not None:
                answer.fail(done.error)
                return
            results = [
                Committed([base + (base > 20) for base in result.bases], result.repeated)
                if isinstance(result, Committed)
                else result
                for result in done.result()
            ]
            answer.resolve(results)

        super().commit(commits).on_done(shift)
        return answer


class RefusesTheNeighbours(ReferenceEngine):
    def commit(self, commits: Sequence[Commit]) -> Answer[list[CommitResult]]:
        answer: Answer[list[CommitResult]] = Answer()

        def spread(done: Answer[list[CommitResult]]) -> None:
            if done.error is not None:
                answer.fail(done.error)
                return
            refused = [result for result in done.result() if not isinstance(result, Committed)]
            answer.resolve(refused[:1] * len(commits) if refused else done.result())

        super().commit(commits).on_done(spread)
        return answer


class ChangesBytes(ReferenceEngine):
    def read(self, log: int, offset: int, max_bytes: int, hint: ReadHint = ReadHint.TAIL) -> Answer[ReadResult]:
        answer = super().read(log, offset, max_bytes, hint)
        if answer.error is not None or len(answer.result().batches) < 2:
            return answer
        result = answer.result()
        last = bytearray(result.batches[-1])
        last[-1] ^= 1
        return Answer.of(copy_of(result, batches=[*result.batches[:-1], last]))


class SkipsABatch(ReferenceEngine):
    def read(self, log: int, offset: int, max_bytes: int, hint: ReadHint = ReadHint.TAIL) -> Answer[ReadResult]:
        answer = super().read(log, offset, max_bytes, hint)
        if answer.error is not None or len(answer.result().batches) < 3:
            return answer
        result = answer.result()
        return Answer.of(copy_of(result, batches=[result.batches[0], *result.batches[2:]]))


class TellsOfNoAbortedRange(ReferenceEngine):
    def read(self, log: int, offset: int, max_bytes: int, hint: ReadHint = ReadHint.TAIL) -> Answer[ReadResult]:
        answer = super().read(log, offset, max_bytes, hint)
        return answer if answer.error is not None else Answer.of(copy_of(answer.result(), aborted=()))


class ForgetsOpenTransactions(ReferenceEngine):
    def read(self, log: int, offset: int, max_bytes: int, hint: ReadHint = ReadHint.TAIL) -> Answer[ReadResult]:
        answer = super().read(log, offset, max_bytes, hint)
        return answer if answer.error is not None else Answer.of(copy_of(answer.result(), stable=answer.result().end))


class CompactsTooMuch(ReferenceEngine):
    def read(self, log: int, offset: int, max_bytes: int, hint: ReadHint = ReadHint.TAIL) -> Answer[ReadResult]:
        answer = super().read(log, offset, max_bytes, hint)
        if answer.error is not None or not self.visible.logs[log].compacted:
            return answer
        kept = [rewrite_batch(batch, lambda offset: offset % 3 > 0) for batch in answer.result().batches]
        return Answer.of(copy_of(answer.result(), batches=[batch for batch in kept if batch is not None]))


class TrimsByItself(ReferenceEngine):
    def maintain(self, budget: Budget) -> Answer[MaintainReport]:
        for log in self.visible.logs.values():
            if log.retained and not self._closed and self._failure is None:
                self.commit([Commit(changes=[TrimLog(log.id, log.end)])])
        return super().maintain(budget)


class FindsTheNextOne(ReferenceEngine):
    def offset_at(self, log: int, place: Place) -> Answer[Found]:
        answer = super().offset_at(log, place)
        if answer.error is not None or answer.result().timestamp_ms < 0:
            return answer
        return Answer.of(Found(answer.result().offset + 1, answer.result().timestamp_ms))


class ForgetfulWatch(ReferenceWatch):
    def tell(self) -> None:
        self._told = getattr(self, "_told", 0) + 1
        if self._told % 3 == 0:
            for log in list(self._ends):
                known = self._engine.visible.logs.get(log)
                if known is not None:
                    self._ends[log] = LogEnd(known.end, known.stable)
        super().tell()


class ForgetsToTellWatchers(ReferenceEngine):
    def watch(self, callback: WatchCallback) -> ReferenceWatch:
        watch = ForgetfulWatch(self, callback)
        self._watches.append(watch)
        return watch


class TellsWatchersWithinACall(ReferenceEngine):
    def commit(self, commits: Sequence[Commit]) -> Answer[list[CommitResult]]:
        visible = self.visible
        answer = super().commit(commits)
        if self._failure is None and not self._closed:
            self.visible = self.sequenced
            for watch in self._watches:
                watch.tell()
        self.visible = visible
        return answer


class NeverAnswers(ReferenceEngine):
    def maintain(self, budget: Budget) -> Answer[MaintainReport]:
        return Answer()


class RefusesATornTail(ReferenceEngine):
    def _recover(self) -> None:
        size = self._file.size()
        super()._recover()
        if self._end < size:
            raise CorruptData("journal", self._end, "torn")


def copy_of(result: ReadResult, **changes: Any) -> ReadResult:
    fields = {name: getattr(result, name) for name in result.__struct_fields__}
    return ReadResult(**fields | changes)
