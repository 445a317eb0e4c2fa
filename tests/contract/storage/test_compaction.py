"""Compaction by key, as maintenance does it: the last record of a key stays, at its offset."""

from __future__ import annotations

import random

import pytest

from mainstem.model.errors import KeyRequired
from mainstem.storage.contract import (
    Aborted,
    Append,
    Commit,
    ConfigureLog,
    Edge,
    KeyAfter,
    LogConfig,
    Mutation,
    TimeAfter,
)
from mainstem.wire.record_batch import Record, encode_batch
from tests.support.storage.batches import (
    DAY,
    HOUR,
    NOW,
    batch,
    delivered,
    keyed,
    marker,
    produced,
    records_of,
)

MIB = 1 << 20


async def compacted_log(engine, log=1, **config):
    await engine.create(log, compact=True, dirty_ratio_min=0.0, **config)


async def test_the_last_record_of_each_key_stays_at_its_offset(engine):
    await compacted_log(engine)
    await engine.append(1, keyed((b"a", b"1"), (b"b", b"1")), keyed((b"a", b"2"), (b"c", b"1")), keyed((b"b", b"2")))
    report = await engine.seal()
    assert report.compacted_logs >= 1
    async for stage in engine.stages():
        assert await engine.pairs(1) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2")], stage
        facts = await engine.facts(1)
        assert (facts.start, facts.end) == (0, 5), stage
    assert await engine.append(1, keyed((b"d", b"1"))) == [5]


async def test_before_maintenance_everything_is_there(engine):
    await compacted_log(engine)
    await engine.append(1, keyed((b"a", b"1")), keyed((b"a", b"2")))
    assert await engine.pairs(1) == [(0, b"a", b"1"), (1, b"a", b"2")]


async def test_other_logs_are_left_alone(engine):
    await compacted_log(engine)
    await engine.create(2)
    for log in (1, 2):
        await engine.append(log, keyed((b"a", b"1")), keyed((b"a", b"2")))
    await engine.seal()
    assert await engine.pairs(1) == [(1, b"a", b"2")]
    assert await engine.pairs(2) == [(0, b"a", b"1"), (1, b"a", b"2")]


async def test_reading_over_the_gaps(engine):
    """Wherever a reader stands, it gets what comes next, and goes on above it."""
    await compacted_log(engine)
    await engine.append(1, *[keyed((b"k%d" % (n % 10), b"%d" % n)) for n in range(100)])
    await engine.seal()
    async for stage in engine.stages():
        for offset in range(0, 100):
            result = await engine.read(1, offset, 1)
            assert result.next_offset > offset, (stage, offset)
            found = [record.offset for record in records_of(result.batches) if record.offset >= offset]
            if found:
                assert found[0] == max(90, offset), (stage, offset)
        assert [offset for offset, _, _ in await engine.pairs(1)] == list(range(90, 100)), stage


async def test_what_is_written_later_replaces_what_was_compacted(engine):
    await compacted_log(engine)
    for round_ in range(4):
        await engine.append(1, *[keyed((b"%d" % key, b"%d" % round_)) for key in range(10)])
        await engine.seal()
        expected = [(10 * round_ + key, b"%d" % key, b"%d" % round_) for key in range(10)]
        assert await engine.pairs(1) == expected


async def test_the_space_comes_back(engine):
    await compacted_log(engine)
    for _ in range(30):
        await engine.append(1, keyed((b"k", bytes(10_000))))
    await engine.seal()
    assert (await engine.facts(1)).stored_bytes < 100_000


async def test_it_ends(engine):
    """A compacted log is not compacted again and again."""
    await compacted_log(engine)
    await engine.append(1, *[keyed((b"k%d" % (n % 3), b"%d" % n)) for n in range(20)])
    await engine.seal()
    assert (await engine.settle()).compacted_logs == 0


@pytest.mark.slow
async def test_random_histories(engine):
    randomness = random.Random(5)
    await compacted_log(engine)
    model: dict[bytes, tuple[int, bytes]] = {}
    offset = 0
    for _ in range(6):
        for _ in range(40):
            pairs = [
                (b"key-%d" % randomness.randrange(25), randomness.randbytes(randomness.choice([5, 900])))
                for _ in range(randomness.randrange(1, 5))
            ]
            await engine.append(1, keyed(*pairs, compression=randomness.choice([0, 0, 1])))
            for key, value in pairs:
                model[key] = (offset, value)
                offset += 1
        await engine.seal()
        assert await engine.pairs(1) == sorted((at, key, value) for key, (at, value) in model.items())


# --- records --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
async def test_what_stays_of_a_batch_is_whole(engine, compression):
    await compacted_log(engine)
    headers = [("h", b"1"), ("h", None), ("", b"")]
    records = [Record(n, NOW - 10 + n, b"k%d" % n, b"v" * 100, headers) for n in range(5)]
    await engine.append(1, encode_batch(records, compression=compression), keyed((b"k1", b"new"), (b"k3", b"new")))
    await engine.seal()
    async for stage in engine.stages():
        found = records_of(await engine.read_all(1))
        assert [record.offset for record in found] == [0, 2, 4, 5, 6], stage
        for record in found[:3]:
            assert (bytes(record.key), bytes(record.value)) == (b"k%d" % record.offset, b"v" * 100), stage
            assert record.timestamp_ms == NOW - 10 + record.offset, stage
            assert [(name, None if v is None else bytes(v)) for name, v in record.headers] == headers, stage


async def test_positions_are_found_among_what_stayed(engine):
    await compacted_log(engine)
    await engine.append(1, *[keyed((b"k%d" % (n % 4), b"%d" % n), time=NOW - 20 + n) for n in range(20)])
    await engine.seal()
    async for stage in engine.stages():
        assert (await engine.offset_at(1, KeyAfter(b"k2"))).offset == 18, stage
        assert (await engine.offset_at(1, KeyAfter(b"k2", 19))).offset == -1, stage
        assert (await engine.offset_at(1, TimeAfter(NOW - 17))).offset == 16, stage
        assert (await engine.offset_at(1, Edge.NEWEST)).offset == 19, stage


@pytest.mark.parametrize("compression", [0, 1, 4])
@pytest.mark.parametrize("alone", [True, False])
async def test_a_record_without_a_key_is_refused(engine, compression, alone):
    await compacted_log(engine)
    await engine.create(2)
    await engine.append(1, keyed((b"a", b"1")))
    bad = keyed((b"a", b"2"), (None, b"no key"), compression=compression)
    state = [] if alone else [Mutation("s", b"k", b"v")]
    appends = [Append(1, bad)] if alone else [Append(2, batch(b"x")), Append(1, bad)]
    assert isinstance(await engine.refused(Commit(appends=appends, state=state)), KeyRequired)
    assert await engine.pairs(1) == [(0, b"a", b"1")]
    assert engine.end(2) == 0
    assert await engine.state("s") == {}


async def test_an_empty_key_is_a_key(engine):
    await compacted_log(engine)
    await engine.append(1, keyed((b"", b"1")), keyed((b"", b"2")), keyed((b"x", b"3")))
    await engine.seal()
    assert await engine.pairs(1) == [(1, b"", b"2"), (2, b"x", b"3")]


async def test_a_log_compacted_later(engine):
    """What has no key stays or goes, and does not stand in the way."""
    await engine.create(1)
    await engine.append(1, batch(b"no key"), keyed((b"a", b"1")), keyed((b"a", b"2")))
    await engine.alter([ConfigureLog(1, LogConfig(compact=True, dirty_ratio_min=0.0))])
    assert isinstance(await engine.refused(Commit(appends=[Append(1, batch(b"no key"))])), KeyRequired)
    await engine.append(1, keyed((b"b", b"1")))
    await engine.seal()
    assert [pair for pair in await engine.pairs(1) if pair[1] is not None] == [(2, b"a", b"2"), (3, b"b", b"1")]


# --- tombstones -----------------------------------------------------------------------------------------------------


async def test_a_tombstone_replaces_and_stays_for_its_time(engine):
    await compacted_log(engine, tombstone_retention_ms=HOUR)
    await engine.append(1, keyed((b"a", b"1")), keyed((b"b", b"1")), keyed((b"a", None)))
    await engine.seal()
    assert await engine.pairs(1) == [(1, b"b", b"1"), (2, b"a", None)]
    engine.clock.advance(HOUR // 2)
    await engine.append(1, keyed((b"c", b"1")))
    await engine.seal()
    assert await engine.pairs(1) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]


async def test_a_tombstone_goes_after_its_time(engine):
    await compacted_log(engine, tombstone_retention_ms=HOUR)
    await engine.append(1, keyed((b"a", b"1")), keyed((b"a", None)), keyed((b"b", b"1")))
    for n in range(3):
        await engine.seal()
        engine.clock.advance(2 * HOUR)
        await engine.append(1, keyed((b"b", b"%d" % n)))
    await engine.seal()
    async for stage in engine.stages():
        assert await engine.pairs(1) == [(5, b"b", b"2")], stage


async def test_a_log_of_which_nothing_is_left_keeps_its_end(engine):
    await compacted_log(engine, tombstone_retention_ms=0)
    await engine.append(1, keyed((b"a", b"1")), keyed((b"a", None)))
    for _ in range(3):
        await engine.seal()
        engine.clock.advance(2 * DAY)
    await engine.seal()
    async for stage in engine.stages():
        assert engine.end(1) == 2, stage
        assert [pair for pair in await engine.pairs(1) if pair[2] is not None] == [], stage
    assert await engine.append(1, keyed((b"a", b"3"))) == [2]
    async for stage in engine.stages():
        assert (await engine.pairs(1))[-1] == (2, b"a", b"3"), stage


# --- when -----------------------------------------------------------------------------------------------------------


async def test_young_records_stay_as_they_are(engine):
    await compacted_log(engine, compaction_lag_ms_min=HOUR)
    await engine.append(1, keyed((b"a", b"1"), time=NOW - 2 * HOUR), keyed((b"a", b"2"), time=NOW - 2 * HOUR))
    await engine.append(1, keyed((b"a", b"3")), keyed((b"a", b"4")))
    await engine.seal()
    values = [value for _, _, value in await engine.pairs(1)]
    assert values[-3:] == [b"2", b"3", b"4"]
    engine.clock.advance(2 * HOUR)
    await engine.append(1, keyed((b"a", b"5"), time=NOW))
    await engine.seal()
    assert await engine.pairs(1) == [(4, b"a", b"5")]


async def test_little_to_gain_is_left_for_later(engine):
    await engine.create(1, compact=True, dirty_ratio_min=0.0)
    await engine.append(1, *[keyed((b"k%d" % n, bytes(1_000))) for n in range(50)])
    await engine.seal()
    await engine.alter([ConfigureLog(1, LogConfig(compact=True, dirty_ratio_min=0.9))])
    await engine.append(1, keyed((b"k0", b"new")))
    await engine.seal()
    assert (await engine.pairs(1))[-1] == (50, b"k0", b"new")
    assert len(await engine.pairs(1)) in (50, 51)


async def test_old_records_are_compacted_however_little_there_is_to_gain(engine):
    lag = {"compact": True, "dirty_ratio_min": 0.9, "compaction_lag_ms_max": HOUR}
    await compacted_log(engine, 1)
    await compacted_log(engine, 2)
    await engine.append(1, *[keyed((b"k%d" % n, bytes(1_000))) for n in range(50)])
    await engine.seal()
    await engine.alter([ConfigureLog(1, LogConfig(**lag))])
    await engine.append(1, keyed((b"k0", b"new"), time=NOW))
    engine.clock.advance(HOUR)
    await engine.settle()
    await engine.append(2, keyed((b"b", b"1"), time=NOW))  # begins the next file
    await engine.settle()
    pairs = await engine.pairs(1)
    assert pairs[-1] == (50, b"k0", b"new")
    assert len(pairs) == 50


async def test_what_is_old_or_large_enough_need_not_wait_for_a_full_file(engine):
    await compacted_log(engine, 1, segment_ms=60_000)
    await compacted_log(engine, 2, segment_bytes=1_000)
    await compacted_log(engine, 3)
    for log in (1, 2, 3):
        await engine.append(log, keyed((b"a", b"1"), time=NOW), keyed((b"a", bytes(1_000)), time=NOW))
    for _ in range(2):  # one is sealed for the age of its records, one for their size
        engine.clock.advance(HOUR)
        await engine.settle()
        await engine.append(3, keyed((b"b", b"1"), time=NOW))
        await engine.settle()
    assert await engine.pairs(1) == [(1, b"a", bytes(1_000))]
    assert await engine.pairs(2) == [(1, b"a", bytes(1_000))]


async def test_with_retention_by_age(engine):
    await compacted_log(engine, retention_ms=HOUR)
    await engine.append(1, keyed((b"a", b"1"), time=NOW - DAY), keyed((b"b", b"1"), time=NOW - DAY))
    await engine.append(1, keyed((b"a", b"2"), time=NOW))
    await engine.seal()
    engine.clock.advance(2 * HOUR)
    await engine.seal()
    assert await engine.pairs(1) == []
    assert engine.end(1) == 3


async def test_without_retention_by_age(engine):
    await compacted_log(engine, retention_ms=HOUR, delete=False)
    await engine.append(1, keyed((b"a", b"1"), time=NOW - DAY), keyed((b"a", b"2"), time=NOW - DAY))
    await engine.seal()
    assert await engine.pairs(1) == [(1, b"a", b"2")]


async def test_a_trimmed_log(engine):
    await compacted_log(engine)
    await engine.append(1, keyed((b"a", b"1")), keyed((b"b", b"1")), keyed((b"a", b"2")))
    await engine.trim(1, 2)
    await engine.seal()
    assert await engine.pairs(1) == [(2, b"a", b"2")]


# --- producers and transactions -------------------------------------------------------------------------------------


async def test_producers_are_known_when_their_batches_are_gone(engine):
    await compacted_log(engine)
    await engine.append(1, *[produced(7, n, key=b"k") for n in range(4)])
    await engine.seal()
    async for stage in engine.stages():
        result = await engine.commit_one(Commit(appends=[Append(1, produced(7, 1, key=b"k"))]))
        assert (list(result.bases), list(result.repeated)) == ([1], [0]), stage
    assert await engine.append(1, produced(7, 4, key=b"k")) == [4]


async def test_an_aborted_record_replaces_nothing(engine):
    await compacted_log(engine)
    await engine.append(1, keyed((b"a", b"good")))
    await engine.append(1, produced(7, 0, transactional=True, key=b"a"), marker(7, commit=False))
    await engine.append(1, keyed((b"b", b"beside")))
    await engine.seal()
    async for stage in engine.stages():
        assert delivered(await engine.read(1, 0, MIB)) == [b"good", b"beside"], stage


async def test_a_committed_record_replaces(engine):
    await compacted_log(engine)
    await engine.append(1, keyed((b"a", b"old")))
    await engine.append(1, produced(7, 0, transactional=True, key=b"a"), marker(7, commit=True))
    await engine.seal()
    async for stage in engine.stages():
        assert delivered(await engine.read(1, 0, MIB)) == [b"7/0/0"], stage


@pytest.mark.parametrize("commit", [False, True])
async def test_an_open_transaction_replaces_nothing_yet(engine, commit):
    await compacted_log(engine)
    await engine.append(1, keyed((b"a", b"old")), produced(7, 0, transactional=True, key=b"a"))
    await engine.append(1, keyed((b"b", b"1")), keyed((b"b", b"2")))
    await engine.seal()
    result = await engine.read(1, 0, MIB)
    assert delivered(result) == [b"old"]
    assert result.stable == 1
    await engine.append(1, marker(7, commit=commit), keyed((b"c", b"1")))
    await engine.seal()
    async for stage in engine.stages():
        found = delivered(await engine.read(1, 0, MIB))
        assert found == ([b"7/0/0", b"2", b"1"] if commit else [b"old", b"2", b"1"]), stage


async def test_an_open_transaction_behind_much_else(engine):
    """What lies before it is compacted; what it may replace is not, until it is known whether it does."""
    await compacted_log(engine)
    await engine.append(1, keyed((b"a", b"old")))
    await engine.append(1, *[keyed((b"k%d" % (n % 5), b"%d" % n * 2_000)) for n in range(100)])
    await engine.append(1, produced(7, 0, transactional=True, key=b"a"))
    await engine.append(1, *[keyed((b"k%d" % (n % 5), b"late")) for n in range(5)])
    await engine.seal()
    found = [(offset, key) for offset, key, _ in await engine.pairs(1)]
    assert found[0] == (0, b"a")
    assert len(found) < 50
    last_before = [(96 + n, b"k%d" % n) for n in range(5)]
    left_alone = [(101, b"a"), *((102 + n, b"k%d" % n) for n in range(5))]
    assert found[-11:] == last_before + left_alone
    await engine.append(1, marker(7, commit=False))
    await engine.seal()
    async for stage in engine.stages():
        assert delivered(await engine.read(1, 0, MIB)) == [b"old", *[b"late"] * 5], stage


async def test_ranges_of_what_was_aborted_still_fit_what_is_left(engine):
    await compacted_log(engine)
    for n in range(5):
        await engine.append(1, produced(7, n, transactional=True, key=b"k%d" % n), marker(7, commit=n % 2 == 0))
    await engine.append(1, keyed((b"z", b"last")))
    await engine.seal()
    async for stage in engine.stages():
        result = await engine.read(1, 0, MIB)
        assert delivered(result)[:-1] == [b"7/0/0", b"7/0/2", b"7/0/4"], stage
        assert all(isinstance(aborted, Aborted) for aborted in result.aborted)
