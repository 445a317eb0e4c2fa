"""References: one batch in several logs, each with offsets of its own."""

from __future__ import annotations

import pytest

from mainstem.model.errors import PeerError, UnknownLog
from mainstem.storage.contract import (
    Append,
    Commit,
    Committed,
    CreateLog,
    DeleteLog,
    KeyAfter,
    LogConfig,
    Mutation,
    ReadHint,
    Refer,
    TimeAfter,
    TrimLog,
)
from mainstem.wire.record_batch import read_header
from tests.support.storage.batches import NOW, as_sent, bases_of, batch, keyed, produced, sized


async def test_the_reader_sees_the_batch_with_its_own_offsets(engine):
    await engine.create(1, 2)
    await engine.append(2, batch(b"own", b"own", b"own"))
    sent = bytes(keyed((b"k", b"a"), (None, b"b"), time=[NOW, NOW + 5]))
    result = await engine.commit_one(Commit(appends=[Append(1, bytearray(sent))], refers=[Refer(2, 0)]))
    assert list(result.bases) == [0, 3]
    assert list(result.repeated) == []
    async for stage in engine.stages():
        assert await engine.pairs(1) == [(0, b"k", b"a"), (1, None, b"b")], stage
        assert (await engine.pairs(2))[3:] == [(3, b"k", b"a"), (4, None, b"b")], stage
        stored = (await engine.read_all(2))[1]
        assert as_sent(stored) == as_sent(sent), stage
        assert read_header(stored).base_offset == 3
        assert engine.end(2) == 5, stage


async def test_bases_are_those_of_the_appends_and_then_those_of_the_references(engine):
    await engine.create(1, 2, 3)
    result = await engine.commit_one(
        Commit(
            appends=[Append(1, batch(b"a", b"a")), Append(2, batch(b"b"))],
            refers=[Refer(3, 1), Refer(2, 0), Refer(3, 0), Refer(1, 1)],
        )
    )
    assert list(result.bases) == [0, 0, 0, 1, 1, 2]
    async for stage in engine.stages():
        assert await engine.values(1) == [b"a", b"a", b"b"], stage
        assert await engine.values(2) == [b"b", b"a", b"a"], stage
        assert await engine.values(3) == [b"b", b"a", b"a"], stage


async def test_fan_out_to_many_logs(engine):
    logs = range(2, 102)
    await engine.create(1, *logs)
    for n in range(5):
        content = sized(3_000, fill=b"%d" % n)
        result = await engine.commit_one(Commit(appends=[Append(1, content)], refers=[Refer(log, 0) for log in logs]))
        assert list(result.bases) == [n] * 101
    async for stage in engine.stages():
        expected = await engine.read_all(1)
        assert len(expected) == 5
        for log in (2, 50, 101):
            assert await engine.read_all(log) == expected, (stage, log)


async def test_fan_out_to_logs_with_other_offsets(engine):
    """Read in every way, from wherever the engine has it, also when half of the logs are gone."""
    logs = range(2, 30)
    await engine.create(1, *logs)
    for log in logs:
        await engine.append(log, *[batch(b"own of %d" % log) for _ in range(log % 5)])
    sent = []
    for n in range(200):
        sent.append(bytes(keyed((b"k%d" % n, b"%d" % n * 30), (None, b"second"), time=NOW + n)))
        await engine.commit_one(
            Commit(appends=[Append(1, bytearray(sent[-1]))], refers=[Refer(log, 0) for log in logs])
        )
    for log in (3, 4, 9):
        await engine.trim(log, log % 5 + 2 * log)
    gone = set()
    async for stage in engine.stages():
        for log in {1, 2, 3, 4, 9, 17, 28} - gone:
            own = 0 if log == 1 else log % 5
            first = log if log in (3, 4, 9) else 0
            for hint in ReadHint:
                found = await engine.read_all(log, offset=own + 2 * first, max_bytes=3000, hint=hint)
                assert [as_sent(part) for part in found] == [as_sent(part) for part in sent[first:]], (stage, log)
                assert bases_of(found) == [own + 2 * n for n in range(first, 200)], (stage, log)
            at = await engine.offset_at(log, TimeAfter(NOW + 150))
            assert (at.offset, at.timestamp_ms) == (own + 300, NOW + 150), (stage, log)
            assert (await engine.offset_at(log, KeyAfter(b"k77"))).offset == own + 154, (stage, log)
            assert bases_of((await engine.read(log, own + 201, 1)).batches)[0] == own + 200, (stage, log)
        if stage == "settled":
            gone = {1, *range(10, 24)}
            await engine.alter([DeleteLog(log) for log in sorted(gone)])


async def test_own_batches_and_references_in_turn(engine):
    await engine.create(1, 2)
    expected = []
    for n in range(40):
        if n % 3 == 0:
            await engine.append(2, batch(b"own %d" % n * 50))
            expected.append(b"own %d" % n * 50)
        else:
            value = b"other %d" % n * 50
            await engine.commit_one(Commit(appends=[Append(1, batch(value, value))], refers=[Refer(2, 0)]))
            expected += [value, value]
        if n == 20:
            await engine.settle()
    async for stage in engine.stages():
        assert await engine.pairs(2) == [(n, None, value) for n, value in enumerate(expected)], stage
        for offset in range(0, len(expected), 7):
            result = await engine.read(2, offset, 1)
            assert bases_of(result.batches)[0] <= offset < result.next_offset, stage


async def test_a_list_of_commits_with_references(engine):
    await engine.create(1, 2)
    results = await engine.commit(
        [Commit(appends=[Append(1, batch(b"%d" % n))], refers=[Refer(2, 0)]) for n in range(20)]
    )
    assert [list(result.bases) for result in results] == [[n, n] for n in range(20)]
    async for stage in engine.stages():
        assert await engine.values(2) == [b"%d" % n for n in range(20)], stage


async def test_own_batches_and_references_in_turn_in_one_call(engine):
    """Whatever is written together keeps the order of the Commits."""
    await engine.create(1, 2)
    results = await engine.commit(
        [
            Commit(appends=[Append(1, batch(b"%d" % n))], refers=[Refer(2, 0)])
            if n % 2
            else Commit(appends=[Append(2, batch(b"%d" % n))])
            for n in (1, 2, 3, 4, 6, 8, 5, 7, 9)
        ]
    )
    assert [result.bases[-1] for result in results] == list(range(9))
    async for stage in engine.stages():
        assert await engine.values(2) == [b"%d" % n for n in (1, 2, 3, 4, 6, 8, 5, 7, 9)], stage
        assert await engine.values(1) == [b"1", b"3", b"5", b"7", b"9"], stage
        assert engine.end(2) == 9, stage
        assert bases_of((await engine.read(2, 3, 1)).batches) == [3], stage


async def test_into_the_same_log(engine):
    await engine.create(1)
    result = await engine.commit_one(Commit(appends=[Append(1, batch(b"a"))], refers=[Refer(1, 0)]))
    assert list(result.bases) == [0, 1]
    async for stage in engine.stages():
        assert await engine.pairs(1) == [(0, None, b"a"), (1, None, b"a")], stage


async def test_twice_into_one_log(engine):
    await engine.create(1, 2)
    result = await engine.commit_one(Commit(appends=[Append(1, batch(b"a", b"b"))], refers=[Refer(2, 0), Refer(2, 0)]))
    assert list(result.bases) == [0, 0, 2]
    async for stage in engine.stages():
        assert await engine.values(2) == [b"a", b"b", b"a", b"b"], stage


# --- the other log goes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["at once", "settled before", "restarted before"])
@pytest.mark.parametrize("how", ["trimmed", "deleted", "trimmed and written on"])
async def test_the_first_log_goes_without_harm_to_the_second(engine, when, how):
    await engine.create(1, 2)
    for n in range(5):
        content = sized(9_000, fill=b"%d" % n)
        await engine.commit_one(Commit(appends=[Append(1, content)], refers=[Refer(2, 0)]))
    expected = await engine.read_all(2)
    if when == "settled before":
        await engine.settle()
    elif when == "restarted before":
        await engine.reopen()
    if how == "deleted":
        await engine.alter([DeleteLog(1)])
    else:
        await engine.trim(1, 5)
    if how == "trimmed and written on":
        for _ in range(20):
            await engine.append(1, sized(9_000, fill=b"!"))
    async for stage in engine.stages():
        assert await engine.read_all(2) == expected, stage


@pytest.mark.parametrize("how", ["trimmed", "deleted"])
async def test_the_second_log_goes_without_harm_to_the_first(engine, how):
    await engine.create(1, 2)
    for n in range(5):
        await engine.commit_one(Commit(appends=[Append(1, sized(9_000, fill=b"%d" % n))], refers=[Refer(2, 0)]))
    expected = await engine.read_all(1)
    await engine.alter([DeleteLog(2) if how == "deleted" else TrimLog(2, 5)])
    async for stage in engine.stages():
        assert await engine.read_all(1) == expected, stage
        if how == "trimmed":
            assert engine.end(2) == 5, stage
    if how == "trimmed":
        assert await engine.append(2, batch(b"x")) == [5]


async def test_a_trimmed_end_of_references_only_is_kept(engine):
    await engine.create(1, 2)
    await engine.commit_one(Commit(appends=[Append(1, batch(b"a", b"b"))], refers=[Refer(2, 0)]))
    await engine.trim(2, 2)
    await engine.alter([DeleteLog(1)])
    async for stage in engine.stages():
        assert engine.end(2) == 2, stage
    assert await engine.append(2, batch(b"x")) == [2]


# --- refusals and repetitions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("refer", [Refer(2, 1), Refer(2, -1), Refer(2, 99), Refer(77, 0)], ids=str)
async def test_a_bad_reference_refuses_its_commit(engine, refer):
    await engine.create(1, 2)
    results = await engine.commit(
        [
            Commit(appends=[Append(1, batch(b"a"))], refers=[Refer(2, 0)]),
            Commit(
                appends=[Append(1, batch(b"never"))], refers=[Refer(2, 0), refer], state=[Mutation("s", b"k", b"v")]
            ),
            Commit(appends=[Append(1, batch(b"b"))], refers=[Refer(2, 0)]),
        ]
    )
    assert [isinstance(result, Committed) for result in results] == [True, False, True]
    assert isinstance(results[1], UnknownLog if refer.log == 77 else PeerError)
    assert await engine.values(1) == await engine.values(2) == [b"a", b"b"]
    assert await engine.state("s") == {}


async def test_a_reference_without_an_append_is_refused(engine):
    await engine.create(1, 2)
    await engine.append(1, batch(b"x"))
    assert isinstance(await engine.refused(Commit(refers=[Refer(2, 0)])), PeerError)


async def test_a_reference_to_a_repeated_append_is_not_made_again(engine):
    await engine.create(1, 2)
    commit = [Append(1, bytes(produced(7, 0))), Append(1, bytes(batch(b"beside")))]
    first = await engine.commit_one(Commit(appends=commit, refers=[Refer(2, 0), Refer(2, 1)]))
    assert list(first.bases) == [0, 1, 0, 1]
    commit = [Append(1, bytes(produced(7, 0))), Append(1, bytes(batch(b"again")))]
    second = await engine.commit_one(Commit(appends=commit, refers=[Refer(2, 0), Refer(2, 1)]))
    assert list(second.bases) == [0, 2, -1, 2]
    assert list(second.repeated) == [0]
    async for stage in engine.stages():
        assert await engine.values(2) == [b"7/0/0", b"beside", b"again"], stage


async def test_producers_are_not_checked_again(engine):
    """The same producer may have written to the second log by itself, with sequences of its own."""
    await engine.create(1, 2)
    await engine.append(2, produced(7, 0, epoch=5), produced(7, 1, epoch=5))
    result = await engine.commit_one(Commit(appends=[Append(1, produced(7, 0))], refers=[Refer(2, 0)]))
    assert list(result.bases) == [0, 2]
    async for stage in engine.stages():
        result = await engine.commit_one(Commit(appends=[Append(2, produced(7, 1, epoch=5))]))
        assert list(result.repeated) == [0], stage
    assert await engine.append(2, produced(7, 2, epoch=5)) == [3]


# --- found like others ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key_index", [False, True])
async def test_they_are_found_by_time_and_by_key(engine, key_index):
    await engine.create(1)
    await engine.alter([CreateLog(2, LogConfig(key_index=key_index))])
    await engine.append(2, keyed((b"own", b"x"), time=NOW))
    await engine.commit_one(
        Commit(appends=[Append(1, keyed((b"a", b"1"), (b"b", b"2"), time=[NOW + 10, NOW + 20]))], refers=[Refer(2, 0)])
    )
    async for stage in engine.stages():
        found = await engine.offset_at(2, TimeAfter(NOW + 15))
        assert (found.offset, found.timestamp_ms) == (2, NOW + 20), stage
        assert (await engine.offset_at(2, KeyAfter(b"a"))).offset == 1, stage
        assert (await engine.offset_at(1, KeyAfter(b"a"))).offset == 0, stage


@pytest.mark.parametrize("size", [100, 40_000, 200_000])
async def test_batches_of_any_size(engine, size):
    await engine.create(1, 2)
    sent = bytes(sized(size))
    chunk = memoryview(bytearray(sent))
    await engine.commit_one(Commit(appends=[Append(1, chunk)], refers=[Refer(2, 0)]))
    async for stage in engine.stages():
        for log in (1, 2):
            for hint in ReadHint:
                found = await engine.read_all(log, hint=hint)
                assert [as_sent(part) for part in found] == [as_sent(sent)], (stage, hint)
