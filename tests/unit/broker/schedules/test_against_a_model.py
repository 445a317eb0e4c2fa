"""Any history of scheduling, cancelling, changing, waiting and restarting, against a list of what is due when."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.broker.schedules import Search
from mainstem.broker.schedules.window import DueWindow
from mainstem.coordination.schedules.errors import NotScheduled
from mainstem.coordination.schedules.schedule import DAY_MS
from mainstem.storage.local.runtime import local_runtime
from mainstem.storage.memory.engine import MemoryEngine
from tests.unit.broker.schedules.waiting import Bench

DELAYS = st.one_of(
    st.integers(0, 3_000), st.integers(0, 300_000), st.integers(0, 10 * DAY_MS), st.integers(0, 400 * DAY_MS)
)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), DELAYS),
        st.tuples(st.just("cancel"), st.integers(0, 50)),
        st.tuples(st.just("change"), st.tuples(st.integers(0, 50), DELAYS)),
        st.tuples(st.just("wait"), DELAYS),
        st.tuples(st.just("restart"), st.none()),
    ),
    min_size=3,
    max_size=30,
)
LATE_MS_MAX = 60
"""With a window of a few records, what does not fit is found by passes over its bucket."""


class Model:
    """What waits, by its value: when it is due and under which id; and what was to be delivered."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.waiting: dict[bytes, tuple[int, bytes]] = {}
        self.due: dict[bytes, int] = {}
        self.count = 0

    def pick(self, number: int) -> bytes | None:
        return sorted(self.waiting)[number % len(self.waiting)] if self.waiting else None

    def pass_time(self) -> None:
        for value, (due_ms, _) in list(self.waiting.items()):
            if due_ms <= self.bench.now_ms:
                self.due[value] = due_ms
                del self.waiting[value]

    async def do(self, kind: str, argument: object) -> None:
        bench = self.bench
        if kind == "put":
            value = b"%d" % self.count
            self.count += 1
            due_ms = bench.now_ms + argument  # type: ignore[operator]
            self.waiting[value] = (due_ms, await bench.put(value, argument))  # type: ignore[arg-type]
        elif kind == "wait":
            await bench.pass_ms(argument)  # type: ignore[arg-type]
        elif kind == "restart":
            self.bench = await bench.restart(DueWindow(bytes_max=4_000))
        elif kind == "cancel" and (found := self.pick(argument)) is not None:  # type: ignore[arg-type]
            await self.settle(found)
            if found in self.waiting:
                await bench.schedules.cancel(self.waiting.pop(found)[1])
        elif kind == "change":
            number, delay_ms = argument  # type: ignore[misc]
            found = self.pick(number)
            if found is not None:
                await self.settle(found)
            if found in self.waiting:
                due_ms = bench.now_ms + delay_ms
                self.waiting[found] = (due_ms, await bench.schedules.change(self.waiting[found][1], due_ms=due_ms))

    async def settle(self, value: bytes) -> None:
        """What is due at this very moment is moved first."""
        if self.waiting[value][0] <= self.bench.now_ms:
            await self.bench.pass_ms(LATE_MS_MAX)
            self.pass_time()

    async def check(self) -> None:
        await self.bench.pass_ms(LATE_MS_MAX)
        self.pass_time()
        delivered = self.bench.noted.delivered
        assert sorted(letter.value or b"" for _, letter in delivered) == sorted(self.due)
        for at_ms, letter in delivered:
            assert at_ms >= self.due[letter.value or b""]
        assert self.bench.schedules.pending_count == len(self.waiting)
        page = await self.bench.schedules.pending(Search(), None, 1_000)
        assert sorted(found.letter.value or b"" for found in page.found) == sorted(self.waiting)
        for value, (due_ms, record_id) in self.waiting.items():
            found = await self.bench.schedules.find(record_id)
            assert (found.due_ms, found.letter.value) == (due_ms, value)


@given(OPERATIONS, st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_history(operations: list[tuple[str, object]], small: bool) -> None:
    async def main() -> None:
        runtime = local_runtime(asyncio.get_running_loop())
        try:
            window = DueWindow(bytes_max=1_000) if small else None
            model = Model(Bench(MemoryEngine(runtime), window=window))
            for kind, argument in operations:
                await model.do(kind, argument)
                model.pass_time()
            await model.check()
            await model.do("restart", None)
            await model.check()
            model.bench.schedules.stop()
        finally:
            runtime.close()

    asyncio.run(main())


def test_what_is_gone_is_not_found() -> None:
    async def main() -> None:
        runtime = local_runtime(asyncio.get_running_loop())
        try:
            bench = Bench(MemoryEngine(runtime))
            record_id = await bench.put(b"v", 10)
            await bench.pass_ms(50)
            for attempt in (bench.schedules.find, bench.schedules.cancel):
                try:
                    await attempt(record_id)
                except NotScheduled:
                    continue
                raise AssertionError("found")
        finally:
            runtime.close()

    asyncio.run(main())
