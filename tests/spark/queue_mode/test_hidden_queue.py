"""Queues that Kafka's protocol does not show are read over HTTP, as raw batches too."""

from pyspark.sql.types import StructType

from mainstem.pipelines.queue_mode.columns import queue_schema
from mainstem.pipelines.queue_mode.options import QueueOptions
from mainstem.pipelines.queue_mode.reading import HeldPart, HeldScan, split_held
from mainstem.sdk.acquisitions import Acquisitions, HeldLog, Subscribed
from tests.support.serving.queue_broker import QueueBroker


def test_both_ways_read_the_same(queues: QueueBroker) -> None:
    queues.declare("hidden")
    queues.publish("hidden", [b"%d" % number for number in range(100)])
    calls = Acquisitions(queues.http, timeout_s=10)
    taken = calls.acquire(Subscribed("hidden"), records_max=60, lease_ms=60_000)
    assert taken is not None
    given = {"address": queues.kafka, "subscription": "hidden", "includeHeaders": "true"}
    schema = queue_schema(given)
    assert isinstance(schema, StructType)
    scan = HeldScan(QueueOptions(given), schema)
    (held,) = calls.pin(taken).logs
    seen = [rows(scan, taken, queues.http, part) for part in (held, held._replace(topic=None))]
    assert [row["value"] for row in seen[0]] == [b"%d" % number for number in range(60)]
    assert {row["_deliveries"] for row in seen[0]} == {1}
    assert [row | {"topic": "hidden"} for row in seen[1]] == seen[0]
    parts = split_held([held], 3)
    assert [row for part in parts for row in rows(scan, taken, queues.http, part)] == seen[0]
    assert len(parts) == 3
    calls.settle(taken)
    assert queues.counts("hidden") == (40, 0)


def rows(scan: HeldScan, name: str, http: str, held: HeldLog) -> list[dict[str, object]]:
    part = HeldPart(name, http, held, is_settled=False)
    return [row for batch in scan.read(part) for row in batch.to_pylist()]


def test_a_queue_of_another_virtual_host(queues: QueueBroker) -> None:
    queues.create_host("west")
    with queues.channel("west") as channel:
        channel.queue_declare("far", durable=True)
        channel.basic_publish("", "far", b"over there")
    calls = Acquisitions(queues.http, timeout_s=10)
    taken = calls.acquire(Subscribed("far", vhost="west"), records_max=60, lease_ms=60_000)
    assert taken is not None
    given = {"address": queues.kafka, "subscription": "far", "vhost": "west"}
    schema = queue_schema(given)
    assert isinstance(schema, StructType)
    (held,) = calls.pin(taken).logs
    assert held.topic is None
    found = rows(HeldScan(QueueOptions(given), schema), taken, queues.http, held)
    assert [(row["value"], row["topic"]) for row in found] == [(b"over there", "far")]
