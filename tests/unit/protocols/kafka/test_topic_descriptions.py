"""What is kept of Metadata is what would be said anew."""

import uuid

import pytest

from mainstem.coordination.catalog.catalog import Topic, TopicEntry
from mainstem.protocols.kafka.handlers.cluster.topic_descriptions import RESPONSE, TopicDescriptions, describe_partition
from mainstem.wire.kafka import ApiKey
from mainstem.wire.kafka.codec import encode_message
from tests.support.clients.kafka_client import Connect, with_adapter


def topic(name: str, partitions: int) -> Topic:
    return Topic(TopicEntry("default", name, uuid.uuid4().bytes, tuple(range(partitions)), {}))


@pytest.mark.parametrize("version", range(RESPONSE.versions.first, RESPONSE.versions.last + 1))
def test_the_bytes_are_the_same(version: int) -> None:
    one, two = topic("one", 3), topic("two", 300)
    descriptions = TopicDescriptions(1, 0)
    kept, plain = bytearray(), bytearray()
    encoded = [descriptions.of(t, version, 7, [one, two]) for t in (one, two)]
    encode_message(kept, RESPONSE, version, {"topics": encoded})
    described = [
        {
            "name": t.name,
            "topic_id": t.id,
            "partitions": [describe_partition(index, 1, 0) for index in range(len(t.logs))],
            "topic_authorized_operations": 7,
        }
        for t in (one, two)
    ]
    encode_message(plain, RESPONSE, version, {"topics": described})
    assert kept == plain


def test_topics_that_are_gone_are_not_kept_for_ever() -> None:
    descriptions = TopicDescriptions(1, 0)
    current: list[Topic] = []
    for number in range(1_000):
        current = [topic(f"t{number}", 1)]
        descriptions.of(current[0], 12, 7, current)
    assert sum(len(kept) for kept in descriptions._kept.values()) < 200


@with_adapter
async def test_changes_are_seen(connect: Connect) -> None:
    client = connect()

    async def partitions() -> dict[str, int]:
        answer = await client.ask(ApiKey.METADATA, 12, topics=None)
        return {topic.name: len(topic.partitions) for topic in answer.topics}

    await client.create("a")
    assert await partitions() == {"a": 1}
    await client.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[{"name": "a", "count": 2, "assignments": None}])
    await client.create("b", 3)
    assert await partitions() == {"a": 2, "b": 3}
    before = (await client.ask(ApiKey.METADATA, 12, topics=[{"name": "b"}])).topics[0].topic_id
    await client.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["b"])
    await client.create("b", 4)
    assert await partitions() == {"a": 2, "b": 4}
    after = (await client.ask(ApiKey.METADATA, 12, topics=[{"name": "b"}])).topics[0]
    assert (after.topic_id != before, len(after.partitions)) == (True, 4)
