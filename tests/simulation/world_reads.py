"""Calls that show something, each compared with the model."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from mainstem.model.errors import OffsetOutOfRange, UnknownLog
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Edge, Found, Place, ReadHint, ReadResult, StateSnapshot
from tests.simulation.invariants import (
    BytesVerbatim,
    CompactionKeepsTheLast,
    OffsetsDenseAndNeverReused,
    PositionsAreFound,
    ReadsAreWhole,
    StableOffsetAndAborted,
    StateEqualsReplay,
)
from tests.simulation.model import LogFact, LogModel
from tests.simulation.watcher import Watcher
from tests.simulation.world_core import WorldCore


class Reads(WorldCore):
    """Batches, positions, state, watchers."""

    def read(self, log: int, offset: int, max_bytes: int, hint: ReadHint) -> Answer[ReadResult]:
        """Read, and compare every byte."""
        known, start_seen = self.known, self.start_seen.get(log, 0)
        self.note("read log %s at %s, %s bytes, %s", log, offset, max_bytes, hint.value)

        def finish(answer: Answer[ReadResult]) -> None:
            self._check_read(answer, log, offset, max_bytes, known, start_seen)

        return self._call(
            f"read of log {log} at {offset}", lambda: self.engine.read(log, offset, max_bytes, hint), finish
        )

    def _check_read(
        self, answer: Answer[ReadResult], log: int, offset: int, max_bytes: int, known: int, start_seen: int
    ) -> None:
        error = answer.error
        what = f"read of log {log} at {offset}"
        watched = self.model.find(log)
        if isinstance(error, UnknownLog):
            self.check_unknown(log, known)
        elif isinstance(error, OffsetOutOfRange):
            assert watched is not None
            self._check_out_of_range(watched, error, offset, known, start_seen)
        elif error is not None:
            self._excused(error, what)
        else:
            result = answer.result()
            if watched is None:
                StateEqualsReplay.broken(f"log {log} is read, but was never created")
            fact = self._shows(watched, known, result.start, result.end, result.stable, start_seen)
            if fact is None:
                facts = watched.facts_between(known, self.model.last_ordinal)[:4]
                ends = f"start {result.start}, end {result.end}, stable {result.stable}"
                invariant = (
                    StableOffsetAndAborted
                    if any(fact.end == result.end for fact in facts)
                    else OffsetsDenseAndNeverReused
                )
                invariant.broken(f"{what} shows {ends}; possible were {facts}")
            self._see_start(watched, result.start)
            self.shown(log, fact.ordinal, what)
            if not self._loose(watched) and fact.start == 0:
                ReadsAreWhole.check_size(watched, result)
            self._check_batches(watched, offset, max_bytes, result, fact)

    def _check_batches(self, log: LogModel, offset: int, max_bytes: int, result: ReadResult, fact: LogFact) -> None:
        first = offset
        for number, batch in enumerate(ReadsAreWhole.check(log, offset, max_bytes, result)):
            if log.compacted:
                CompactionKeepsTheLast.check_batch(log, batch)
            else:
                stored = BytesVerbatim.check(log, batch)
                self.shown(log.id, stored.ordinal, f"read of log {log.id} at {offset}")
                first = stored.base if number == 0 else first
        if result.batches:
            StableOffsetAndAborted.check_aborted(log, result, max(first, result.start), fact)

    def _check_out_of_range(
        self, log: LogModel, error: OffsetOutOfRange, offset: int, known: int, start_seen: int
    ) -> None:
        for fact in log.facts_between(known, self.model.last_ordinal):
            start_max = log.end if self._loose(log) else fact.start
            if fact.end >= 0 and (offset < max(start_max, start_seen) or offset > fact.end):
                self.shown(log.id, fact.ordinal if offset < start_max else -1, f"offset {offset} out of range")
                return
        OffsetsDenseAndNeverReused.broken(
            f"offset {offset} of log {log.id} is refused: {error}; facts {log.facts[-3:]}"
        )

    def offset_at(self, log: int, place: Place) -> Answer[Found]:
        """Find, and compare."""
        known, start_seen = self.known, self.start_seen.get(log, 0)
        self.note("offset_at log %s %s", log, place)

        def finish(answer: Answer[Found]) -> None:
            watched = self.model.find(log)
            if isinstance(answer.error, UnknownLog):
                self.check_unknown(log, known)
            elif answer.error is not None:
                self._excused(answer.error, f"offset_at of log {log}")
            else:
                PositionsAreFound.require(watched, f"a place in log {log}, which was never created")
                assert watched is not None
                self._check_found(watched, place, answer.result(), known, start_seen)

        return self._call(f"offset_at of log {log}", lambda: self.engine.offset_at(log, place), finish)

    def _check_found(self, log: LogModel, place: Place, found: Found, known: int, start_seen: int) -> None:
        loose = self._loose(log)
        for fact in log.facts_between(known, self.model.last_ordinal):
            if fact.end < 0:
                continue
            starts: Iterable[int] = (fact.start,)
            if loose:
                # Where retention has moved the start meanwhile is not known: to the end of any batch, or to a floor.
                lowest = max(fact.start, start_seen)
                edges = chain((b.next for b in log.batches), log.floors)
                starts = [lowest, *(edge for edge in edges if lowest < edge <= fact.end)]
                if place is Edge.START:
                    starts = [found.offset] if lowest <= found.offset <= fact.end else []
            if any(PositionsAreFound.check(log, place, found, fact, start) for start in starts):
                self.shown(log.id, fact.ordinal, f"{place} of log {log.id}")
                return
        PositionsAreFound.broken(f"{place} of log {log.id} is not {found}; facts {log.facts[-3:]}, known #{known}")

    def load(self, scope: str) -> Answer[StateSnapshot]:
        """Load a scope, and compare."""
        known = self.known
        self.note("load %s", scope)

        def finish(answer: Answer[StateSnapshot]) -> None:
            if answer.error is not None:
                self._excused(answer.error, f"load of {scope}")
                return
            given = dict(answer.result().entries)
            for ordinal, entries in self.model.scopes_between(scope, known, self.model.last_ordinal):
                if entries == given:
                    self.shown(None, ordinal, f"load of {scope}")
                    return
            StateEqualsReplay.broken(f"scope {scope} is {given}, must be {self.model.scopes.get(scope, {})}")

        return self._call(f"load of {scope}", lambda: self.engine.load(scope), finish)

    def watch(self) -> Watcher:
        """A new watch."""
        watcher = Watcher(self)
        self.watchers.append(watcher)
        return watcher
