"""Random calls of the contract, compared with the plainest thing that could keep it: dictionaries and lists."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mainstem.model.errors import (
    DuplicateSequence,
    InvalidBatch,
    LogExists,
    OffsetOutOfRange,
    OutOfOrderSequence,
    PeerError,
    UnknownLog,
)
from mainstem.storage.contract import (
    Aborted,
    Append,
    Commit,
    Committed,
    CreateLog,
    DeleteLog,
    Edge,
    KeyAfter,
    LogConfig,
    Mutation,
    Refer,
    TimeAfter,
    TrimLog,
)
from tests.contract.storage.engine_cases import EngineUnderTest
from tests.support.storage.batches import NOW, as_sent, keyed, marker, split

LOGS = range(1, 5)
PRODUCERS = range(1, 3)
EXAMPLES = 50
"""Ten to twenty seconds for all engines."""
KEYS = [None, b"", b"a", b"b"]


class ModelLog(msgspec.Struct):
    """A log as a list."""

    start: int = 0
    end: int = 0
    batches: list[tuple[int, bytes]] = []
    """(base, as sent)"""
    records: list[tuple[int, int, bytes | None]] = []
    """(offset, time, key), control records left out."""
    sequences: dict[int, int] = {}
    """The next sequence of each producer."""
    recent: dict[int, list[tuple[int, int, int]]] = {}
    open: dict[int, int] = {}
    aborted: list[Aborted] = []

    @property
    def stable(self) -> int:
        return max(self.start, min([self.end, *self.open.values()]))

    def store(self, content: bytes, times: list[int], keys: list[bytes | None]) -> int:
        base = self.end
        self.batches.append((base, as_sent(content)))
        self.records += [(base + n, time, key) for n, (time, key) in enumerate(zip(times, keys, strict=True))]
        self.end += max(len(times), 1)
        return base


contents = st.tuples(
    st.lists(st.tuples(st.integers(0, 100), st.sampled_from(KEYS)), min_size=1, max_size=4),
    st.sampled_from([1, 50, 3_000, 15_000]),
)
logs = st.integers(0, 99)
"""A log that exists; now and then any."""
producers = st.sampled_from(PRODUCERS)


class EngineAgainstModel(RuleBasedStateMachine):
    """One engine and its model; subclasses name the engine."""

    case = None
    runner: asyncio.Runner
    runtime = None

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="mainstem-model-"))
        self.engine = EngineUnderTest(self.case, self.runtime, self.directory / "data")
        self.run(self.engine.open())
        self.model: dict[int, ModelLog] = {}
        self.state: dict[bytes, bytes] = {}
        self.used: set[int] = set()
        self.counter = 0
        self.pending = []

    def teardown(self) -> None:
        self.run(self.engine.close())
        shutil.rmtree(self.directory)  # fails when something is still written after closing

    def run(self, coroutine):
        async def bounded():
            async with asyncio.timeout(30):
                return await coroutine

        return self.runner.run(bounded())

    def log(self, drawn: int) -> int:
        live = sorted(self.model)
        return live[drawn % len(live)] if live and drawn % 10 else LOGS[drawn // 10 % len(LOGS)]

    def commit(self, commit: Commit, check) -> None:
        """Call, and look at the answer later: outcomes are decided by the order of the calls, answered or not."""
        self.pending.append((self.engine.commit([commit]), check))

    @rule()
    def wait(self) -> None:
        self.run(self.answered())

    async def answered(self) -> None:
        pending, self.pending = self.pending, []
        for answer, check in pending:
            (result,) = await answer
            check(result)

    def content(self, content, **producer):
        """A batch of the drawn records: (batch, times, keys)."""
        records, size = content
        self.counter += 1
        value = b"%d." % self.counter * (size // 3 + 1)
        times = [NOW + time for time, _ in records]
        return (
            bytes(keyed(*((key, value) for _, key in records), time=times, **producer)),
            times,
            [k for _, k in records],
        )

    # --- logs -------------------------------------------------------------------------------------------------------

    @initialize()
    def first_logs(self) -> None:
        for log in (1, 2):
            self.create(log, False)

    @rule(log=st.sampled_from(LOGS), key_index=st.booleans())
    def create(self, log, key_index) -> None:
        expected = LogExists if log in self.used else Committed
        self.commit(Commit(changes=[CreateLog(log, LogConfig(key_index=key_index))]), of_kind(expected))
        if log not in self.used:
            self.used.add(log)
            self.model[log] = ModelLog()

    @precondition(lambda self: len(self.used) > 3)
    @rule(log=logs)
    def delete(self, log) -> None:
        log = self.log(log)
        self.commit(Commit(changes=[DeleteLog(log)]), of_kind(Committed if log in self.model else UnknownLog))
        self.model.pop(log, None)

    @rule(log=logs, share=st.floats(0, 1.2))
    def trim(self, log, share) -> None:
        log = self.log(log)
        if log in self.model:
            model = self.model[log]
            before = int(model.start + (model.end - model.start) * share)
            model.start = max(model.start, min(before, model.end))
            self.commit(Commit(changes=[TrimLog(log, before)]), of_kind(Committed))

    # --- commits ----------------------------------------------------------------------------------------------------

    @rule(log=logs, many=st.lists(contents, min_size=1, max_size=4), refused=st.booleans())
    def append(self, log, many, refused) -> None:
        """One Commit of several batches and a mutation, refused as a whole when a bad batch is among them."""
        log = self.log(log)
        made = [self.content(content) for content in many]
        appends = [Append(log, bytearray(content)) for content, _, _ in made]
        if refused:
            appends.insert(len(appends) // 2, Append(log, b"bad"))
        key = b"%d" % (self.counter % 7)
        commit = Commit(appends=appends, state=[Mutation("s", key, b"%d" % self.counter)])
        if log not in self.model or refused:
            self.commit(commit, of_kind(InvalidBatch if log in self.model else PeerError))
            return
        self.state[key] = b"%d" % self.counter
        self.commit(commit, with_bases([self.model[log].store(*batch) for batch in made]))

    @rule(target_log=logs, log=logs, content=contents)
    def refer(self, log, target_log, content) -> None:
        log = self.log(log)
        target_log = self.log(target_log)
        made = self.content(content)
        commit = Commit(appends=[Append(log, bytearray(made[0]))], refers=[Refer(target_log, 0)])
        if log not in self.model or target_log not in self.model:
            self.commit(commit, of_kind(UnknownLog))
            return
        self.commit(commit, with_bases([self.model[log].store(*made), self.model[target_log].store(*made)]))

    @rule(log=logs, producer=producers, content=contents, step=st.sampled_from([0, 0, 0, 1, 7]), within=st.booleans())
    def produce(self, log, producer, content, step, within) -> None:
        """The next batch of a producer, or one after a gap."""
        log = self.log(log)
        if log not in self.model:
            return
        model = self.model[log]
        sequence = model.sequences.get(producer, 0) + step
        made = self.content(
            content, producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=within
        )
        commit = Commit(appends=[Append(log, bytearray(made[0]), first_sequence_zero=True)])
        if step:
            self.commit(commit, of_kind(OutOfOrderSequence))
            return
        base = model.store(*made)
        self.commit(commit, with_bases([base]))
        count = len(made[1])
        model.sequences[producer] = sequence + count
        model.recent.setdefault(producer, []).append((sequence, count, base))
        if within:
            model.open.setdefault(producer, base)

    @rule(log=logs, producer=producers, back=st.integers(1, 7))
    def repeat(self, log, producer, back) -> None:
        """A batch of a producer, sent again: the last five are known."""
        log = self.log(log)
        recent = self.model[log].recent.get(producer, []) if log in self.model else []
        if len(recent) >= back:
            sequence, count, base = recent[-back]
            content = keyed(*[(None, b"again")] * count, producer_id=producer, producer_epoch=0, base_sequence=sequence)
            check = with_bases([base], repeated=[0]) if back <= 5 else of_kind(DuplicateSequence)
            self.commit(Commit(appends=[Append(log, content)]), check)

    @rule(log=logs, producer=producers, commit=st.booleans(), freely=st.sampled_from([False, False, False, True]))
    def end(self, log, producer, commit, freely) -> None:
        log = self.log(log)
        opened = list(self.model[log].open) if log in self.model else []
        if opened and not freely:
            producer = opened[0]
        content = bytes(marker(producer, commit=commit))
        ending = Commit(appends=[Append(log, bytearray(content))])
        if log not in self.model:
            self.commit(ending, of_kind(UnknownLog))
            return
        model = self.model[log]
        base = model.store(content, [], [])
        self.commit(ending, with_bases([base]))
        model.sequences.setdefault(producer, 0)
        first = model.open.pop(producer, None)
        if first is not None and not commit:
            model.aborted.append(Aborted(producer, first, base))

    @rule(keys=st.lists(st.integers(0, 6), max_size=3))
    def forget(self, keys) -> None:
        self.commit(Commit(state=[Mutation("s", b"%d" % key, None) for key in keys]), with_bases([]))
        for key in keys:
            self.state.pop(b"%d" % key, None)

    # --- life -------------------------------------------------------------------------------------------------------

    @rule()
    def settle(self) -> None:
        self.run(self.engine.settle())

    @precondition(lambda self: self.case.durable)
    @rule()
    def reopen(self) -> None:
        self.run(self.engine.reopen())

    # --- questions --------------------------------------------------------------------------------------------------

    @rule(log=logs, share=st.floats(0, 1), max_bytes=st.sampled_from([0, 1, 500, 10_000, 1 << 20]))
    def read(self, log, share, max_bytes) -> None:
        self.run(self.check_read(self.log(log), share, max_bytes))

    async def check_read(self, log, share, max_bytes) -> None:
        await self.answered()
        if log not in self.model:
            with pytest.raises(UnknownLog):
                await self.engine.read(log, 0, max_bytes)
            return
        model = self.model[log]
        offset = int(model.start + (model.end - model.start) * share)
        result = await self.engine.read(log, offset, max_bytes)
        found = split(result.batches)
        expected = [(base, sent) for base, sent in model.batches if base + records_in(sent) > offset]
        assert [as_sent(part) for part in found] == [sent for _, sent in expected[: len(found)]]
        if max_bytes and expected:
            assert found
            last, sent = expected[len(found) - 1]
            assert result.next_offset == last + records_in(sent)
        touched = [a for a in model.aborted if a.last >= offset and a.first < result.next_offset]
        if found:
            assert list(result.aborted) == touched
        for wrong in (model.start - 1, model.end + 1):
            with pytest.raises(OffsetOutOfRange):
                await self.engine.read(log, wrong, max_bytes)

    @rule(log=logs, time=st.integers(-1, 101), key=st.sampled_from(KEYS[1:]), after=st.integers(0, 30))
    def find(self, log, time, key, after) -> None:
        log = self.log(log)
        if log in self.model:
            self.run(self.check_find(log, NOW + time, key, after))

    async def check_find(self, log, time, key, after) -> None:
        await self.answered()
        records = [record for record in self.model[log].records if record[0] >= self.model[log].start]
        found = await self.engine.offset_at(log, TimeAfter(time))
        assert found.offset == next((offset for offset, at, _ in records if at >= time), -1)
        found = await self.engine.offset_at(log, KeyAfter(key, after))
        assert found.offset == next((o for o, _, k in records if k == key and o >= after), -1)
        found = await self.engine.offset_at(log, Edge.NEWEST)
        assert found.timestamp_ms == max((at for _, at, _ in records), default=-1)

    @invariant()
    def the_same_everywhere(self) -> None:
        self.run(self.check_all())

    async def check_all(self) -> None:
        if self.pending:
            return
        assert await self.engine.state("s") == self.state
        for log, model in self.model.items():
            facts = await self.engine.facts(log)
            assert (facts.start, facts.end, facts.stable) == (model.start, model.end, model.stable)

    @rule()
    def read_everything(self) -> None:
        self.run(self.check_everything())

    async def check_everything(self) -> None:
        await self.answered()
        for log, model in self.model.items():
            expected = [sent for base, sent in model.batches if base + records_in(sent) > model.start]
            assert [as_sent(part) for part in await self.engine.read_all(log)] == expected


def of_kind(kind):
    """The outcome is of this kind."""

    def check(result) -> None:
        assert isinstance(result, kind), repr(result)

    return check


def with_bases(bases, repeated=()):
    """The Commit happened, with these offsets."""

    def check(result) -> None:
        assert isinstance(result, Committed), repr(result)
        assert (list(result.bases), list(result.repeated)) == (list(bases), list(repeated))

    return check


def records_in(sent: bytes) -> int:
    """How many records a batch without its base offset and leader epoch has: the last field of its header."""
    return int.from_bytes(sent[45:49], "big")


@pytest.mark.slow
def test_random_calls(case, engine_runner, runtime):
    machine = type(
        "Against" + case.name, (EngineAgainstModel,), {"case": case, "runner": engine_runner, "runtime": runtime}
    )
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            phases=[Phase.reuse, Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
