"""Reading: whole batches from an offset on, wherever they lie, and the facts of the log with them."""

from __future__ import annotations

import random

import pytest

from mainstem.model.errors import OffsetOutOfRange, UnknownLog
from mainstem.storage.contract import ReadHint
from tests.support.storage.batches import as_sent, bases_of, batch, sized, split, values_of

KIB = 1 << 10
MIB = 1 << 20
BOTH = [ReadHint.TAIL, ReadHint.CATCH_UP]


async def filled(engine, count=10, each=3, log=1):
    """A log of equal batches: answers what was sent."""
    await engine.create(log)
    sent = [bytes(batch(*(b"%d" % (n * each + k) for k in range(each)))) for n in range(count)]
    await engine.append(log, *map(bytearray, sent))
    return sent


async def test_everything_in_one_read(engine):
    sent = await filled(engine)
    async for stage in engine.stages():
        for hint in BOTH:
            result = await engine.read(1, 0, MIB, hint)
            assert [as_sent(part) for part in split(result.batches)] == [as_sent(part) for part in sent], stage
            assert (result.start, result.end, result.stable, result.next_offset) == (0, 30, 30, 30), stage
            assert list(result.aborted) == []


async def test_the_first_batch_contains_the_offset(engine):
    await filled(engine)
    async for stage in engine.stages():
        for offset in range(30):
            result = await engine.read(1, offset, MIB)
            assert bases_of(result.batches) == list(range(offset // 3 * 3, 30, 3)), (stage, offset)
            assert result.next_offset == 30


async def test_no_more_than_asked_for(engine):
    sent = await filled(engine)
    size = len(sent[0])
    assert {len(part) for part in sent[:3]} == {size}
    async for stage in engine.stages():
        for hint in BOTH:
            for asked, expected in [(size, 1), (2 * size - 1, 1), (2 * size, 2), (3 * size + 1, 3)]:
                result = await engine.read(1, 0, asked, hint)
                assert len(split(result.batches)) == expected, (stage, asked)
                assert result.next_offset == 3 * expected


async def test_the_first_batch_comes_whatever_was_asked_for(engine):
    await filled(engine)
    async for stage in engine.stages():
        for hint in BOTH:
            for offset in (0, 1, 29):
                result = await engine.read(1, offset, 1, hint)
                assert bases_of(result.batches) == [offset // 3 * 3], stage
                assert result.next_offset == offset // 3 * 3 + 3


async def test_a_read_of_nothing_asks_for_the_facts(engine):
    sent = await filled(engine)
    async for stage in engine.stages():
        for offset in (0, 5, 30):
            result = await engine.read(1, offset, 0)
            assert list(result.batches) == [], stage
            assert (result.start, result.end, result.stable, result.next_offset) == (0, 30, 30, offset), stage
            assert result.stored_bytes == sum(map(len, sent)), stage


async def test_reading_at_the_end_is_empty(engine):
    await filled(engine)
    async for stage in engine.stages():
        for hint in BOTH:
            result = await engine.read(1, 30, MIB, hint)
            assert list(result.batches) == [], stage
            assert (result.end, result.next_offset) == (30, 30)


async def test_an_empty_log(engine):
    await engine.create(1)
    async for stage in engine.stages():
        result = await engine.read(1, 0, MIB)
        assert list(result.batches) == [], stage
        assert (result.start, result.end, result.stable, result.next_offset, result.stored_bytes) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize("max_bytes", [0, MIB])
async def test_outside_the_log_is_out_of_range_on_both_sides(engine, max_bytes):
    await filled(engine)
    await engine.trim(1, 6)
    async for stage in engine.stages():
        for offset in (-1, 0, 5, 31, 1 << 40, (1 << 63) - 1):
            with pytest.raises(OffsetOutOfRange) as raised:
                await engine.read(1, offset, max_bytes)
            assert (raised.value.offset, raised.value.start, raised.value.end) == (offset, 6, 30), stage


async def test_an_unknown_log(engine):
    await engine.create(1)
    with pytest.raises(UnknownLog):
        await engine.read(2, 0, MIB)


async def test_a_log_in_small_steps(engine):
    sent = await filled(engine, 40)
    async for stage in engine.stages():
        for hint in BOTH:
            for asked in (1, 150, 200, 1000):
                found = await engine.read_all(1, 0, asked, hint)
                assert [as_sent(part) for part in found] == [as_sent(part) for part in sent], (stage, asked)


async def test_the_tail_while_it_is_written(engine):
    await engine.create(1)
    offset, found = 0, []
    for n in range(100):
        await engine.append(1, batch(b"%d" % n))
        if n % 7 == 0:
            result = await engine.read(1, offset, MIB)
            found += values_of(result.batches)
            offset = result.next_offset
    found += values_of((await engine.read(1, offset, MIB)).batches)
    assert found == [b"%d" % n for n in range(100)]


@pytest.mark.slow
async def test_a_log_over_many_files(engine):
    """More than memory for the newest holds: some of it merged, some sealed, some just written."""
    await engine.create(1, 2)
    sent = {1: [], 2: []}
    randomness = random.Random(1)
    for n in range(400):
        log = 1 if n % 3 else 2
        content = bytes(batch(randomness.randbytes(randomness.choice([10, 100, 1000, 3000]))))
        sent[log].append(content)
        await engine.append(log, bytearray(content))
        if n % 100 == 50:
            await engine.settle()
    async for stage in engine.stages():
        for log in (1, 2):
            for hint, asked in [(ReadHint.TAIL, 10_000), (ReadHint.CATCH_UP, 50_000), (ReadHint.CATCH_UP, MIB)]:
                found = await engine.read_all(log, 0, asked, hint)
                assert [as_sent(part) for part in found] == [as_sent(part) for part in sent[log]], (stage, log)
            for _ in range(20):
                offset = randomness.randrange(len(sent[log]))
                result = await engine.read(log, offset, 1)
                assert as_sent(split(result.batches)[0]) == as_sent(sent[log][offset]), (stage, log, offset)


async def test_as_much_as_was_asked_for_and_no_less(engine):
    """A reader that asks for much does not get a batch at a time, wherever the batches lie."""
    await engine.create(1)
    for n in range(200):
        await engine.append(1, sized(1_000, fill=b"%d" % (n % 10)))
    async for stage in engine.stages():
        reads = 0
        offset = 0
        while offset < 200:
            offset = (await engine.read(1, offset, 50_000, ReadHint.CATCH_UP)).next_offset
            reads += 1
        assert reads <= 40, stage


@pytest.mark.parametrize("size", [60 * KIB, 64 * KIB, 70 * KIB, 1000 * KIB])
async def test_large_batches_among_small_ones(engine, size):
    await engine.create(1)
    sent = [bytes(part) for part in (batch(b"a"), sized(size), batch(b"b"), sized(size, fill=b"z"), batch(b"c"))]
    await engine.append(1, *map(bytearray, sent))
    async for stage in engine.stages():
        found = await engine.read_all(1, 0, 100)
        assert [as_sent(part) for part in found] == [as_sent(part) for part in sent], stage
        result = await engine.read(1, 1, 10)
        assert bases_of(result.batches) == [1], stage


async def test_a_large_batch_given_as_a_view_of_a_receive_buffer(engine):
    await engine.create(1)
    sent = bytes(sized(100 * KIB))
    chunk = memoryview(bytearray(bytes(1000) + sent + bytes(1000)))
    await engine.append(1, chunk[1000:-1000])
    async for stage in engine.stages():
        assert [as_sent(part) for part in await engine.read_all(1)] == [as_sent(sent)], stage


async def test_what_was_read_stays_as_it_was(engine):
    """Nobody writes into a buffer that a reader holds."""
    sent = await filled(engine, 20)
    held = [await engine.read(1, 0, MIB)]
    await engine.settle()
    held.append(await engine.read(1, 0, MIB, ReadHint.CATCH_UP))
    await engine.create(2)
    for _ in range(10):
        await engine.append(2, sized(30_000, fill=b"!"))
        await engine.append(1, sized(30_000, fill=b"!"))
    await engine.read(2, 0, MIB)
    await engine.trim(1, engine.end(1))
    await engine.settle()
    for result in held:
        assert [as_sent(part) for part in split(result.batches)] == [as_sent(part) for part in sent]


async def test_many_reads_at_once(engine):
    sent = await filled(engine, 200)
    async for stage in engine.stages():
        answers = [engine.read(1, n * 3, 1, BOTH[n % 2]) for n in range(200)]
        for content, answer in zip(sent, answers, strict=True):
            assert as_sent(split((await answer).batches)[0]) == as_sent(content), stage


async def test_reads_while_maintenance_moves_things(engine):
    sent = await filled(engine, 100)
    for _ in range(5):
        await engine.append(1, sized(40_000))
    reads = [engine.read(1, n * 3, 1) for n in range(100)]
    await engine.settle()
    reads += [engine.read(1, n * 3, 1) for n in range(100)]
    for n, answer in enumerate(reads):
        assert as_sent(split((await answer).batches)[0]) == as_sent(sent[n % 100])


async def test_the_size_of_a_log_is_that_of_its_batches(engine):
    await engine.create(1, 2)
    total = 0
    for n in range(20):
        total += len(batch(bytes(n * 100)))
        await engine.append(1, batch(bytes(n * 100)))
    await engine.append(2, sized(5_000))
    async for stage in engine.stages():
        assert (await engine.facts(1)).stored_bytes == total, stage
        assert (await engine.facts(2)).stored_bytes == 5_000, stage
