"""The age of the first record that was not consumed: found in batches of every make."""

from mainstem.protocols.http.handlers.groups import lag
from mainstem.protocols.http.handlers.groups.lag import LagMeter
from mainstem.wire.compression import GZIP
from mainstem.wire.record_batch import Record, encode_batch
from tests.support.clients.http_client import NOW_MS, Client, with_client


async def age(client: Client, offset: int) -> float | None:
    (log,) = client.broker.topics.get("a").logs
    return (await LagMeter(client.broker).measure(log, offset)).seconds


@with_client
async def test_within_a_batch_it_is_the_records_own(client: Client) -> None:
    await client.create("a")
    await client.publish("a", NOW_MS - 9_000, NOW_MS - 7_000, NOW_MS - 8_000, compression=GZIP)
    assert [await age(client, offset) for offset in range(4)] == [9.0, 7.0, 8.0, 0.0]


@with_client
async def test_a_batch_too_large_to_be_opened_is_as_old_as_its_first_record(client: Client) -> None:
    await client.create("a")
    large = b"x" * lag.DECODED_BYTES_MAX
    for compression in (0, GZIP):
        records = [Record(0, NOW_MS - 9_000, None, large), Record(1, NOW_MS - 7_000, None, b"")]
        await client.publish_batch("a", encode_batch(records, compression=compression))
    assert (await age(client, 1), await age(client, 3)) == (9.0, 9.0)


@with_client
async def test_stamped_by_us_it_is_the_time_of_arrival(client: Client) -> None:
    await client.create("a")
    await client.publish("a", 1, 2, log_append_time_ms=NOW_MS - 3_000)
    assert await age(client, 1) == 3.0


@with_client
async def test_a_record_from_the_future_is_not_younger_than_now(client: Client) -> None:
    await client.create("a")
    await client.publish("a", NOW_MS + 10_000)
    assert await age(client, 0) == 0.0


@with_client
async def test_a_position_that_stands_still_is_read_once(client: Client) -> None:
    await client.create("a")
    await client.publish("a", NOW_MS - 1_000)
    (log,) = client.broker.topics.get("a").logs
    meter = LagMeter(client.broker)
    reads = []
    read = client.broker.read
    client.broker.read = lambda *asked: reads.append(asked) or read(*asked)
    assert [(await meter.measure(log, 0)).seconds for _ in range(3)] == [1.0, 1.0, 1.0]
    assert len(reads) == 1


@with_client
async def test_remembered_times_are_bounded(client: Client) -> None:
    await client.create("a")
    await client.publish("a", *range(NOW_MS - 5, NOW_MS))
    (log,) = client.broker.topics.get("a").logs
    meter = LagMeter(client.broker, times_max=2)
    for offset in range(5):
        await meter.measure(log, offset)
        assert len(meter._times) <= 2
