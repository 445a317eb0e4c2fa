"""Streams groups, request by request."""

from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.protocols.kafka.adapter import KafkaAdapter
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.kafka import ApiKey, ErrorCode
from tests.support.clients.kafka_client import Client, Connect, Operations, with_adapter
from tests.support.worlds.brokers import with_engine
from tests.unit.protocols.kafka.group_requests import commit, join

AT_ONCE = {"streams_group_initial_delay_ms": 0, "streams_group_assignment_interval_ms": 0}
MISSING_SOURCE_TOPICS, INCORRECTLY_PARTITIONED_TOPICS, MISSING_INTERNAL_TOPICS, ASSIGNMENT_DELAYED = 1, 2, 3, 5


def topic(name: str, **said: Any) -> dict[str, Any]:
    return {"name": name, "partitions": 0, "replication_factor": 0, "topic_configs": []} | said


COMPACTED = topic("g-counts-changelog", topic_configs=[{"key": "cleanup.policy", "value": "compact"}])
READING: dict[str, Any] = {
    "subtopology_id": "0",
    "source_topics": ["t"],
    "source_topic_regex": [],
    "state_changelog_topics": [],
    "repartition_sink_topics": ["g-by-word-repartition"],
    "repartition_source_topics": [],
    "copartition_groups": [],
}
COUNTING: dict[str, Any] = READING | {
    "subtopology_id": "1",
    "source_topics": [],
    "state_changelog_topics": [COMPACTED],
    "repartition_sink_topics": [],
    "repartition_source_topics": [topic("g-by-word-repartition")],
}
TOPOLOGY = {"epoch": 0, "subtopologies": [READING, COUNTING]}
NO_TASKS: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


async def beat(client: Client, member_id: str, epoch: int, **said: Any) -> Any:
    body = {"group_id": "g", "member_id": member_id, "member_epoch": epoch, "endpoint_information_epoch": 0} | said
    return await client.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, **body)


async def joined(client: Client, member_id: str = "me", **said: Any) -> Any:
    first = {"rebalance_timeout_ms": 1_000, "topology": TOPOLOGY, "process_id": member_id} | NO_TASKS | said
    return await beat(client, member_id, 0, **first)


def tasks(told: Any) -> dict[str, list[int]] | None:
    return None if told is None else {entry.subtopology_id: list(entry.partitions) for entry in told}


def statuses(told: Any) -> list[int]:
    return [status.status_code for status in told.status]


async def describe(client: Client, group: str = "g") -> Any:
    (described,) = (await client.ask(ApiKey.STREAMS_GROUP_DESCRIBE, 0, group_ids=[group])).groups
    return described


@with_adapter(**AT_ONCE)
async def test_a_member_is_told_its_tasks_and_its_topics_are_made(connect: Connect) -> None:
    client = connect()
    await client.create("t", 3)
    told = await joined(client, client_tags=[{"key": "zone", "value": "a"}], rack_id="r")
    assert (told.error_code, told.member_id, told.heartbeat_interval_ms, statuses(told)) == (0, "me", 5_000, [])
    assert tasks(told.active_tasks) == {"0": [0, 1, 2], "1": [0, 1, 2]}
    assert (tasks(told.standby_tasks), tasks(told.warmup_tasks)) == ({}, {})
    again = await beat(client, "me", told.member_epoch)
    assert (again.active_tasks, again.standby_tasks, again.warmup_tasks) == (None, None, None)
    topics = {found.name: found for found in (await client.ask(ApiKey.METADATA, 12, topics=None)).topics}
    assert {name: len(found.partitions) for name, found in topics.items()} == {
        "t": 3,
        "g-by-word-repartition": 3,
        "g-counts-changelog": 3,
    }
    asked = {"resource_type": 2, "resource_name": "g-counts-changelog", "configuration_keys": ["cleanup.policy"]}
    (described,) = (await client.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=[asked])).results
    assert described.configs[0].value == "compact"
    group = await describe(client)
    assert (group.error_code, group.group_state, group.group_epoch) == (0, "Stable", told.member_epoch)
    assert group.assignment_epoch == group.group_epoch
    counting = group.topology.subtopologies[1]
    assert [(found.name, found.partitions) for found in counting.state_changelog_topics] == [("g-counts-changelog", 3)]
    assert [found.partitions for found in counting.repartition_source_topics] == [3]
    (member,) = group.members
    assert (member.process_id, member.rack_id, member.topology_epoch, member.is_classic) == ("me", "r", 0, False)
    assert [(tag.key, tag.value) for tag in member.client_tags] == [("zone", "a")]
    assert tasks(member.assignment.active_tasks) == tasks(member.target_assignment.active_tasks)


@with_adapter(**AT_ONCE)
async def test_other_requests_know_the_kind_of_group(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    await joined(client)
    (listed,) = (await client.ask(ApiKey.LIST_GROUPS, 5, types_filter=["streams"], states_filter=["stable"])).groups
    assert (listed.group_id, listed.group_type, listed.protocol_type) == ("g", "Streams", "streams")
    assert listed.group_state == "Stable"
    assert (await client.ask(ApiKey.LIST_GROUPS, 5, types_filter=["classic", "consumer", "share"])).groups == []
    (classic,) = (await client.ask(ApiKey.DESCRIBE_GROUPS, 6, groups=["g"])).groups
    assert (classic.error_code, classic.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    (consumer,) = (await client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["g"])).groups
    assert consumer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    first = {"rebalance_timeout_ms": 1, "subscribed_topic_names": ["t"], "topic_partitions": []}
    refused = await client.ask(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id="g", member_id="other", member_epoch=0, **first
    )
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    shared = {"group_id": "g", "member_id": "other", "member_epoch": 0, "subscribed_topic_names": ["t"]}
    assert (await client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **shared)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await join(client, 9)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    versions = await client.ask(ApiKey.API_VERSIONS, 4, client_software_name="u", client_software_version="1")
    assert ("streams.version", 1) in [(found.name, found.max_version_level) for found in versions.finalized_features]


@with_adapter(**AT_ONCE, group_initial_delay_ms=0)
async def test_groups_of_other_kinds_do_not_become_streams_groups(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    first = {"rebalance_timeout_ms": 1, "subscribed_topic_names": ["t"], "topic_partitions": []}
    consumer = {"member_id": "one", "member_epoch": 0} | first
    await client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id="consumers", **consumer)
    shared = {"member_id": "one", "member_epoch": 0, "subscribed_topic_names": ["t"]}
    await client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, group_id="sharers", **shared)
    assert (await join(client, 9, "classics")).error_code == 0
    for name in ("consumers", "sharers", "classics"):
        refused = await joined(client, group_id=name)
        assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert refused.error_message == f"Group {name} is not a streams group."
    assert (await describe(client, "consumers")).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@with_adapter(**AT_ONCE, group_initial_delay_ms=0)
async def test_a_name_without_members_may_change_its_kind_and_keeps_its_offsets(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    assert await commit(client, 9, 5, member_id="", generation_id_or_member_epoch=-1) == 0
    told = await joined(client)
    assert told.error_code == 0
    asked = {"group_id": "g", "topics": None}
    (answer,) = (await client.ask(ApiKey.OFFSET_FETCH, 9, groups=[asked])).groups
    assert answer.topics[0].partitions[0].committed_offset == 5
    await beat(client, "me", -1)
    assert (await join(client, 9)).error_code == 0
    (listed,) = (await client.ask(ApiKey.LIST_GROUPS, 5)).groups
    assert listed.group_type == "Classic"


@with_adapter(**AT_ONCE)
async def test_offsets_are_committed_in_the_members_epoch(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    epoch = (await joined(client)).member_epoch
    member = {"member_id": "me", "generation_id_or_member_epoch": epoch}
    assert await commit(client, 9, 5, **member) == 0
    assert await commit(client, 8, 5, **member) == ErrorCode.UNSUPPORTED_VERSION, "older ones know no epochs"
    for wrong, code in (
        ({"generation_id_or_member_epoch": epoch + 1}, ErrorCode.STALE_MEMBER_EPOCH),
        ({"generation_id_or_member_epoch": epoch - 1}, ErrorCode.STALE_MEMBER_EPOCH),
        ({"member_id": "you"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "generation_id_or_member_epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        assert await commit(client, 9, 5, **member | wrong) == code
    for asked, code in ((epoch, 0), (epoch - 1, ErrorCode.STALE_MEMBER_EPOCH)):
        body = {"group_id": "g", "member_id": "me", "member_epoch": asked, "topics": None}
        (answer,) = (await client.ask(ApiKey.OFFSET_FETCH, 9, groups=[body])).groups
        assert answer.error_code == code
    partitions = [{"partition_index": 0}]
    deletion = {"group_id": "g", "topics": [{"name": "t", "partitions": partitions}]}
    refused = await client.ask(ApiKey.OFFSET_DELETE, 0, **deletion)
    assert refused.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    (busy,) = (await client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=["g"])).results
    assert busy.error_code == ErrorCode.NON_EMPTY_GROUP
    await beat(client, "me", -1)
    assert (await describe(client)).group_state == "Empty"
    assert await commit(client, 9, 2, member_id="", generation_id_or_member_epoch=-1) == 0, "an administrator may"
    assert await commit(client, 9, 5, **member) == ErrorCode.UNKNOWN_MEMBER_ID
    done = await client.ask(ApiKey.OFFSET_DELETE, 0, **deletion)
    assert done.topics[0].partitions[0].error_code == 0
    (deleted,) = (await client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=["g"])).results
    assert deleted.error_code == 0
    assert (await describe(client)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert not (await client.ask(ApiKey.LIST_GROUPS, 5)).groups
    assert (await beat(client, "me", epoch)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@with_adapter(**AT_ONCE)
async def test_transactions_know_the_members_epoch(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    epoch = (await joined(client)).member_epoch
    producer = await client.ask(ApiKey.INIT_PRODUCER_ID, 4, transactional_id="x", transaction_timeout_ms=10_000)
    partitions = [{"partition_index": 0, "committed_offset": 7}]
    body = {
        "transactional_id": "x",
        "group_id": "g",
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "topics": [{"name": "t", "partitions": partitions}],
    }
    for member, generation, code in (
        ("me", epoch, 0),
        ("me", epoch - 1, ErrorCode.ILLEGAL_GENERATION),
        ("you", epoch, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        answer = await client.ask(ApiKey.TXN_OFFSET_COMMIT, 5, **body, member_id=member, generation_id=generation)
        assert answer.topics[0].partitions[0].error_code == code


@with_adapter(**AT_ONCE)
async def test_topics_that_are_missing_are_named(connect: Connect) -> None:
    client = connect()
    told = await joined(client)
    assert (told.error_code, statuses(told)) == (0, [MISSING_SOURCE_TOPICS])
    assert (await describe(client)).group_state == "NotReady"
    for state in ("NotReady", "not_ready"):
        assert (await client.ask(ApiKey.LIST_GROUPS, 5, states_filter=[state])).groups
    await client.create("t", 2)
    told = await beat(client, "me", told.member_epoch)
    assert statuses(told) == []
    assert tasks(told.active_tasks) == {"0": [0, 1], "1": [0, 1]}


@with_adapter(**AT_ONCE)
async def test_topics_that_cannot_be_made_are_named_with_the_reason(connect: Connect) -> None:
    client = connect()
    await client.create("t", 2)
    for wrong, said in (
        ({"replication_factor": 3}, "3 copies"),
        ({"topic_configs": [{"key": "cleanup.policy", "value": "keep"}]}, "cleanup.policy"),
    ):
        topology = {"epoch": 0, "subtopologies": [READING, COUNTING | {"state_changelog_topics": [COMPACTED | wrong]}]}
        told = await joined(client, topology=topology, group_id=said)
        assert statuses(told) == [MISSING_INTERNAL_TOPICS]
        assert "g-counts-changelog" in told.status[0].status_detail
        assert said in told.status[0].status_detail


@with_adapter(**AT_ONCE)
async def test_topics_of_the_wrong_size_are_named(connect: Connect) -> None:
    client = connect()
    await client.create("t", 2)
    await client.create("g-counts-changelog", 3)
    told = await joined(client)
    assert statuses(told) == [INCORRECTLY_PARTITIONED_TOPICS]
    assert "g-counts-changelog" in told.status[0].status_detail


@with_adapter
async def test_the_first_assignment_waits_for_others(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    told = await joined(client)
    assert (statuses(told), tasks(told.active_tasks)) == ([ASSIGNMENT_DELAYED], {})
    assert (await describe(client)).group_state == "Assigning"


@with_adapter(**AT_ONCE)
async def test_settings_of_a_group(connect: Connect) -> None:
    client = connect()
    await client.create("t", 2)
    name = {"resource_type": 32, "resource_name": "g"}
    good = {"streams.num.standby.replicas": "1", "streams.heartbeat.interval.ms": "7000"}
    configs = [{"name": key, "config_operation": 0, "value": value} for key, value in good.items()]
    (done,) = (await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[name | {"configs": configs}])).responses
    assert done.error_code == 0
    for key, value in (
        ("streams.num.standby.replicas", "3"),
        ("streams.session.timeout.ms", "44999"),
        ("streams.assignment.interval.ms", "15001"),
        ("streams.initial.rebalance.delay.ms", "-1"),
    ):
        wrong = [{"name": key, "config_operation": 0, "value": value}]
        (refused,) = (
            await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[name | {"configs": wrong}])
        ).responses
        assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert (await joined(client, "one")).heartbeat_interval_ms == 7_000
    await joined(client, "two")
    group = await describe(client)
    standbys = {member.member_id: tasks(member.target_assignment.standby_tasks) for member in group.members}
    active = {member.member_id: tasks(member.target_assignment.active_tasks) for member in group.members}
    assert standbys["one"] == {"1": active["two"]["1"]}
    assert standbys["two"] == {"1": active["one"]["1"]}


@with_adapter(**AT_ONCE)
async def test_members_are_told_where_to_ask_for_state(connect: Connect) -> None:
    client = connect()
    await client.create("t", 2)
    told = await joined(client, user_endpoint={"host": "here", "port": 7_000})
    (found,) = told.partitions_by_user_endpoint
    assert (found.user_endpoint.host, found.user_endpoint.port) == ("here", 7_000)
    assert {entry.topic: list(entry.partitions) for entry in found.active_partitions} == {
        "t": [0, 1],
        "g-by-word-repartition": [0, 1],
    }
    known = {"endpoint_information_epoch": told.endpoint_information_epoch}
    assert (await beat(client, "me", told.member_epoch, **known)).partitions_by_user_endpoint is None


@with_adapter(**AT_ONCE)
async def test_refusals(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    for said in (
        {"member_id": ""},
        {"group_id": ""},
        {"rack_id": " "},
        {"instance_id": "static"},
        {"task_offsets": []},
        {"task_end_offsets": []},
        {"warmup_tasks": [{"subtopology_id": "0", "partitions": [0]}]},
        {"active_tasks": [{"subtopology_id": "0", "partitions": [0]}]},
        {"standby_tasks": None},
        {"rebalance_timeout_ms": -1},
        {"topology": None},
        {"topology": {"epoch": 0, "subtopologies": [READING | {"source_topic_regex": ["t.*"]}]}},
        {"member_epoch": -2},
        {"member_epoch": -3},
        {"member_epoch": 3},
    ):
        body = {"group_id": "g", "member_epoch": 0, "rebalance_timeout_ms": 1, "topology": TOPOLOGY} | NO_TASKS
        body |= {"member_id": "me", "endpoint_information_epoch": 0}
        refused = await client.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, **body | said)
        assert refused.error_code == ErrorCode.INVALID_REQUEST, said
        assert refused.error_message
    outside = {"source_topics": [1], "source_topic_regex": [], "repartition_source_topics": []}
    for subtopologies in (
        [READING, READING],
        [READING | {"source_topics": []}],
        [READING | {"source_topics": ["no such name!"]}],
        [READING | {"copartition_groups": [outside]}],
        [READING | {"copartition_groups": [outside | {"source_topics": [-1]}]}],
        [READING | {"state_changelog_topics": [COMPACTED | {"partitions": 3}]}],
        [COUNTING],
    ):
        refused = await joined(client, topology={"epoch": 0, "subtopologies": subtopologies})
        assert refused.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert (await client.ask(ApiKey.LIST_GROUPS, 5)).groups == []
    told = await joined(client)
    assert (await beat(client, "me", 9)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await beat(client, "you", told.member_epoch)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    owned = NO_TASKS | {"active_tasks": [{"subtopology_id": "9", "partitions": [0]}]}
    assert (await beat(client, "me", told.member_epoch, **owned)).error_code == ErrorCode.INVALID_REQUEST
    other = {"epoch": 1, "subtopologies": [READING]}
    assert (await joined(client, "you", topology=other)).error_code == ErrorCode.INVALID_REQUEST


@with_engine
async def test_after_a_restart_members_go_on(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    client = Client(KafkaAdapter(KafkaSettings(**AT_ONCE), broker, Operations()))
    await client.create("t", 2)
    told = await joined(client)
    again = await Broker.open(engine, LoopClock())
    client = Client(KafkaAdapter(KafkaSettings(**AT_ONCE), again, Operations()))
    group = await describe(client)
    assert (group.group_state, group.group_epoch) == ("Stable", told.member_epoch)
    assert tasks(group.members[0].assignment.active_tasks) == tasks(told.active_tasks)
    beaten = await beat(client, "me", told.member_epoch)
    assert (beaten.error_code, beaten.active_tasks) == (0, None)
