"""What tests of acquisitions publish, and how they ask."""

from collections.abc import Sequence

from mainstem.broker.acquisitions import Acquire, Acquisition, Source
from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE, NewTopic
from mainstem.broker.queues import Queue, QueueProperties, encode_headers
from mainstem.broker.subscriptions.subscriptions import ReadRequest
from mainstem.storage.contract import Append, Commit
from mainstem.wire.record_batch import Record, encode_batch

LEASE_MS = 60_000


def stretches(one: Acquisition) -> list[tuple[int, int, int]]:
    """Of all logs, one after the other."""
    return [tuple(stretch) for _, stretch in one.held()]


def offsets(one: Acquisition) -> list[int]:
    return [offset for _, (first, last, _) in one.held() for offset in range(first, last + 1)]


async def topic(broker: Broker, name: str, partitions: int = 1, **configs: str) -> Sequence[int]:
    return (await broker.topics.ensure(NewTopic(name, partitions, configs))).logs


async def produce(broker: Broker, log: int, *values: bytes) -> None:
    records = [Record(at, 1_000, None, value) for at, value in enumerate(values)]
    (result,) = await broker.publish([Commit([Append(log, encode_batch(records))])])
    assert not isinstance(result, Exception), result


async def queue(broker: Broker, name: str, **properties: object) -> Queue:
    return await broker.queues.declare(DEFAULT_NAMESPACE, name, QueueProperties(durable=True, **properties))


async def put(broker: Broker, to: Queue, *values: bytes) -> None:
    for value in values:
        broker.queues.outbox.put([to], encode_headers([]), value)
    await broker.queues.outbox.wait_durable()


async def acquire(
    broker: Broker, name: str, records: int = 1_000, *, topics: Sequence[str] = (), **other: object
) -> Acquisition | None:
    source = Source(name, None if topics else DEFAULT_NAMESPACE)
    starting = "earliest" if topics else None
    return await broker.acquisitions.acquire(
        Acquire(source, records, LEASE_MS, topics, starting=starting, **other)  # type: ignore[arg-type]
    )


async def shared(broker: Broker, group: str, log: int, records: int = 1_000) -> list[tuple[int, int, int]]:
    """What a member of the share group is given."""
    await broker.share_groups.ensure(group)
    await broker.share_groups.open(group, log)
    taken = await broker.share_groups.subscriptions.take(group, log, ReadRequest("member", records, 1 << 20, True))
    return [tuple(leased) for leased in taken.leased]
