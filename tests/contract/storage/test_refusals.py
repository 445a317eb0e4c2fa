"""What is not one good batch is refused by name, and the log goes on as if it had never come."""

from __future__ import annotations

import pytest

from mainstem.model.errors import BatchTooLarge, CorruptBatch, InvalidBatch, PeerError, UnknownLog
from mainstem.storage.contract import Append, Commit, ConfigureLog, LogConfig, Mutation
from mainstem.wire.record_batch import (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    BATCH_LENGTH_AT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    MAGIC_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
)
from tests.support.storage.batches import batch, keyed, marker, produced, resealed, sized

GOOD = bytes(batch(b"a", b"b", b"c"))


def changed(position, size, value, content=GOOD, *, seal=True):
    copy = bytearray(content)
    copy[position : position + size] = value.to_bytes(size, "big", signed=value < 0)
    return resealed(copy) if seal else copy


BAD = {
    "empty": b"",
    "one byte": b"\0",
    "header cut": GOOD[: HEADER_BYTES - 1],
    "header only": GOOD[:HEADER_BYTES],
    "last byte missing": GOOD[:-1],
    "trailing byte": GOOD + b"\0",
    "two batches": GOOD + GOOD,
    "magic 0": changed(MAGIC_AT, 1, 0),
    "magic 1": changed(MAGIC_AT, 1, 1),
    "magic 3": changed(MAGIC_AT, 1, 3),
    "compression 5": changed(ATTRIBUTES_AT, 2, 5),
    "compression 7": changed(ATTRIBUTES_AT, 2, 7),
    "no records": changed(RECORD_COUNT_AT, 4, 0),
    "negative count": changed(RECORD_COUNT_AT, 4, -1),
    "count above offsets": changed(RECORD_COUNT_AT, 4, 4),
    "offsets above count": changed(LAST_OFFSET_DELTA_AT, 4, 9),
    "negative last offset": changed(LAST_OFFSET_DELTA_AT, 4, -3),
    "length too small": changed(BATCH_LENGTH_AT, 4, 10),
    "length too large": changed(BATCH_LENGTH_AT, 4, len(GOOD)),
    "length negative": changed(BATCH_LENGTH_AT, 4, -1),
    "producer without sequence": changed(PRODUCER_ID_AT, 8, 7),
    "no records and no offsets": changed(LAST_OFFSET_DELTA_AT, 4, -1, changed(RECORD_COUNT_AT, 4, 0)),
    "control record that is no marker": bytes(
        keyed((b"key", b"value"), control=True, transactional=True, producer_id=7, producer_epoch=0)
    ),
    "marker without a producer": bytes(marker(-1, commit=True, epoch=-1)),
    "transaction without a producer": bytes(batch(b"a", transactional=True)),
    "negative sequence": changed(BASE_SEQUENCE_AT, 4, -1, bytes(produced(7, 0))),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "with-others"])
async def test_it_is_refused_as_an_invalid_batch(engine, name, alone):
    await engine.create(1, 2)
    await engine.append(1, batch(b"before"))
    appends = [Append(1, bytearray(BAD[name]))]
    if not alone:
        appends = [Append(2, batch(b"never")), *appends, Append(1, batch(b"never"))]
    error = await engine.refused(Commit(appends=appends))
    assert isinstance(error, InvalidBatch)
    assert await engine.append(1, batch(b"after")) == [1]
    assert await engine.values(1) == [b"before", b"after"]
    assert await engine.values(2) == []


@pytest.mark.parametrize("position", [17, ATTRIBUTES_AT, RECORD_COUNT_AT - 1, HEADER_BYTES, len(GOOD) - 1])
async def test_a_flipped_bit_is_a_corrupt_batch(engine, position):
    await engine.create(1)
    damaged = bytearray(GOOD)
    damaged[position] ^= 0x10
    assert isinstance(await engine.refused(Commit(appends=[Append(1, damaged)])), CorruptBatch)
    assert engine.end(1) == 0


async def test_no_flipped_byte_is_stored(engine):
    """Whatever byte the checksum covers is changed; only base offset and leader epoch are not covered."""
    await engine.create(1)
    commits = []
    for position in range(8, len(GOOD)):
        if not 12 <= position < 16:
            damaged = bytearray(GOOD)
            damaged[position] ^= 0xFF
            commits.append(Commit(appends=[Append(1, damaged)]))
    results = await engine.commit(commits)
    assert all(isinstance(result, InvalidBatch) for result in results)
    assert engine.end(1) == 0


async def test_no_cut_batch_is_stored(engine):
    await engine.create(1)
    results = await engine.commit([Commit(appends=[Append(1, GOOD[:size])]) for size in range(len(GOOD))])
    assert all(isinstance(result, InvalidBatch) for result in results)
    assert engine.end(1) == 0


async def test_a_batch_may_be_as_large_as_its_log_takes_and_no_larger(engine):
    await engine.create(1, batch_bytes_max=2_000)
    await engine.create(2, batch_bytes_max=3_000)
    results = await engine.commit(
        [
            Commit(appends=[Append(1, sized(2_000))]),
            Commit(appends=[Append(1, sized(2_001))]),
            Commit(appends=[Append(2, sized(2_001))]),
            Commit(appends=[Append(2, sized(3_000))]),
            Commit(appends=[Append(2, sized(3_001))]),
        ]
    )
    assert [isinstance(result, BatchTooLarge) for result in results] == [False, True, False, False, True]
    assert engine.end(1) == 1
    assert engine.end(2) == 2


async def test_the_largest_batch_of_a_log_can_be_changed(engine):
    await engine.create(1, batch_bytes_max=2_000)
    await engine.alter([ConfigureLog(1, LogConfig(batch_bytes_max=1_000))])
    assert isinstance(await engine.refused(Commit(appends=[Append(1, sized(1_001))])), BatchTooLarge)
    await engine.alter([ConfigureLog(1, LogConfig(batch_bytes_max=2_000_000))])
    await engine.append(1, sized(1_500_000))
    async for stage in engine.stages():
        assert len((await engine.read_all(1))[0]) == 1_500_000, stage
        assert isinstance(await engine.refused(Commit(appends=[Append(1, sized(2_000_001))])), BatchTooLarge), stage


async def test_the_default_limit_is_the_configured_one(engine):
    await engine.create(1)
    size = LogConfig().batch_bytes_max
    await engine.append(1, sized(size))
    assert isinstance(await engine.refused(Commit(appends=[Append(1, sized(size + 1))])), BatchTooLarge)


async def test_an_unknown_log_is_refused(engine):
    await engine.create(1)
    assert isinstance(await engine.refused(Commit(appends=[Append(2, batch(b"x"))])), UnknownLog)


@pytest.mark.parametrize("scope", ["engine/", "engine/logs", "engine/files", "engine/anything"])
async def test_the_engines_own_scopes_are_refused(engine, scope):
    before = await engine.state(scope)
    assert isinstance(await engine.refused(Commit(state=[Mutation(scope, b"k", b"v")])), PeerError)
    assert isinstance(await engine.refused(Commit(state=[Mutation(scope, b"k", None)])), PeerError)
    with pytest.raises(PeerError):
        await engine.alter([], [Mutation(scope, b"k", b"v")])
    assert await engine.state(scope) == before


@pytest.mark.parametrize("scope", ["engine", "engines/x", "Engine/x", "", "x/engine/"])
async def test_other_scopes_are_free(engine, scope):
    await engine.commit_one(Commit(state=[Mutation(scope, b"k", b"v")]))
    assert await engine.state(scope) == {b"k": b"v"}


async def test_the_engines_own_scopes_can_be_loaded(engine):
    await engine.create(1)
    assert len(await engine.state("engine/logs")) == 1


async def test_a_refusal_waits_for_nothing_that_was_refused(engine):
    """The batch after a thousand refused ones gets the offset as if they had never come."""
    await engine.create(1)
    answers = [engine.commit([Commit(appends=[Append(1, BAD[name])]) for name in BAD]) for _ in range(50)]
    answers.append(engine.commit([Commit(appends=[Append(1, batch(b"x"))])]))
    for answer in answers[:-1]:
        assert all(isinstance(result, InvalidBatch) for result in await answer)
    (result,) = await answers[-1]
    assert list(result.bases) == [0]
