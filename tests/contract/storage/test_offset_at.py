"""Positions by edge, by time and by key."""

from __future__ import annotations

import random

import pytest

from mainstem.model.errors import UnknownLog
from mainstem.storage.contract import Edge, Found, KeyAfter, TimeAfter
from tests.support.storage.batches import NOW, batch, keyed, marker, produced, sized

MISSING = -1


async def find(engine, place, log=1):
    found = await engine.offset_at(log, place)
    assert isinstance(found, Found)
    return found.offset


# --- edges ----------------------------------------------------------------------------------------------------------


async def test_the_edges_of_an_empty_log(engine):
    await engine.create(1)
    async for stage in engine.stages():
        assert [await find(engine, edge) for edge in (Edge.START, Edge.END, Edge.STABLE)] == [0, 0, 0], stage
        assert await engine.offset_at(1, Edge.NEWEST) == Found(MISSING, -1), stage


async def test_the_edges_of_a_log(engine):
    await engine.create(1)
    await engine.append(1, batch(b"a", b"b"), batch(b"c"), produced(7, 0, transactional=True), batch(b"d"))
    await engine.trim(1, 1)
    async for stage in engine.stages():
        assert await find(engine, Edge.START) == 1, stage
        assert await find(engine, Edge.END) == 5, stage
        assert await find(engine, Edge.STABLE) == 3, stage


async def test_the_newest_record_is_the_one_with_the_highest_time(engine):
    await engine.create(1)
    await engine.append(1, batch(b"a", b"b", b"c", time=[NOW, NOW + 50, NOW + 20]), batch(b"d", time=NOW + 30))
    async for stage in engine.stages():
        assert await engine.offset_at(1, Edge.NEWEST) == Found(1, NOW + 50), stage
    await engine.append(1, batch(b"e", time=NOW + 60))
    async for stage in engine.stages():
        assert await engine.offset_at(1, Edge.NEWEST) == Found(4, NOW + 60), stage


async def test_the_newest_record_is_one_that_is_still_there(engine):
    await engine.create(1)
    await engine.append(1, batch(b"a", b"b", time=[NOW + 90, NOW + 10]), batch(b"c", time=NOW + 5))
    await engine.trim(1, 1)
    async for stage in engine.stages():
        assert await engine.offset_at(1, Edge.NEWEST) == Found(1, NOW + 10), stage
    await engine.trim(1, 3)
    async for stage in engine.stages():
        assert await find(engine, Edge.NEWEST) == MISSING, stage


async def test_every_place_of_an_unknown_log_is_refused(engine):
    for place in (*Edge, TimeAfter(0), KeyAfter(b"k")):
        with pytest.raises(UnknownLog):
            await engine.offset_at(5, place)


# --- time -----------------------------------------------------------------------------------------------------------


async def test_the_first_record_at_or_after_a_time(engine):
    await engine.create(1)
    await engine.append(1, *[batch(b"x", b"y", time=[NOW + 20 * n, NOW + 20 * n + 10]) for n in range(20)])
    async for stage in engine.stages():
        for n in range(40):
            assert await engine.offset_at(1, TimeAfter(NOW + 10 * n)) == Found(n, NOW + 10 * n), stage
            assert await engine.offset_at(1, TimeAfter(NOW + 10 * n - 3)) == Found(n, NOW + 10 * n), stage
        assert await engine.offset_at(1, TimeAfter(0)) == Found(0, NOW), stage
        assert await engine.offset_at(1, TimeAfter(NOW + 391)) == Found(MISSING, -1), stage


async def test_times_out_of_order(engine):
    """First by offset, not by time."""
    await engine.create(1)
    randomness = random.Random(2)
    times = []
    for n in range(60):
        some = [NOW + randomness.randrange(1_000) for _ in range(randomness.randrange(1, 5))]
        times += some
        await engine.append(1, batch(*[b"x" * randomness.choice([1, 2_000])] * len(some), time=some))
        if n == 30:
            await engine.settle()
    async for stage in engine.stages():
        for asked in [NOW + randomness.randrange(-10, 1_010) for _ in range(60)]:
            expected = next((n for n, time in enumerate(times) if time >= asked), MISSING)
            found = await engine.offset_at(1, TimeAfter(asked))
            assert found == Found(expected, times[expected] if expected >= 0 else -1), (stage, asked - NOW)


async def test_records_below_the_start_are_not_found_by_time(engine):
    await engine.create(1)
    await engine.append(1, batch(b"a", b"b", b"c", time=[NOW + 5, NOW, NOW + 7]), batch(b"d", time=NOW + 9))
    await engine.trim(1, 1)
    async for stage in engine.stages():
        assert await find(engine, TimeAfter(NOW + 3)) == 2, stage
        assert await find(engine, TimeAfter(NOW)) == 1, stage
    await engine.trim(1, 3)
    async for stage in engine.stages():
        assert await find(engine, TimeAfter(NOW)) == 3, stage


@pytest.mark.parametrize("compression", [1, 2, 3, 4])
async def test_times_in_compressed_batches(engine, compression):
    await engine.create(1)
    await engine.append(1, batch(*[b"x" * 100] * 5, time=[NOW + n for n in range(5)], compression=compression))
    async for stage in engine.stages():
        assert await engine.offset_at(1, TimeAfter(NOW + 3)) == Found(3, NOW + 3), stage


async def test_a_batch_that_bears_the_time_of_its_arrival(engine):
    await engine.create(1)
    await engine.append(1, batch(b"a", b"b", time=[1, 2], log_append_time_ms=NOW + 5), batch(b"c", time=NOW + 9))
    async for stage in engine.stages():
        assert await engine.offset_at(1, TimeAfter(NOW)) == Found(0, NOW + 5), stage
        assert await find(engine, TimeAfter(NOW + 6)) == 2, stage


async def test_time_in_a_log_of_many_files(engine):
    await engine.create(1)
    for n in range(60):
        await engine.append(1, sized(5_000, time=NOW + n))
    async for stage in engine.stages():
        for n in (0, 1, 17, 31, 58, 59):
            assert await engine.offset_at(1, TimeAfter(NOW + n)) == Found(n, NOW + n), stage
        assert await find(engine, TimeAfter(NOW + 60)) == MISSING, stage


# --- key ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["scanned", "indexed"])
def key_index(request):
    return request.param


async def test_the_first_record_with_a_key(engine, key_index):
    await engine.create(1, key_index=key_index)
    await engine.append(1, keyed((b"a", b"1"), (b"b", b"2")), keyed((b"c", b"3"), (b"a", b"4")), batch(b"none"))
    async for stage in engine.stages():
        assert await find(engine, KeyAfter(b"a")) == 0, stage
        assert await find(engine, KeyAfter(b"b")) == 1, stage
        assert await find(engine, KeyAfter(b"c")) == 2, stage
        assert await engine.offset_at(1, KeyAfter(b"d")) == Found(MISSING, -1), stage


async def test_from_an_offset_on(engine, key_index):
    await engine.create(1, key_index=key_index)
    await engine.append(1, *[keyed((b"k", b"x"), (b"other", b"y"), (b"k", b"z")) for _ in range(10)])
    offsets = [n for n in range(30) if n % 3 != 1]
    async for stage in engine.stages():
        for offset in range(31):
            expected = next((n for n in offsets if n >= offset), MISSING)
            assert await find(engine, KeyAfter(b"k", offset)) == expected, (stage, offset)


async def test_walking_from_one_to_the_next(engine, key_index):
    await engine.create(1, key_index=key_index)
    for n in range(100):
        await engine.append(1, keyed((b"key-%d" % (n % 7), b"v" * 700), time=NOW + n))
    async for stage in engine.stages():
        found, offset = [], 0
        while True:
            at = await engine.offset_at(1, KeyAfter(b"key-3", offset))
            if at.offset == MISSING:
                break
            assert at.timestamp_ms == NOW + at.offset
            found.append(at.offset)
            offset = at.offset + 1
        assert found == list(range(3, 100, 7)), stage


async def test_within_a_range_of_time(engine, key_index):
    await engine.create(1, key_index=key_index)
    await engine.append(1, *[keyed((b"k", b"x"), time=NOW + time) for time in (10, 50, 30, 20, 70)])
    async for stage in engine.stages():
        assert await find(engine, KeyAfter(b"k", since_ms=NOW + 50)) == 1, stage
        assert await find(engine, KeyAfter(b"k", since_ms=NOW + 55)) == 4, stage
        assert await find(engine, KeyAfter(b"k", since_ms=NOW + 15, until_ms=NOW + 45)) == 2, stage
        assert await find(engine, KeyAfter(b"k", offset=3, until_ms=NOW + 45)) == 3, stage
        assert await find(engine, KeyAfter(b"k", until_ms=NOW + 5)) == MISSING, stage
        assert await find(engine, KeyAfter(b"k", since_ms=NOW + 71)) == MISSING, stage
        assert await find(engine, KeyAfter(b"k", offset=4, until_ms=NOW + 45)) == MISSING, stage


async def test_an_empty_key_is_a_key_and_no_key_is_none(engine, key_index):
    await engine.create(1, key_index=key_index)
    await engine.append(1, batch(b"no key"), keyed((b"", b"empty key")))
    async for stage in engine.stages():
        assert await find(engine, KeyAfter(b"")) == 1, stage


async def test_keys_below_the_start_are_not_found(engine, key_index):
    await engine.create(1, key_index=key_index)
    await engine.append(1, keyed((b"k", b"1"), (b"k", b"2"), (b"l", b"3")), keyed((b"k", b"4")))
    await engine.trim(1, 1)
    async for stage in engine.stages():
        assert await find(engine, KeyAfter(b"k")) == 1, stage
    await engine.trim(1, 3)
    async for stage in engine.stages():
        assert await find(engine, KeyAfter(b"k")) == 3, stage
        assert await find(engine, KeyAfter(b"l")) == MISSING, stage


async def test_an_offset_behind_the_end_finds_nothing(engine, key_index):
    await engine.create(1, key_index=key_index)
    await engine.append(1, keyed((b"k", b"1")))
    assert await find(engine, KeyAfter(b"k", 1)) == MISSING
    assert await find(engine, KeyAfter(b"k", 1_000)) == MISSING


async def test_keys_in_compressed_batches(engine, key_index):
    await engine.create(1, key_index=key_index)
    await engine.append(1, keyed(*[(b"key-%d" % n, b"v" * 50) for n in range(10)], compression=1))
    async for stage in engine.stages():
        assert await find(engine, KeyAfter(b"key-7")) == 7, stage


async def test_markers_have_no_key(engine, key_index):
    await engine.create(1, key_index=key_index)
    await engine.append(1, produced(7, 0, transactional=True, key=b"k"), marker(7, commit=True))
    async for stage in engine.stages():
        assert await find(engine, KeyAfter(b"k")) == 0, stage
        assert await find(engine, KeyAfter(b"\0\0\0\1")) == MISSING, stage


async def test_random_keys(engine, key_index):
    randomness = random.Random(3)
    await engine.create(1, key_index=key_index)
    keys = []
    for n in range(80):
        some = [
            randomness.choice([None, b"", b"a", b"b", b"c", b"long" * 20]) for _ in range(randomness.randrange(1, 6))
        ]
        keys += some
        await engine.append(1, keyed(*((key, b"v" * randomness.choice([0, 1_500])) for key in some)))
        if n in (20, 50):
            await engine.settle()
    async for stage in engine.stages():
        for _ in range(40):
            key, offset = (
                randomness.choice([b"", b"a", b"b", b"c", b"long" * 20, b"no"]),
                randomness.randrange(len(keys)),
            )
            expected = next((n for n in range(offset, len(keys)) if keys[n] == key), MISSING)
            assert await find(engine, KeyAfter(key, offset)) == expected, (stage, key, offset)
