"""A queue, or topics under a subscription, as a stream of Spark's: each row settled with its batch."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import mainstem.spark
from mainstem.sdk.client import Client
from tests.spark.topics import stream
from tests.support.clients.committed import committed_values
from tests.support.clients.confluent import create, send
from tests.support.serving.queue_broker import QueueBroker

pytestmark = [pytest.mark.system, pytest.mark.slow]
NOW = {"availableNow": True}


def out(broker: QueueBroker, topic: str) -> list[bytes]:
    with Client(broker.kafka) as client:
        return sorted(committed_values(client, topic))


def write(frame: DataFrame, broker: QueueBroker, topic: str, checkpoint: Path, **options: object) -> None:
    given = {"address": broker.kafka, "topic": topic, "checkpointLocation": str(checkpoint), **options}
    frame.writeStream.format("mainstem").options(**given).trigger(**NOW).start().awaitTermination()


def test_a_queue_is_read_and_settled_with_the_output(spark: SparkSession, queues: QueueBroker, tmp_path: Path) -> None:
    queues.declare("orders", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.dead"})
    queues.declare("orders.dead")
    queues.declare("orders.done")
    queues.publish("orders", [b"%d" % number for number in range(50)])
    rows = stream(spark, queues, subscription="orders", maxRowsPerTrigger=20)
    assert rows.columns[-2:] == ["_receipt", "_deliveries"]
    number = F.col("value").cast("string").cast("int")
    ruled = rows.select(
        "_receipt",
        F.concat(F.lit("done "), F.col("value").cast("string")).alias("value"),
        F.when(number % 10 == 3, "reject").when((number == 5) & (F.col("_deliveries") == 1), "retry").alias("_verdict"),
        F.when(number % 10 == 3, F.lit("ends with 3")).alias("_reason"),
        F.when(number == 5, F.lit(100_000)).cast("long").alias("_retryAfterMs"),
    )
    # the delay is for retries alone
    ruled = ruled.withColumn("_retryAfterMs", F.expr("IF(_verdict = 'retry', _retryAfterMs, NULL)"))
    write(ruled, queues, "orders.out", tmp_path / "checkpoint")
    accepted = sorted(b"done %d" % n for n in range(50) if n % 10 != 3 and n != 5)
    assert out(queues, "orders.out") == accepted
    assert queues.conditions("orders") == []
    dead = queues.drain("orders.dead")
    assert sorted(body for body, _ in dead) == [b"13", b"23", b"3", b"33", b"43"]
    assert {headers["x-first-death-reason"] for _, headers in dead} == {"rejected"}
    assert queues.counts("orders") == (1, 0)
    # what is published while nobody looks is found by the next run; what rests is not
    queues.publish("orders", [b"50"])
    write(ruled, queues, "orders.out", tmp_path / "checkpoint")
    assert out(queues, "orders.out") == sorted([*accepted, b"done 50"])


def test_topics_are_read_under_a_subscription(spark: SparkSession, queues: QueueBroker, tmp_path: Path) -> None:
    create(queues, "clicks", 3)
    for partition in range(3):
        send(queues, "clicks", [b"%d" % (10 * n + partition) for n in range(10)], partition)
    rows = stream(spark, queues, subscription="clickers", topic="clicks", startingOffsets="earliest")
    write(rows.select("value"), queues, "clicks.out", tmp_path / "checkpoint")
    assert out(queues, "clicks.out") == sorted(b"%d" % (10 * n + p) for n in range(10) for p in range(3))
    shown = queues.get("/v1/groups/clickers")
    assert (shown["lag_messages"], queues.conditions("clickers")) == (0, [])


def test_rejects_of_topics_are_dead_letters(spark: SparkSession, queues: QueueBroker, tmp_path: Path) -> None:
    create(queues, "events", 1)
    admin = AdminClient({"bootstrap.servers": queues.kafka})
    create(queues, "dlq.events")
    set_config(admin, ResourceType.TOPIC, "dlq.events", {"errors.deadletterqueue.group.enable": "true"})
    wanted = {"errors.deadletterqueue.topic.name": "dlq.events", "errors.deadletterqueue.copy.record.enable": "true"}
    queues_config(queues, "eventers", wanted)
    send(queues, "events", [b"good", b"bad"])
    rows = stream(spark, queues, subscription="eventers", topics="events", startingOffsets="earliest")
    ruled = rows.selectExpr(
        "value", "_receipt", "IF(value = X'626164', 'reject', NULL) AS _verdict", "'is bad' AS _reason"
    )
    write(ruled, queues, "events.out", tmp_path / "checkpoint")
    assert (out(queues, "events.out"), out(queues, "dlq.events")) == ([b"good"], [b"bad"])


def set_config(admin: AdminClient, kind: ResourceType, name: str, wanted: dict[str, str]) -> None:
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in wanted.items()]
    for result in admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]).values():
        result.result(30)


def queues_config(broker: QueueBroker, group: str, wanted: dict[str, str]) -> None:
    from mainstem.wire.kafka import ApiKey

    configs = [{"name": key, "config_operation": 0, "value": value} for key, value in wanted.items()]
    resource = {"resource_type": 32, "resource_name": group, "configs": configs}
    with Client(broker.kafka) as client:
        body = {"resources": [resource], "validate_only": False}
        (answer,) = client.anywhere().request(ApiKey.INCREMENTAL_ALTER_CONFIGS, body).responses
        assert not answer.error_code, answer.error_message


def test_both_reads_of_a_batch_see_the_same_rows(spark: SparkSession, queues: QueueBroker, tmp_path: Path) -> None:
    queues.declare("twice", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "twice.dead"})
    queues.declare("twice.dead")
    queues.publish("twice", [b"%d" % number for number in range(30)])
    seen: list[tuple[set[str], set[str]]] = []

    def both(batch: DataFrame, _number: int) -> None:
        first = {row._receipt for row in batch.select("_receipt").collect()}
        mainstem.spark.settle(
            batch.where("value = X'37'").selectExpr("_receipt", "'reject' AS _verdict", "'seven' AS _reason"),
            address=queues.kafka,
        )
        seen.append((first, {row._receipt for row in batch.select("_receipt").collect()}))
        rows = batch.where("value <> X'37'").select("value")
        options = {"address": queues.kafka, "topic": "twice.out", "sinkId": "out"}
        rows.write.format("mainstem").mode("append").options(**options).save()

    rows = stream(spark, queues, subscription="twice", maxRowsPerTrigger=12, minPartitions=2)
    writer = rows.writeStream.foreachBatch(both).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(**NOW).start().awaitTermination()
    assert [len(first) for first, _ in seen] == [12, 12, 6]
    assert all(first == second for first, second in seen)
    assert out(queues, "twice.out") == sorted(b"%d" % n for n in range(30) if n != 7)
    assert queues.counts("twice") == (0, 0)
    assert [body for body, _ in queues.drain("twice.dead")] == [b"7"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscription": "nothing"}, "There is no queue 'nothing' in virtual host '/'"),
        ({"subscription": "s", "topic": "nothing"}, "A topic of the subscription 's' is not there"),
        ({"subscription": "stream"}, "is a stream, of which nothing is settled"),
        ({"subscription": "q", "topicPattern": ".*"}, "Option `topicpattern` is not known"),
        ({"subscription": "q", "leaseMs": "1"}, "it must be 1000 at least"),
        ({"subscription": "q", "value.format": "json"}, "Option `value.schema` is needed"),
    ],
)
def test_errors_are_sentences(
    spark: SparkSession, queues: QueueBroker, tmp_path: Path, options: dict[str, str], said: str
) -> None:
    queues.declare("stream", **{"x-queue-type": "stream"})
    with pytest.raises(Exception) as failed:  # noqa: PT012
        rows = spark.readStream.format("mainstem").option("address", queues.kafka).options(**options).load()
        write(rows.select("value"), queues, "nowhere", tmp_path / "checkpoint")
    assert said in mainstem.spark.reason(failed.value)


def test_what_was_released_by_command(spark: SparkSession, queues: QueueBroker, tmp_path: Path) -> None:
    queues.declare("released")
    queues.publish("released", [b"a", b"b"])

    def fail(batch: DataFrame, _number: int) -> None:
        raise ValueError("not today")

    rows = stream(spark, queues, subscription="released")

    def run(each: object, source: DataFrame = rows) -> None:
        writer = source.writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(**NOW).start().awaitTermination()

    def read(batch: DataFrame, _number: int) -> None:
        batch.collect()

    def read_and_fail(batch: DataFrame, number: int) -> None:
        batch.collect()
        fail(batch, number)

    with pytest.raises(Exception, match="not today"):
        run(read_and_fail)
    (held,) = queues.get("/v1/acquisitions?subscription=released")["acquisitions"]
    assert (held["condition"], held["records"], queues.counts("released")) == ("pinned", 2, (0, 2))
    queues.post(f"/v1/acquisitions/{held['id']}/release")
    assert queues.counts("released") == (2, 0)
    with pytest.raises(Exception, match="released by") as failed:
        run(read)
    assert "was released by command: others have its records" in mainstem.spark.reason(failed.value)
    run(read, stream(spark, queues, subscription="released", failOnDataLoss=False))
    assert [body for body, _ in queues.drain("released")] == []
