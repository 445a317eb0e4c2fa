"""Trimming moves the start and nothing else."""

from __future__ import annotations

import pytest

from mainstem.model.errors import OffsetOutOfRange, UnknownLog
from mainstem.storage.contract import Append, Commit, Committed, Edge, TrimLog
from tests.support.storage.batches import bases_of, batch, sized, values_of


async def filled(engine, count=10):
    """Batches of three records."""
    await engine.create(1)
    await engine.append(1, *[batch(*(b"%d" % (3 * n + k) for k in range(3))) for n in range(count)])


async def test_it_answers_the_new_start(engine):
    await filled(engine)
    assert await engine.trim(1, 6) == 6
    async for stage in engine.stages():
        facts = await engine.facts(1)
        assert (facts.start, facts.end) == (6, 30), stage
        assert (await engine.offset_at(1, Edge.START)).offset == 6
        assert await engine.values(1) == [b"%d" % n for n in range(6, 30)], stage


async def test_what_is_below_is_out_of_range(engine):
    await filled(engine)
    await engine.trim(1, 6)
    async for stage in engine.stages():
        for offset in range(6):
            with pytest.raises(OffsetOutOfRange) as raised:
                await engine.read(1, offset, 1_000)
            assert raised.value.start == 6, stage
        assert bases_of((await engine.read(1, 6, 1)).batches) == [6], stage


async def test_it_may_cut_a_batch(engine):
    """The batch that contains the start is still given whole: readers skip what is below."""
    await filled(engine)
    assert await engine.trim(1, 4) == 4
    async for stage in engine.stages():
        with pytest.raises(OffsetOutOfRange):
            await engine.read(1, 3, 1_000)
        result = await engine.read(1, 4, 1)
        assert result.start == 4, stage
        assert values_of(result.batches) == [b"3", b"4", b"5"], stage


async def test_it_stops_at_the_end(engine):
    await filled(engine)
    assert await engine.trim(1, 1_000) == 30
    async for stage in engine.stages():
        facts = await engine.facts(1)
        assert (facts.start, facts.end) == (30, 30), stage
        assert await engine.values(1) == [], stage


async def test_the_start_never_goes_back(engine):
    await filled(engine)
    await engine.trim(1, 6)
    assert await engine.trim(1, 3) == 6
    assert await engine.trim(1, 0) == 6
    assert await engine.trim(1, -5) == 6
    assert await engine.values(1) == [b"%d" % n for n in range(6, 30)]


async def test_the_end_is_kept_when_everything_is_gone(engine):
    await filled(engine)
    await engine.trim(1, 30)
    async for stage in engine.stages():
        assert engine.end(1) == 30, stage
    assert await engine.append(1, batch(b"next")) == [30]
    async for stage in engine.stages():
        assert await engine.values(1) == [b"next"], stage


async def test_the_end_is_kept_when_everything_is_gone_and_nobody_asked_in_between(engine):
    await filled(engine)
    await engine.trim(1, 30)
    await engine.reopen()
    await engine.settle()
    await engine.reopen()
    assert await engine.append(1, batch(b"next")) == [30]


async def test_again_and_again(engine):
    await engine.create(1)
    for n in range(30):
        assert await engine.append(1, sized(8_000)) == [n]
        if n % 3 == 2:
            assert await engine.trim(1, n) == n
        if n % 10 == 9:
            await engine.settle()
    async for stage in engine.stages():
        facts = await engine.facts(1)
        assert (facts.start, facts.end) == (29, 30), stage
        assert bases_of(await engine.read_all(1)) == [29], stage


async def test_an_empty_log(engine):
    await engine.create(1)
    assert await engine.trim(1, 5) == 0
    assert await engine.append(1, batch(b"x")) == [0]


async def test_an_unknown_log(engine):
    with pytest.raises(UnknownLog):
        await engine.trim(1, 0)


async def test_with_a_commit(engine):
    """As a queue does it: written there, gone here, at once."""
    await filled(engine)
    await engine.create(2)
    await engine.commit_one(Commit(appends=[Append(2, batch(b"moved"))], changes=[TrimLog(1, 3)]))
    async for stage in engine.stages():
        assert (await engine.facts(1)).start == 3, stage
        assert await engine.values(2) == [b"moved"], stage


async def test_what_the_same_commit_appends_may_go_too(engine):
    await filled(engine)
    await engine.commit_one(Commit(appends=[Append(1, batch(b"x"))], changes=[TrimLog(1, 31)]))
    facts = await engine.facts(1)
    assert facts.end == 31
    assert 30 <= facts.start <= 31


async def test_it_stands_in_the_order_of_the_calls(engine):
    await engine.create(1)
    first = engine.commit([Commit(appends=[Append(1, batch(b"a", b"b"))])])
    trimmed = engine.trim(1, 100)
    second = engine.commit([Commit(appends=[Append(1, batch(b"c"))])])
    assert isinstance((await first)[0], Committed)
    assert await trimmed == 2
    assert list((await second)[0].bases) == [2]
    assert await engine.values(1) == [b"c"]


async def test_other_logs_keep_theirs(engine):
    await engine.create(1, 2)
    for _ in range(10):
        await engine.append(1, sized(10_000))
        await engine.append(2, sized(10_000))
    await engine.trim(1, 10)
    async for stage in engine.stages():
        assert len(await engine.read_all(2)) == 10, stage


async def test_the_space_comes_back(engine):
    await engine.create(1)
    await engine.append(1, *[sized(10_000) for _ in range(20)])
    await engine.trim(1, 20)
    await engine.seal()
    assert (await engine.facts(1)).stored_bytes == 0


async def test_a_held_position_below_the_new_start(engine):
    """A reader that was in the middle learns where to go on."""
    await filled(engine)
    result = await engine.read(1, 0, 1)
    await engine.trim(1, 15)
    with pytest.raises(OffsetOutOfRange) as raised:
        await engine.read(1, result.next_offset, 1)
    assert raised.value.start == 15
    assert bases_of((await engine.read(1, 15, 1)).batches) == [15]
