"""Retention, as maintenance applies it: by age, by size, by acknowledgement, and combined.

An engine removes stretches of a log, not single batches: the tests write logs much longer than a stretch, and say what must
stay exactly and what must go nearly.
"""

from __future__ import annotations

import pytest

from mainstem.model.errors import OffsetOutOfRange, PeerError
from mainstem.storage.contract import Append, Commit, ConfigureLog, LogConfig, MoveFloor
from tests.support.storage.batches import HOUR, NOW, batch, produced, sized

SIZE = 10_000
COUNT = 60
STRETCH = 8
"""Batches of SIZE that may hang together."""
OLD = NOW - 10 * HOUR


async def filled(engine, log=1, *, old=0, young=0, **config):
    """Old batches, then young ones, one record each."""
    await engine.create(log, **config)
    await engine.append(log, *[sized(SIZE, time=OLD + n) for n in range(old)])
    await engine.append(log, *[sized(SIZE, time=NOW - 1_000 + n) for n in range(young)])


async def kept(engine, log=1):
    """The start after all maintenance; what is above is whole, what is below is gone, the end is where it was."""
    before = engine.end(log)
    await engine.seal()
    facts = await engine.facts(log)
    assert facts.end == before
    assert len(await engine.read_all(log)) == facts.end - facts.start
    if facts.start:
        with pytest.raises(OffsetOutOfRange):
            await engine.read(log, facts.start - 1, 100)
    return facts.start


def nearly(offset):
    """Up to a stretch below, never above."""
    return range(max(0, offset - STRETCH), offset + 1)


# --- age ------------------------------------------------------------------------------------------------------------


async def test_without_limits_everything_stays(engine):
    await filled(engine, old=COUNT)
    engine.clock.advance(10_000 * HOUR)
    report = await engine.settle()
    assert report.trimmed_logs == 0
    assert await kept(engine) == 0


async def test_what_is_older_than_the_limit_goes(engine):
    await filled(engine, old=40, young=20, retention_ms=HOUR)
    assert await kept(engine) in nearly(40)


async def test_maintenance_says_what_it_did(engine):
    await filled(engine, log=1, young=COUNT, retention_ms=HOUR)
    await filled(engine, log=2, young=COUNT)
    assert (await engine.settle()).trimmed_logs == 0
    engine.clock.advance(2 * HOUR)
    assert (await engine.settle()).trimmed_logs == 1
    assert (await engine.settle()).trimmed_logs == 0


async def test_everything_goes_when_everything_is_old(engine):
    await filled(engine, old=30, young=30, retention_ms=HOUR)
    engine.clock.advance(2 * HOUR)
    assert await kept(engine) == 60
    assert await engine.append(1, batch(b"next", time=engine.clock.now_ms())) == [60]
    async for stage in engine.stages():
        assert await engine.values(1) == [b"next"], stage


async def test_age_is_by_the_clock_of_the_engine(engine):
    await filled(engine, young=COUNT, retention_ms=HOUR)
    engine.clock.advance(HOUR // 2)
    assert await kept(engine) == 0
    engine.clock.advance(HOUR)
    assert await kept(engine) == COUNT


async def test_what_is_just_young_enough_stays(engine):
    await engine.create(1, retention_ms=HOUR)
    await engine.append(1, *[sized(SIZE, time=NOW - HOUR + 1) for _ in range(COUNT)])
    assert await kept(engine) == 0
    engine.clock.advance(2)
    assert await kept(engine) == COUNT


async def test_a_young_batch_keeps_what_is_behind_it(engine):
    """A log loses its beginning only."""
    await engine.create(1, retention_ms=HOUR)
    await engine.append(1, sized(SIZE, time=NOW), *[sized(SIZE, time=OLD) for _ in range(COUNT)])
    assert await kept(engine) == 0


async def test_a_small_log_goes_by_age_too(engine):
    await engine.create(1, retention_ms=HOUR)
    await engine.append(1, batch(b"a", time=OLD), batch(b"b", time=OLD))
    assert await kept(engine) == 2


async def test_a_batch_without_a_time_is_as_old_as_its_arrival(engine):
    await engine.create(1, retention_ms=HOUR)
    await engine.append(1, *[batch(b"x", time=-1) for _ in range(10)])
    assert await kept(engine) == 0
    engine.clock.advance(2 * HOUR)
    assert await kept(engine) == 10


# --- size -----------------------------------------------------------------------------------------------------------


async def test_what_is_above_the_size_goes_from_the_beginning(engine):
    await filled(engine, young=COUNT, retention_bytes=20 * SIZE)
    assert await kept(engine) in nearly(COUNT - 20)


async def test_a_log_below_its_size_stays_whole(engine):
    await filled(engine, young=COUNT, retention_bytes=COUNT * SIZE)
    assert await kept(engine) == 0


async def test_size_is_of_each_log_by_itself(engine):
    await filled(engine, log=1, young=30, retention_bytes=40 * SIZE)
    await filled(engine, log=2, young=30, retention_bytes=40 * SIZE)
    assert await kept(engine, 1) == 0
    assert await kept(engine, 2) == 0


# --- both, and neither ----------------------------------------------------------------------------------------------


async def test_either_limit_suffices(engine):
    await filled(engine, log=1, old=20, young=40, retention_ms=HOUR, retention_bytes=30 * SIZE)
    await filled(engine, log=2, old=40, young=20, retention_ms=HOUR, retention_bytes=30 * SIZE)
    assert await kept(engine, 1) in nearly(COUNT - 30)
    assert await kept(engine, 2) in nearly(40)


async def test_a_log_that_does_not_delete(engine):
    await filled(engine, old=COUNT, retention_ms=HOUR, retention_bytes=SIZE, delete=False)
    assert await kept(engine) == 0


async def test_limits_can_be_changed(engine):
    await filled(engine, old=30, young=30)
    assert await kept(engine) == 0
    await engine.alter([ConfigureLog(1, LogConfig(retention_ms=HOUR))])
    assert await kept(engine) in nearly(30)
    await engine.alter([ConfigureLog(1, LogConfig(retention_bytes=10 * SIZE))])
    assert await kept(engine) in nearly(50)


async def test_logs_of_different_limits_beside_each_other(engine):
    for log, hours in [(1, 1), (2, 5), (3, None)]:
        await engine.create(log, retention_ms=None if hours is None else hours * HOUR)
    for n in range(30):
        for log in (1, 2, 3):
            await engine.append(log, sized(SIZE, time=NOW - 3 * HOUR + n))
        if n == 15:
            await engine.settle()
    assert [await kept(engine, log) for log in (1, 2, 3)] == [30, 0, 0]


# --- acknowledgement ------------------------------------------------------------------------------------------------


async def move(engine, offset, log=1):
    await engine.alter([MoveFloor(log, offset)])


async def test_ignore_does_not_look_at_the_floor(engine):
    await filled(engine, log=1, old=40, young=20, retention_ms=HOUR, acknowledged="ignore")
    await filled(engine, log=2, young=COUNT, acknowledged="ignore")
    await move(engine, 10, 1)
    await move(engine, COUNT, 2)
    assert await kept(engine, 1) in nearly(40)
    assert await kept(engine, 2) == 0


async def test_hold_keeps_what_is_above_the_floor_whatever_its_age(engine):
    await filled(engine, old=COUNT, retention_ms=HOUR, acknowledged="hold")
    assert await kept(engine) == 0
    await move(engine, 30)
    assert await kept(engine) in nearly(30)
    await move(engine, COUNT)
    assert await kept(engine) == COUNT


async def test_hold_keeps_what_is_above_the_floor_whatever_its_size(engine):
    await filled(engine, young=COUNT, retention_bytes=10 * SIZE, acknowledged="hold")
    assert await kept(engine) == 0
    await move(engine, 30)
    assert await kept(engine) in nearly(30)
    await move(engine, COUNT)
    assert await kept(engine) in nearly(COUNT - 10)


async def test_hold_keeps_what_is_young_below_the_floor(engine):
    """It can be rewound."""
    await filled(engine, log=1, old=20, young=40, retention_ms=HOUR, acknowledged="hold")
    await filled(engine, log=2, young=COUNT, acknowledged="hold")
    await move(engine, COUNT, 1)
    await move(engine, COUNT, 2)
    assert await kept(engine, 1) in nearly(20)
    assert await kept(engine, 2) == 0


@pytest.mark.parametrize("floor", [1, 17, 30, COUNT])
async def test_release_lets_go_below_the_floor_at_once(engine, floor):
    await filled(engine, young=COUNT, acknowledged="release", retention_ms=1_000 * HOUR)
    assert await kept(engine) == 0
    await move(engine, floor)
    assert await kept(engine) == floor
    assert await engine.append(1, batch(b"next")) == [COUNT]


async def test_release_needs_no_other_limit(engine):
    await filled(engine, young=COUNT, acknowledged="release", delete=False)
    await move(engine, 20)
    assert await kept(engine) == 20


async def test_the_floor_only_grows(engine):
    await filled(engine, young=COUNT, acknowledged="release")
    await move(engine, 40)
    (result,) = await engine.commit([Commit(changes=[MoveFloor(1, 10)])])
    assert not isinstance(result, Exception) or isinstance(result, PeerError)
    assert await kept(engine) == 40


async def test_the_floor_moves_with_its_commit(engine):
    """Dead-lettering: written there and acknowledged here."""
    await filled(engine, log=1, old=COUNT, retention_ms=HOUR, acknowledged="hold")
    await engine.create(2)
    await engine.commit_one(Commit(appends=[Append(2, batch(b"dead"))], changes=[MoveFloor(1, 40)]))
    await engine.refused(Commit(appends=[Append(2, b"bad")], changes=[MoveFloor(1, COUNT)]))
    assert await kept(engine, 1) in nearly(40)
    assert await engine.values(2) == [b"dead"]


async def test_the_floor_survives_a_restart(engine):
    await filled(engine, old=COUNT, retention_ms=100 * HOUR, acknowledged="hold")
    await move(engine, 40)
    await engine.reopen()
    await engine.settle()
    await engine.reopen()
    engine.clock.advance(200 * HOUR)
    assert await kept(engine) in nearly(40)


async def test_the_mode_can_be_changed(engine):
    await filled(engine, old=COUNT, retention_ms=HOUR, acknowledged="hold")
    await move(engine, 20)
    assert await kept(engine) in nearly(20)
    await engine.alter([ConfigureLog(1, LogConfig(acknowledged="release"))])
    assert await kept(engine) == 20
    await engine.alter([ConfigureLog(1, LogConfig(retention_ms=HOUR))])
    assert await kept(engine) == COUNT


# --- what stays true ------------------------------------------------------------------------------------------------


async def test_producers_are_known_when_their_batches_are_gone(engine):
    await engine.create(1, retention_ms=HOUR)
    await engine.append(1, produced(7, 0, time=OLD), produced(7, 1, time=OLD))
    assert await kept(engine) == 2
    async for stage in engine.stages():
        result = await engine.commit_one(Commit(appends=[Append(1, produced(7, 1, time=OLD))]))
        assert (list(result.bases), list(result.repeated)) == ([1], [0]), stage
    assert await engine.append(1, produced(7, 2)) == [2]


async def test_an_unfinished_transaction_is_not_cut(engine):
    await engine.create(1, retention_ms=HOUR)
    await engine.append(1, *[sized(SIZE, time=OLD) for _ in range(30)])
    await engine.append(1, produced(7, 0, transactional=True, time=OLD))
    await engine.append(1, *[sized(SIZE, time=OLD) for _ in range(29)])
    assert await kept(engine) in nearly(30)
    assert (await engine.facts(1)).stable == 30
