"""Groups and their offsets, request by request."""

import asyncio

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.clock import LoopClock
from mainstem.broker.groups.groups import CommittedOffset, GroupRules, TopicPlace
from mainstem.protocols.kafka.adapter import KafkaAdapter
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.kafka import ApiKey, ErrorCode, decode_response
from tests.support.clients.kafka_client import Client, Connect, Operations, with_adapter
from tests.support.worlds.brokers import with_engine
from tests.unit.protocols.kafka.group_requests import commit, fetch, join, stable


@pytest.mark.parametrize("version", range(10))
def test_joining_in_every_version(version: int) -> None:
    @with_adapter(group_initial_delay_ms=0)
    async def run(connect: Connect) -> None:
        client = connect()
        joined = await join(client, version)
        assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, joined.member_id)
        member = {"group_id": "g", "generation_id": 1, "member_id": joined.member_id}
        assignments = [{"member_id": joined.member_id, "assignment": b"all"}]
        synced = await client.ask(ApiKey.SYNC_GROUP, min(version, 5), assignments=assignments, **member)
        assert (synced.error_code, synced.assignment) == (0, b"all")
        beat = await client.ask(ApiKey.HEARTBEAT, min(version, 4), **member)
        assert beat.error_code == 0
        beat = await client.ask(ApiKey.HEARTBEAT, min(version, 4), **member | {"generation_id": 7})
        assert beat.error_code == ErrorCode.ILLEGAL_GENERATION
        leaving = {"member_id": joined.member_id, "members": [{"member_id": joined.member_id}]}
        left = await client.ask(ApiKey.LEAVE_GROUP, min(version, 5), group_id="g", **leaving)
        assert left.error_code == 0
        left = await client.ask(ApiKey.LEAVE_GROUP, min(version, 5), group_id="g", **leaving)
        code = left.error_code if version < 3 else left.members[0].error_code
        assert code == ErrorCode.UNKNOWN_MEMBER_ID

    run()


@with_adapter(group_initial_delay_ms=0)
async def test_refusals(connect: Connect) -> None:
    client = connect()
    assert (await join(client, 9, "")).error_code == ErrorCode.INVALID_GROUP_ID
    assert (await join(client, 9, session_timeout_ms=1)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert (await join(client, 9, member_id="stranger")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await join(client, 9, protocols=[])).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    beat = await client.ask(ApiKey.HEARTBEAT, 4, group_id="none", member_id="x", generation_id=1)
    assert beat.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@with_adapter(group_initial_delay_ms=60_000)
async def test_draining_ends_the_wait_for_others(connect: Connect) -> None:
    client = connect()
    asking = asyncio.create_task(join(client, 3))
    await asyncio.sleep(0)
    client.session.drain()
    assert (await asking).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.session.finished


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_in_every_version(version: int) -> None:
    @with_adapter
    async def run(connect: Connect) -> None:
        client = connect()
        await client.create("t", 2)
        assert await fetch(client, version, [0]) == [(0, -1, "", 0)]
        assert await commit(client, version, 5) == 0
        assert await fetch(client, version, [0, 1]) == [(0, 5, "note", 0), (1, -1, "", 0)]
        assert await fetch(client, version, None) == [(0, 5, "note", 0)]
        unknown = {"p": {"partition_index": 9}}
        assert await commit(client, version, 5, **unknown) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        long = {"p": {"committed_metadata": "x" * 5_000}}
        assert await commit(client, version, 5, **long) == ErrorCode.OFFSET_METADATA_TOO_LARGE
        stale = {"generation_id_or_member_epoch": 3, "member_id": "x"}
        assert await commit(client, version, 5, **stale) == ErrorCode.UNKNOWN_MEMBER_ID
        never = stale | {"group_id": "never"}
        assert await commit(client, version, 5, **never) == ErrorCode.ILLEGAL_GENERATION

    run()


@with_adapter(group_initial_delay_ms=0)
async def test_administration(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    joined = await stable(client)
    member = {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
    assert await commit(client, 8, 5, **member) == 0
    (listed,) = (await client.ask(ApiKey.LIST_GROUPS, 5, states_filter=["stable"], types_filter=["classic"])).groups
    assert (listed.group_id, listed.group_state, listed.group_type) == ("g", "Stable", "Classic")
    assert not (await client.ask(ApiKey.LIST_GROUPS, 5, states_filter=["Empty"])).groups
    (described,) = (await client.ask(ApiKey.DESCRIBE_GROUPS, 6, groups=["g"])).groups
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert described.members[0].member_assignment == b"all"
    (unknown,) = (await client.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=["x"])).groups
    assert (unknown.error_code, unknown.group_state) == (0, "Dead")
    (unknown,) = (await client.ask(ApiKey.DESCRIBE_GROUPS, 6, groups=["x"])).groups
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    async def deleted(*names: str) -> list[int]:
        return [r.error_code for r in (await client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=names)).results]

    async def offset_deleted() -> int:
        topics = [{"name": "t", "partitions": [{"partition_index": 0}]}]
        response = await client.ask(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)
        code: int = response.topics[0].partitions[0].error_code
        return code

    assert await deleted("g", "x") == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
    assert await offset_deleted() == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    await client.ask(ApiKey.LEAVE_GROUP, 5, group_id="g", members=[{"member_id": joined.member_id}])
    assert await offset_deleted() == 0
    assert await fetch(client, 8, [0]) == [(0, -1, "", 0)]
    assert await deleted("g") == [0]
    assert not (await client.ask(ApiKey.LIST_GROUPS, 5)).groups


@with_adapter(group_initial_delay_ms=0)
async def test_a_commit_is_seen_by_the_fetch_behind_it(connect: Connect) -> None:
    """Even when both are sent without waiting: requests of a connection are dealt with one after the other."""
    client = connect()
    await client.create("t")
    partition = {"partition_index": 0, "committed_offset": 9, "committed_metadata": ""}
    client.send(ApiKey.OFFSET_COMMIT, 7, group_id="g", topics=[{"name": "t", "partitions": [partition]}])
    client.send(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=[{"name": "t", "partition_indexes": [0]}])
    await client.receive()
    _, fetched = decode_response(ApiKey.OFFSET_FETCH, 7, await client.receive())
    assert fetched.topics[0].partitions[0].committed_offset == 9


@with_engine
async def test_offsets_last_and_expire(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    topic = await broker.topics.ensure(NewTopic("t", 1))
    gone = await broker.topics.ensure(NewTopic("gone", 1))
    now_ms = broker.clock.now_ms()
    offset = CommittedOffset(7, 0, "", now_ms)
    await broker.groups.commit("g", {TopicPlace(topic.id, 0): offset, TopicPlace(gone.id, 0): offset})
    await broker.groups.commit("old", {TopicPlace(topic.id, 0): CommittedOffset(7, 0, "", now_ms - 1_000_000)})
    again = await Broker.open(engine, LoopClock())
    assert set(again.groups.names()) == {"g", "old"}
    assert again.groups.offsets("g")[TopicPlace(topic.id, 0)] == offset
    await again.topics.delete(again.topics.get("gone"))
    again.groups.govern(GroupRules(offsets_retention_ms=500_000))
    await again.groups.expire_offsets()
    assert again.groups.names() == ["g"]
    assert set(again.groups.offsets("g")) == {TopicPlace(topic.id, 0)}
    third = await Broker.open(engine, LoopClock())
    assert third.groups.names() == ["g"]


@with_engine
async def test_groups_of_which_nothing_is_left_are_forgotten(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    adapter = KafkaAdapter(KafkaSettings(group_initial_delay_ms=0), broker, Operations())
    client = Client(adapter)
    await client.create("t")
    assert (await client.ask(ApiKey.JOIN_GROUP, 9, group_id="asked", session_timeout_ms=1)).error_code
    joined = await stable(client, "left")
    await client.ask(ApiKey.LEAVE_GROUP, 5, group_id="left", members=[{"member_id": joined.member_id}])
    first = {"member_epoch": 0, "rebalance_timeout_ms": 1, "subscribed_topic_names": ["t"], "topic_partitions": []}
    await client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id="directed", member_id="m", **first)
    await stable(client, "used")
    await broker.groups.expire_offsets()
    assert set(broker.groups.names()) == {"used", "directed"}
    await client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id="directed", member_id="m", member_epoch=-1)
    await broker.groups.expire_offsets()
    assert set(broker.groups.names()) == {"used"}
    again = await Broker.open(engine, LoopClock())
    assert again.groups.names() == ["used"]
