"""How tests of Spark read topics, and what they ask of the broker."""

import urllib.request
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from mainstem.sdk.client import Client
from mainstem.sdk.operations import TopicPartition
from mainstem.wire.kafka import ApiKey
from tests.support.clients.confluent import Addressed
from tests.support.serving.kafka import PATIENCE_S


def batch(spark: SparkSession, broker: Addressed, **options: object) -> DataFrame:
    return spark.read.format("mainstem").options(address=broker.address, **dotted(options)).load()


def stream(spark: SparkSession, broker: Addressed, **options: object) -> DataFrame:
    return spark.readStream.format("mainstem").options(address=broker.address, **dotted(options)).load()


def dotted(options: Mapping[str, object]) -> dict[str, str]:
    """Python has no dots in names: value_format is value.format."""
    return {name.replace("_", "."): str(value) for name, value in options.items()}


def values_of(frame: DataFrame) -> list[bytes | None]:
    """In the order of the log."""
    return [
        None if row.value is None else bytes(row.value)
        for row in frame.select("value").orderBy("topic", "partition", "offset").collect()
    ]


def committed(broker: Addressed, group: str, topic: str, partitions: int = 1) -> list[int]:
    """The offsets of a group, as any Kafka tool would ask for them."""
    with Client(broker.address) as client:
        wanted = [{"name": topic, "partition_indexes": list(range(partitions))}]
        answer = client.anywhere().request(ApiKey.OFFSET_FETCH, {"groups": [{"group_id": group, "topics": wanted}]})
        return [part.committed_offset for part in answer.groups[0].topics[0].partitions]


def ends(broker: Addressed, topic: str, partitions: int = 1) -> list[int]:
    with Client(broker.address) as client:
        found = client.offsets({TopicPartition(topic, index): -1 for index in range(partitions)})
        return [found[TopicPartition(topic, index)] for index in range(partitions)]


def get(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE_S) as reply:
        text: str = reply.read().decode()
        return text
