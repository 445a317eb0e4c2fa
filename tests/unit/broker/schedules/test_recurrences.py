"""What recurs happens at each of its times, once."""

import asyncio

import msgspec
import pytest

from mainstem.broker.schedules import Letter, Target
from mainstem.broker.schedules.recurrences import Recurrences
from mainstem.coordination.schedules.errors import InvalidRecurrence, NotScheduled
from mainstem.model.errors import StorageFull
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.worlds.brokers import with_engine
from tests.unit.broker.schedules.waiting import HandClock, Noted

LETTER = Letter(Target("default", topic="topic"), 0, b"\0", b"tick")


async def pass_s(clock: HandClock, recurrences: Recurrences, seconds: int) -> None:
    end = clock.monotonic() + seconds
    while True:
        while recurrences._task is not None:
            await asyncio.wait([recurrences._task])
        due = [timer for timer in clock._timers if not timer.is_cancelled and timer.at <= end]
        if not due:
            clock.advance(max(0.0, (end - clock.monotonic()) * 1000))
            return
        first = min(due, key=lambda timer: timer.at)
        clock._timers.remove(first)
        clock.advance(max(0.0, (first.at - clock.monotonic()) * 1000) + 0.01)
        first.function()


@with_engine
async def test_it_happens_at_each_of_its_times(engine: MemoryEngine) -> None:
    clock = HandClock()
    noted = Noted(engine, clock)
    recurrences = Recurrences(engine, clock, noted)
    await recurrences.put("ticks", "*/10 * * * * *", "UTC", LETTER)
    await pass_s(clock, recurrences, 61)
    assert len(noted.delivered) == 6
    assert [at_ms % 10_000 < 5 for at_ms, _ in noted.delivered] == [True] * 6
    assert [letter.created_ms % 10_000 for _, letter in noted.delivered] == [0] * 6
    assert recurrences.get("ticks").entry.count == 6
    await recurrences.put("ticks", "*/30 * * * * *", "UTC", LETTER)
    await pass_s(clock, recurrences, 60)
    assert len(noted.delivered) == 8
    await recurrences.put("ticks", "*/30 * * * * *", "UTC", LETTER, is_paused=True)
    await pass_s(clock, recurrences, 60)
    assert len(noted.delivered) == 8
    await recurrences.remove("ticks")
    with pytest.raises(NotScheduled):
        await recurrences.remove("ticks")


@with_engine
async def test_what_was_missed_happens_once_and_the_rule_goes_on(engine: MemoryEngine) -> None:
    clock = HandClock()
    noted = Noted(engine, clock)
    first = Recurrences(engine, clock, noted)
    await first.put("ticks", "* * * * *", "Europe/Berlin", LETTER)
    await pass_s(clock, first, 60)
    assert len(noted.delivered) == 1
    first.stop()
    clock._timers.clear()
    clock.advance(600_000)
    second = Recurrences(engine, clock, noted)
    await second.load()
    await pass_s(clock, second, 1)
    assert len(noted.delivered) == 2
    await pass_s(clock, second, 60)
    assert len(noted.delivered) == 3


@with_engine
async def test_a_refusal_delays_it(engine: MemoryEngine) -> None:
    clock = HandClock()
    noted = Noted(engine, clock)
    recurrences = Recurrences(engine, clock, noted)
    await recurrences.put("ticks", "* * * * *", "UTC", LETTER)
    noted.refusal = StorageFull("full")
    await pass_s(clock, recurrences, 60)
    assert noted.delivered == []
    noted.refusal = None
    await pass_s(clock, recurrences, 2)
    assert len(noted.delivered) == 1


@with_engine
async def test_one_that_no_target_takes_does_not_hold_up_the_others(engine: MemoryEngine) -> None:
    clock = HandClock()
    noted = Noted(engine, clock)
    recurrences = Recurrences(engine, clock, noted)
    noted.poison = b"poison"
    await recurrences.put("bad", "* * * * *", "UTC", msgspec.structs.replace(LETTER, value=b"poison"))
    await recurrences.put("good", "* * * * *", "UTC", LETTER)
    await pass_s(clock, recurrences, 121)
    assert [letter.value for _, letter in noted.delivered] == [b"tick", b"tick"]
    assert recurrences.get("bad").entry.next_ms > clock.now_ms()


@with_engine
async def test_refused(engine: MemoryEngine) -> None:
    recurrences = Recurrences(engine, HandClock(), None)  # type: ignore[arg-type]
    for name, cron, zone in [
        ("", "@daily", "UTC"),
        ("x" * 250, "@daily", "UTC"),
        ("x", "often", "UTC"),
        ("x", "@daily", "?"),
    ]:
        with pytest.raises(InvalidRecurrence):
            await recurrences.put(name, cron, zone, LETTER)
