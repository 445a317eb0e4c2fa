"""What a member of a classic group asks."""

from typing import Any

from mainstem.wire.kafka import ApiKey, ErrorCode
from mainstem.wire.kafka.consumer_protocol import encode_subscription
from tests.support.clients.kafka_client import Client


async def join(client: Client, version: int, group: str = "g", **said: Any) -> Any:
    body = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": bytes(encode_subscription({"topics": ["t"]}))}],
    } | said
    answer = await client.ask(ApiKey.JOIN_GROUP, version, **body)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = await client.ask(ApiKey.JOIN_GROUP, version, **body | {"member_id": answer.member_id})
    return answer


async def stable(client: Client, group: str = "g") -> Any:
    """A group of one; answers how it joined."""
    joined = await join(client, 9, group)
    assignments = [{"member_id": joined.member_id, "assignment": b"all"}]
    await client.ask(
        ApiKey.SYNC_GROUP,
        5,
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=assignments,
    )
    return joined


async def commit(client: Client, version: int, offset: int, **said: Any) -> int:
    topic = (await client.ask(ApiKey.METADATA, 12, topics=[{"name": "t"}])).topics[0]
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "note"} | said.pop("p", {})
    topics = [{"name": "t", "topic_id": topic.topic_id, "partitions": [partition]}]
    response = await client.ask(ApiKey.OFFSET_COMMIT, version, **({"group_id": "g", "topics": topics} | said))
    code: int = response.topics[0].partitions[0].error_code
    return code


async def fetch(client: Client, version: int, partitions: list[int] | None) -> list[tuple[int, int, str, int]]:
    topic = (await client.ask(ApiKey.METADATA, 12, topics=[{"name": "t"}])).topics[0]
    topics = None
    if partitions is not None:
        topics = [{"name": "t", "partition_indexes": partitions}]
        if version >= 10:
            topics[0]["topic_id"] = topic.topic_id
    if version < 8:
        response = await client.ask(ApiKey.OFFSET_FETCH, version, group_id="g", topics=topics)
    else:
        groups = [{"group_id": "g", "topics": topics}]
        response = (await client.ask(ApiKey.OFFSET_FETCH, version, groups=groups)).groups[0]
    return [
        (p.partition_index, p.committed_offset, p.metadata, p.error_code)
        for found in response.topics
        for p in found.partitions
    ]
