"""What waits can be found, taken back and changed."""

import pytest

from mainstem.broker.schedules import Search, SearchPosition, parse_id
from mainstem.coordination.schedules.errors import DueTimeTooFar, NotScheduled
from mainstem.coordination.schedules.schedule import DAY_MS, HOUR_MS
from mainstem.model.scheduling import DUE_MS_MAX
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.record_batch import encode_headers
from tests.support.worlds.brokers import with_engine
from tests.unit.broker.schedules.waiting import Bench


async def everything(bench: Bench, search: Search, limit: int = 1000) -> list[bytes]:
    values, after = [], None
    while True:
        page = await bench.schedules.pending(search, after, limit)
        assert len(page.found) <= limit
        values += [found.letter.value or b"" for found in page.found]
        after = page.after
        if after is None:
            return values
        assert SearchPosition.decode(after.encode()) == after


@with_engine
async def test_cancelled_ones_do_not_happen(engine: MemoryEngine) -> None:
    bench = Bench(engine)
    ids = [
        await bench.put(str(number).encode(), delay)
        for number, delay in enumerate([500, 500, 9 * HOUR_MS, 99 * DAY_MS])
    ]
    for cancelled in (ids[1], ids[2]):
        assert parse_id(cancelled.hex()) == cancelled
        await bench.schedules.cancel(cancelled)
        with pytest.raises(NotScheduled):
            await bench.schedules.cancel(cancelled)
    assert bench.schedules.pending_count == 2
    bench = await bench.restart()
    assert bench.schedules.pending_count == 2
    await bench.pass_ms(100 * DAY_MS)
    assert bench.noted.values == [b"0", b"3"]
    with pytest.raises(NotScheduled):
        await bench.schedules.find(ids[0])


@with_engine
async def test_changed_ones_happen_at_the_other_time(engine: MemoryEngine) -> None:
    bench = Bench(engine)
    first = await bench.put(b"sooner", 50 * DAY_MS)
    second = await bench.put(b"later", 500)
    changed = await bench.schedules.change(first, due_ms=bench.now_ms + 700)
    assert (await bench.schedules.find(changed)).letter.value == b"sooner"
    await bench.schedules.change(second, due_ms=bench.now_ms + 5 * HOUR_MS)
    with pytest.raises(NotScheduled):
        await bench.schedules.change(first, due_ms=bench.now_ms)
    await bench.pass_ms(1_000)
    assert bench.noted.values == [b"sooner"]
    bench = await bench.restart()
    await bench.pass_ms(5 * HOUR_MS)
    assert bench.noted.values == [b"sooner", b"later"]
    assert len(bench.noted.delivered) == 2


@with_engine
async def test_an_id_stays_good_while_its_record_goes_from_bucket_to_bucket(engine: MemoryEngine) -> None:
    bench = Bench(engine)
    record_id = await bench.put(b"value", 70 * DAY_MS)
    for passed in (15 * DAY_MS, 53 * DAY_MS, 2 * DAY_MS - HOUR_MS, HOUR_MS - 1_500):
        await bench.pass_ms(passed)
        assert (await bench.schedules.find(record_id)).letter.value == b"value"
    await bench.schedules.cancel(record_id)
    await bench.pass_ms(DAY_MS)
    assert bench.noted.values == []


@with_engine
async def test_search_by_time_topic_and_header(engine: MemoryEngine) -> None:
    bench = Bench(engine)
    begin = bench.now_ms
    for number in range(20):
        headers = encode_headers([("kind", b"even" if number % 2 == 0 else b"odd"), ("n", str(number).encode())])
        await bench.put(str(number).encode(), (number + 1) * 7 * HOUR_MS, headers, topic=f"t{number % 3}")
    assert len(await everything(bench, Search(), limit=3)) == 20
    assert sorted(await everything(bench, Search(topic="t1"))) == sorted(str(n).encode() for n in range(1, 20, 3))
    assert len(await everything(bench, Search(header=("kind", b"odd")))) == 10
    assert await everything(bench, Search(header=("n", None), topic="t0", due_before_ms=begin + 8 * HOUR_MS)) == [b"0"]
    assert (
        len(await everything(bench, Search(due_from_ms=begin + 14 * HOUR_MS, due_before_ms=begin + 28 * HOUR_MS))) == 2
    )
    assert await everything(bench, Search(namespace="other")) == []


@with_engine
async def test_a_time_that_cannot_be_kept_is_refused(engine: MemoryEngine) -> None:
    bench = Bench(engine)
    with pytest.raises(DueTimeTooFar):
        await bench.put(b"value", DUE_MS_MAX)
    assert parse_id("zz") is None
    assert parse_id("ff" * 16) is None
    assert SearchPosition.decode("1.2.3") is None
    assert SearchPosition.decode("-1.0.0.0") is None
