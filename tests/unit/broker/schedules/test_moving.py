"""Records are delivered when they are due, once, whatever lies between."""

import random

import pytest

from mainstem.broker.schedules import Target
from mainstem.broker.schedules.window import DueWindow
from mainstem.coordination.schedules.schedule import DAY_MS, HOUR_MS, MINUTE_MS
from mainstem.coordination.schedules.scheduled_record import encode_letter
from mainstem.model.errors import StorageFull
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.worlds.brokers import with_engine
from tests.unit.broker.schedules.waiting import Bench

LATE_MS_MAX = 5


def check_times(bench: Bench, due: dict[bytes, int]) -> None:
    """Each once, not early, hardly late."""
    assert sorted(value or b"" for value in bench.noted.values) == sorted(due)
    for at_ms, letter in bench.noted.delivered:
        assert 0 <= at_ms - due[letter.value or b""] <= LATE_MS_MAX


@pytest.mark.parametrize(
    "delay_ms",
    [
        0,
        1,
        999,
        1_000,
        5_000,
        119_999,
        121_000,
        2 * HOUR_MS - 1,
        3 * HOUR_MS,
        3 * DAY_MS,
        61 * DAY_MS,
        3 * 365 * DAY_MS,
    ],
)
def test_any_delay(delay_ms: int) -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        bench = Bench(engine)
        due = bench.now_ms + delay_ms
        await bench.put(b"value", delay_ms)
        if delay_ms:
            await bench.pass_ms(delay_ms - 1)
            assert bench.noted.values == []
            assert bench.schedules.pending_count == 1
        await bench.pass_ms(1_000)
        check_times(bench, {b"value": due})
        assert bench.schedules.pending_count == 0
        await bench.pass_ms(2 * MINUTE_MS)
        assert bench.schedules._book.buckets == {}, "nothing is left behind"

    run()


@with_engine
async def test_many_at_random_times_with_restarts_between(engine: MemoryEngine) -> None:
    seeded = random.Random(7)
    bench = Bench(engine)
    due: dict[bytes, int] = {}
    for number in range(300):
        value = f"v{number}".encode()
        delay_ms = int(10 ** seeded.uniform(0, 9))
        due[value] = bench.now_ms + delay_ms
        await bench.put(value, delay_ms)
        if number % 10 == 0:
            await bench.pass_ms(int(10 ** seeded.uniform(0, 5)))
    last = max(due.values())
    while bench.now_ms < last:
        await bench.pass_ms(min(last - bench.now_ms + 10, int(10 ** seeded.uniform(3, 8.5))))
        if seeded.random() < 0.3:
            bench = await bench.restart()
    check_times(bench, due)


@with_engine
async def test_what_came_due_while_nobody_was_there_is_delivered_at_the_start(engine: MemoryEngine) -> None:
    bench = Bench(engine)
    for number, delay_ms in enumerate([10, 3_000, 4 * HOUR_MS, 9 * DAY_MS]):
        await bench.put(str(number).encode(), delay_ms)
    bench.schedules.stop()
    bench.clock._timers.clear()
    bench.clock.advance(10 * DAY_MS)
    bench = await bench.restart()
    await bench.pass_ms(100)
    assert sorted(bench.noted.values) == [b"0", b"1", b"2", b"3"]
    bench = await bench.restart()
    await bench.pass_ms(10_000)
    assert len(bench.noted.delivered) == 4


@with_engine
async def test_a_bucket_larger_than_memory_is_moved_all_the_same(engine: MemoryEngine) -> None:
    bench = Bench(engine, window=DueWindow(bytes_max=20_000))
    seeded = random.Random(3)
    values = [f"v{number}".encode() for number in range(400)]
    due = {value: bench.now_ms + 3_000 + seeded.randrange(900) for value in values}
    for value in values:
        await bench.put(value, due[value] - bench.now_ms)
    assert len(bench.schedules.mover._window) < 100
    await bench.pass_ms(5_000)
    assert sorted(bench.noted.values) == sorted(values)
    assert all(at_ms >= due[letter.value] for at_ms, letter in bench.noted.delivered)
    assert all(at_ms <= due[letter.value] + 50 for at_ms, letter in bench.noted.delivered)


@with_engine
async def test_what_is_due_together_is_one_commit(engine: MemoryEngine) -> None:
    bench = Bench(engine)
    for number in range(100):
        await bench.put(str(number).encode(), 5_000)
    await bench.pass_ms(6_000)
    assert len(bench.noted.values) == 100
    assert bench.noted.commits == 1
    assert bench.noted.values == [str(number).encode() for number in range(100)], "in the order in which they came"


@with_engine
async def test_a_full_disk_delays_and_loses_nothing(engine: MemoryEngine) -> None:
    bench = Bench(engine)
    for number in range(10):
        await bench.put(str(number).encode(), 1_000 + number)
    bench.noted.refusal = StorageFull("full")
    await bench.pass_ms(3_500)
    assert bench.noted.values == []
    assert bench.schedules.pending_count == 10
    bench.noted.refusal = None
    await bench.pass_ms(2_000)
    assert sorted(bench.noted.values) == sorted(str(number).encode() for number in range(10))
    bench = await bench.restart()
    await bench.pass_ms(10_000)
    assert len(bench.noted.delivered) == 10


@with_engine
async def test_one_that_no_log_takes_does_not_hold_up_the_others(engine: MemoryEngine) -> None:
    bench = Bench(engine)
    bench.noted.poison = b"5"
    for number in range(10):
        await bench.put(str(number).encode(), 1_000)
    await bench.pass_ms(2_000)
    assert sorted(bench.noted.values) == sorted(str(number).encode() for number in range(10) if number != 5)
    assert bench.schedules.mover.dropped_total == 1
    assert bench.schedules.pending_count == 0


@with_engine
async def test_a_record_joins_the_commit_of_its_turn(engine: MemoryEngine) -> None:
    bench = Bench(engine)
    target = Target("default", "exchange", ("key",))
    for number in range(3):
        bench.schedules.schedule(target, b"\0", memoryview(b"%d" % number), due_ms=bench.now_ms + 500)
    assert bench.schedules.pending_count == 0
    await bench.noted.end_turn()
    assert bench.schedules.pending_count == 3
    bench.schedules.schedule(target, b"\0", b"next", due_ms=bench.now_ms + 500)
    await bench.noted.end_turn()
    await bench.pass_ms(501)
    assert bench.noted.values == [b"0", b"1", b"2", b"next"]
    assert bench.noted.delivered[0][1].target == target
    assert len(encode_letter(bench.noted.delivered[0][1])) < 60


@with_engine
async def test_memory_holds_only_what_is_due_soon(engine: MemoryEngine) -> None:
    bench = Bench(engine)
    for number in range(200):
        await bench.put(str(number).encode(), 60_000 + number * HOUR_MS)
    assert len(bench.schedules.mover._window) == 0
    await bench.pass_ms(59_000)
    assert len(bench.schedules.mover._window) == 1
