"""Share groups, request by request."""

import time
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.queues import decode_origin
from mainstem.protocols.kafka.adapter import KafkaAdapter
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.kafka import ApiKey, ErrorCode, decode_response
from mainstem.wire.record_batch import batches_in, decode_records
from tests.support.clients.kafka_client import Client, Connect, Operations, batch, with_adapter
from tests.support.worlds.brokers import with_engine
from tests.unit.protocols.kafka.group_requests import join
from tests.unit.protocols.kafka.transactional_producer import Producer

GROUP_RESOURCE, TOPIC_RESOURCE, SET = 32, 2, 0
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


async def beat(client: Client, member_id: str, epoch: int, topics: list[str] | None = None, group: str = "g") -> Any:
    said = {"group_id": group, "member_id": member_id, "member_epoch": epoch, "subscribed_topic_names": topics}
    return await client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **said)


async def configure(client: Client, group: str = "g", **configs: str) -> int:
    changes = [
        {"name": name.replace("_", "."), "config_operation": SET, "value": value} for name, value in configs.items()
    ]
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": changes}
    (answer,) = (await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])).responses
    return int(answer.error_code)


class Member:
    """One member over one connection, with its session."""

    def __init__(self, client: Client, topic_id: Any, member_id: str = "me", group: str = "g") -> None:
        self.client, self.topic_id, self.id, self.group = client, topic_id, member_id, group
        self.epoch = 0

    def body(self, acks: tuple[tuple[int, int, list[int]], ...], **options: Any) -> dict[str, Any]:
        batches = [{"first_offset": f, "last_offset": to, "acknowledge_types": types} for f, to, types in acks]
        partition = {"partition_index": 0, "acknowledgement_batches": batches}
        epoch = options.pop("epoch", self.epoch)
        self.epoch = max(epoch, 0) + 1
        return {
            "group_id": self.group,
            "member_id": self.id,
            "share_session_epoch": epoch,
            "topics": [{"topic_id": self.topic_id, "partitions": [partition]}],
        } | options

    async def fetch(self, *acks: tuple[int, int, list[int]], version: int = 2, **options: Any) -> Any:
        sizes = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 1}
        return await self.client.ask(ApiKey.SHARE_FETCH, version, **self.body(acks, **(sizes | options)))

    async def take(self, *acks: tuple[int, int, list[int]], **options: Any) -> list[tuple[int, int, int]]:
        """What is acquired: first, last, delivery count."""
        answer = await self.fetch(*acks, **options)
        assert answer.error_code == 0
        found = [partition for topic in answer.responses for partition in topic.partitions]
        assert all((p.error_code, p.acknowledge_error_code) == (0, 0) for p in found), found
        return [(a.first_offset, a.last_offset, a.delivery_count) for p in found for a in p.acquired_records]

    async def acknowledge(self, *acks: tuple[int, int, list[int]], **options: Any) -> int:
        answer = await self.client.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, **self.body(acks, **options))
        if answer.error_code:
            return int(answer.error_code)
        return int(answer.responses[0].partitions[0].error_code)


async def joined(connect: Connect, *members: str, **configs: str) -> list[Member]:
    """Members of a group that begins at the start of topic t, which has four batches of five records."""
    client = connect()
    await client.create("t")
    for number in range(4):
        await client.produce("t", batch(*(b"%d" % (number * 5 + i) for i in range(5))))
    assert await configure(client, share_auto_offset_reset="earliest", **configs) == 0
    made = []
    for member in members:
        told = await beat(client, member, 0, ["t"])
        (topic,) = told.assignment.topic_partitions
        made.append(Member(connect(), topic.topic_id, member))
    return made


@with_adapter
async def test_members_are_told_their_shares(connect: Connect) -> None:
    client = connect()
    await client.create("t", 3)
    told = await beat(client, "one", 0, ["t"])
    assert (told.error_code, told.member_epoch, told.heartbeat_interval_ms) == (0, 1, 5_000)
    assert [list(t.partitions) for t in told.assignment.topic_partitions] == [[0, 1, 2]]
    assert (await beat(client, "one", 1)).assignment is None
    await beat(client, "two", 0, ["t"])
    told = await beat(client, "one", 1)
    assert (told.member_epoch, [list(t.partitions) for t in told.assignment.topic_partitions]) == (2, [[0, 2]])
    (group,) = (await client.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=["g"])).groups
    assert (group.group_state, group.assignor_name, len(group.members)) == ("Stable", "simple", 2)
    (listed,) = (await client.ask(ApiKey.LIST_GROUPS, 5, types_filter=["share"])).groups
    assert (listed.group_id, listed.group_type, listed.protocol_type) == ("g", "Share", "share")
    (refused,) = (await client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=["g"])).results
    assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
    for member in ("one", "two"):
        assert (await beat(client, member, -1)).member_epoch == -1
    (deleted,) = (await client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=["g"])).results
    assert deleted.error_code == 0
    assert not (await client.ask(ApiKey.LIST_GROUPS, 5)).groups
    (unknown,) = (await client.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=["g"])).groups
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND


@with_adapter
async def test_heartbeats_that_cannot_be(connect: Connect) -> None:
    client = connect()
    assert (await beat(client, "", 0, ["t"])).error_code == ErrorCode.INVALID_REQUEST
    assert (await beat(client, "me", 0)).error_code == ErrorCode.INVALID_REQUEST
    assert (await beat(client, "me", 0, ["t"], group="")).error_code == ErrorCode.INVALID_REQUEST
    assert (await beat(client, "me", 3)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    await beat(client, "me", 0, ["t"])
    assert (await beat(client, "me", 9)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await beat(client, "you", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@with_adapter(group_initial_delay_ms=0)
async def test_a_name_is_of_one_kind_of_group(connect: Connect) -> None:
    client = connect()
    await beat(client, "me", 0, ["t"])
    assert (await join(client, 9)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    first = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    directed = {"group_id": "g", "member_id": "me", "member_epoch": 0} | first
    answer = await client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **directed)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await join(client, 9, "classic")).error_code == 0
    assert (await beat(client, "me", 0, ["t"], group="classic")).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@with_adapter
async def test_records_are_given_to_one_member_each(connect: Connect) -> None:
    one, two = await joined(connect, "one", "two")
    assert await one.take(max_records=7) == [(0, 4, 1), (5, 9, 1)]
    assert await two.take() == [(10, 14, 1), (15, 19, 1)]
    assert await one.take((0, 9, [ACCEPT])) == []
    assert await two.acknowledge((10, 12, [ACCEPT]), (13, 14, [RELEASE, REJECT])) == 0
    assert await one.take() == [(13, 13, 2)]
    assert await two.acknowledge((13, 13, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
    assert await two.acknowledge((15, 19, [ACCEPT]), (13, 13, [ACCEPT])) == ErrorCode.INVALID_REQUEST


@with_adapter
async def test_not_one_record_more_where_that_is_asked_for(connect: Connect) -> None:
    (me,) = await joined(connect, "me")
    assert await me.take(max_records=7, share_acquire_mode=1) == [(0, 4, 1), (5, 6, 1)]
    assert await me.take(max_records=7, share_acquire_mode=1) == [(7, 9, 1), (10, 13, 1)]


@with_adapter
async def test_what_is_returned_too_often_goes_no_further(connect: Connect) -> None:
    (me,) = await joined(connect, "me", share_delivery_count_limit="2")
    assert await me.take(max_records=1) == [(0, 4, 1)]
    assert await me.take((0, 4, [RELEASE]), max_records=1) == [(0, 4, 2)]
    assert await me.take((0, 4, [RELEASE]), max_records=1) == [(5, 9, 1)]


@with_adapter
async def test_renewal(connect: Connect) -> None:
    (me,) = await joined(connect, "me")
    await me.take(max_records=1)
    assert await me.acknowledge((0, 4, [RENEW]), is_renew_ack=True) == 0
    assert await me.acknowledge((0, 4, [RENEW])) == ErrorCode.INVALID_REQUEST
    quiet = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    assert await me.take((0, 4, [RENEW]), is_renew_ack=True, **quiet) == []
    assert (await me.fetch((0, 4, [RENEW]), is_renew_ack=True)).error_code == ErrorCode.INVALID_REQUEST


@with_adapter
async def test_sessions(connect: Connect) -> None:
    one, two = await joined(connect, "one", "two")
    assert (await one.fetch(epoch=3)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert (await one.fetch((0, 0, [1]), epoch=0)).error_code == ErrorCode.INVALID_REQUEST
    assert await one.acknowledge((0, 0, [1]), epoch=0) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert await one.take(epoch=0, max_records=1) == [(0, 4, 1)]
    assert (await one.fetch(epoch=7)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert await one.take(epoch=1, max_records=1) == [(5, 9, 1)]
    assert await one.take((0, 4, [ACCEPT]), epoch=-1) == []
    assert await two.take(epoch=0, max_records=1) == [(5, 9, 2)]
    stranger = Member(connect(), one.topic_id, "one", group="nobody")
    assert (await stranger.fetch()).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@with_adapter
async def test_a_fetch_waits_for_what_comes(connect: Connect) -> None:
    one, two = await joined(connect, "one", "two")
    assert len(await one.take()) == 4
    sizes = {"max_wait_ms": 10_000, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 1}
    two.client.send(ApiKey.SHARE_FETCH, 2, **two.body((), **sizes))
    await one.client.produce("t", batch(b"new"))
    two.client.pump()
    _, answer = decode_response(ApiKey.SHARE_FETCH, 2, await two.client.receive())
    assert answer.responses[0].partitions[0].acquired_records[0].first_offset == 20
    two.client.send(ApiKey.SHARE_FETCH, 2, **two.body((), **sizes))
    assert await one.acknowledge((3, 4, [RELEASE])) == 0
    two.client.pump()
    _, answer = decode_response(ApiKey.SHARE_FETCH, 2, await two.client.receive())
    (acquired,) = answer.responses[0].partitions[0].acquired_records
    assert (acquired.first_offset, acquired.last_offset, acquired.delivery_count) == (3, 4, 2)


@with_adapter
async def test_who_leaves_may_still_settle_and_gives_back_the_rest(connect: Connect) -> None:
    one, two = await joined(connect, "one", "two")
    assert len(await one.take()) == 4
    assert (await beat(one.client, "one", -1)).error_code == 0
    assert await two.take() == []
    assert await one.acknowledge((0, 9, [ACCEPT]), epoch=-1) == 0
    assert await two.take() == [(10, 14, 2), (15, 19, 2)]


@with_adapter
async def test_a_connection_that_ends_gives_back(connect: Connect) -> None:
    one, two = await joined(connect, "one", "two")
    assert len(await one.take()) == 4
    one.client.session.closed()
    assert await two.take(max_records=1) == [(0, 4, 2)]


@with_adapter
async def test_a_renewed_lock_holds_longer(connect: Connect) -> None:
    one, two = await joined(connect, "one", "two", share_record_lock_duration_ms="1000")
    assert await one.take() == [(0, 4, 1), (5, 9, 1), (10, 14, 1), (15, 19, 1)]
    assert await two.take(max_wait_ms=700) == []
    assert await one.acknowledge((0, 4, [RENEW]), is_renew_ack=True) == 0
    assert await two.take(max_wait_ms=5_000) == [(5, 9, 2), (10, 14, 2), (15, 19, 2)]
    assert await one.acknowledge((0, 4, [ACCEPT])) == 0


@with_adapter
async def test_a_lock_runs_out(connect: Connect) -> None:
    one, two = await joined(connect, "one", "two", share_record_lock_duration_ms="1000")
    assert len(await one.take()) == 4
    assert await two.take(max_wait_ms=5_000, max_records=1) == [(0, 4, 2)]


@with_adapter
async def test_offsets(connect: Connect) -> None:
    (me,) = await joined(connect, "me")
    await me.take()
    await me.acknowledge((0, 2, [ACCEPT]), (5, 6, [ACCEPT]))
    ask = me.client.ask

    async def described() -> Any:
        (group,) = (
            await ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=[{"group_id": "g", "topics": None}])
        ).groups
        return [(p.start_offset, p.lag) for topic in group.topics for p in topic.partitions]

    assert await described() == [(3, 15)]
    moved = [{"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": 18}]}]
    refused = await ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=moved)
    assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
    await beat(me.client, "me", -1)
    answer = await ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=moved)
    assert answer.responses[0].partitions[0].error_code == 0
    assert await described() == [(18, 2)]
    answer = await ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=[{"topic_name": "t"}])
    assert (answer.error_code, answer.responses[0].error_code) == (0, 0)
    assert await described() == []
    unknown = await ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, group_id="x", topics=[])
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND


@with_adapter(share_group_record_lock_duration_ms=7_000)
async def test_settings_of_groups(connect: Connect) -> None:
    client = connect()
    assert await configure(client, share_auto_offset_reset="by_duration:PT1H") == 0
    assert await configure(client, share_auto_offset_reset="sometime") == ErrorCode.INVALID_CONFIG
    assert await configure(client, share_nothing="1") == ErrorCode.INVALID_CONFIG
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": "g", "configuration_keys": None}
    (answer,) = (await client.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource])).results
    values = {config.name: config.value for config in answer.configs}
    assert values["share.auto.offset.reset"] == "by_duration:PT1H"
    assert values["share.delivery.count.limit"] == "5"
    assert values["share.record.lock.duration.ms"] == "7000"


@with_adapter
async def test_a_group_begins_at_the_end(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    await client.produce("t", batch(b"old"))
    told = await beat(client, "me", 0, ["t"])
    me = Member(connect(), told.assignment.topic_partitions[0].topic_id)
    assert await me.take() == []
    await client.produce("t", batch(b"new"))
    assert await me.take() == [(1, 1, 1)]


async def dead_letters(client: Client, topic: str) -> list[Any]:
    found: list[Any] = []
    for position, size in batches_in(dead := bytes((await client.fetch(topic, 0)).records)):
        found += decode_records(dead[position : position + size])
    return found


@with_adapter
async def test_dead_letters(connect: Connect) -> None:
    letters = {"errors_deadletterqueue_topic_name": "dlq.g", "errors_deadletterqueue_copy_record_enable": "true"}
    (me,) = await joined(connect, "me", share_delivery_count_limit="2", **letters)
    await me.client.create("dlq.g", errors_deadletterqueue_group_enable="true")
    assert await me.take(max_records=1) == [(0, 4, 1)]
    assert await me.take((0, 3, [RELEASE, REJECT, ACCEPT, ACCEPT]), max_records=1) == [(0, 0, 2)]
    assert await me.acknowledge((0, 0, [RELEASE]), (4, 4, [ACCEPT])) == 0
    found = await dead_letters(me.client, "dlq.g")
    assert [(r.key, r.value, dict(r.headers)["__dlq.errors.offset"]) for r in found] == [
        (b"k", b"1", b"1"),
        (b"k", b"0", b"0"),
    ]
    headers = dict(found[1].headers)
    origin = decode_origin(headers.pop("mainstem-origin") or b"")
    assert (origin.reason, origin.queue, origin.topic, origin.offset) == ("delivery_limit", "g", "t", 0)
    assert origin.deliveries == 2
    assert headers == {
        "__dlq.errors.topic": b"t",
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"0",
        "__dlq.errors.group": b"g",
        "__dlq.errors.delivery.count": b"2",
        "__dlq.errors.message": b"Offset delivery count exceeded the threshold.",
    }
    assert await me.take(max_records=1) == [(5, 9, 1)]


@with_adapter
async def test_a_topic_that_does_not_allow_it_gets_no_dead_letters(connect: Connect) -> None:
    (me,) = await joined(connect, "me", errors_deadletterqueue_topic_name="dlq.g")
    await me.client.create("dlq.g")
    assert await me.take() == [(0, 4, 1), (5, 9, 1), (10, 14, 1), (15, 19, 1)]
    assert await me.acknowledge((0, 4, [REJECT])) == 0
    assert await dead_letters(me.client, "dlq.g") == []
    await configure(me.client, errors_deadletterqueue_topic_name="dlq.missing")
    assert await me.acknowledge((5, 9, [REJECT])) == 0
    await configure(me.client, errors_deadletterqueue_topic_name="business")
    await me.client.create("business", errors_deadletterqueue_group_enable="true")
    assert await me.acknowledge((10, 14, [REJECT])) == 0
    assert await dead_letters(me.client, "business") == []
    assert await me.take() == [], "they are settled all the same"


@with_adapter(dead_letter_topics_create=True, partitions_default=3)
async def test_a_topic_for_dead_letters_is_created(connect: Connect) -> None:
    (me,) = await joined(connect, "me", errors_deadletterqueue_topic_name="dlq.new")
    await me.take()
    assert await me.acknowledge((0, 1, [REJECT])) == 0
    assert [(r.key, r.value) for r in await dead_letters(me.client, "dlq.new")] == [(None, None)] * 2
    (topic,) = (await me.client.ask(ApiKey.METADATA, 12, topics=[{"name": "dlq.new"}])).topics
    assert len(topic.partitions) == 3


@with_adapter
async def test_stretches_are_as_long_as_asked_for(connect: Connect) -> None:
    one, two = await joined(connect, "one", "two")
    assert await one.take(batch_size=10) == [(0, 9, 1), (10, 19, 1)]
    assert await one.acknowledge((4, 6, [RELEASE])) == 0
    assert await two.take(batch_size=10) == [(4, 6, 2)]


@with_adapter
async def test_a_fetch_waits_for_enough(connect: Connect) -> None:
    one, two = await joined(connect, "one", "two")
    await one.take()
    size = len(batch(b"new"))
    sizes = {"max_wait_ms": 10_000, "min_bytes": 3 * size, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
    two.client.send(ApiKey.SHARE_FETCH, 2, **two.body((), **sizes))
    for _ in range(2):
        await one.client.produce("t", batch(b"new"))
    two.client.pump()
    assert await one.take() == [(20, 20, 1), (21, 21, 1)], "nothing was given to who waits for more"
    assert await one.acknowledge((20, 21, [RELEASE])) == 0
    await one.client.produce("t", batch(b"new"))
    two.client.pump()
    _, answer = decode_response(ApiKey.SHARE_FETCH, 2, await two.client.receive())
    acquired = answer.responses[0].partitions[0].acquired_records
    assert [(a.first_offset, a.last_offset, a.delivery_count) for a in acquired] == [(20, 21, 2), (22, 22, 1)]
    assert await one.acknowledge((0, 0, [RELEASE])) == 0
    assert await two.take(max_wait_ms=50, min_bytes=1 << 20) == [(0, 0, 2)], "what there is when the time is over"


@with_adapter
async def test_a_group_may_forbid_renewal(connect: Connect) -> None:
    (me,) = await joined(connect, "me", share_renew_acknowledge_enable="false")
    await me.take()
    assert await me.acknowledge((0, 0, [RENEW]), is_renew_ack=True) == ErrorCode.INVALID_RECORD_STATE
    assert await me.acknowledge((0, 0, [ACCEPT])) == 0


@with_adapter(share_group_members_max=1, share_group_heartbeat_interval_ms=700)
async def test_rules_of_the_broker_and_of_one_group(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    assert (await beat(client, "one", 0, ["t"])).heartbeat_interval_ms == 700
    assert (await beat(client, "two", 0, ["t"])).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert await configure(client, share_heartbeat_interval_ms="6000") == 0
    assert (await beat(client, "one", 1)).heartbeat_interval_ms == 6_000
    assert await configure(client, share_session_timeout_ms="1") == ErrorCode.INVALID_CONFIG


@with_adapter(share_group_session_timeout_ms=50, share_group_record_lock_duration_ms=1_000)
async def test_who_is_silent_is_dropped_and_its_locks_run_out(connect: Connect) -> None:
    one, two = await joined(connect, "one", "two")
    await one.take()
    assert len(await two.take(max_wait_ms=10_000)) == 4
    assert (await beat(one.client, "one", 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@with_adapter
async def test_aborted_records_and_markers_are_not_given_out(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    assert await configure(client, share_auto_offset_reset="earliest", share_isolation_level="read_committed") == 0
    told = await beat(client, "me", 0, ["t"])
    me = Member(connect(), told.assignment.topic_partitions[0].topic_id)
    producer = Producer(client, second=True)
    await producer.begin()
    assert await producer.write("t", b"a", b"b") == 0
    assert await me.take() == []
    assert await producer.end(commit=False) == 0
    await client.produce("t", batch(b"c"))
    assert await me.take() == [(3, 3, 1)]
    assert await me.acknowledge((3, 3, [ACCEPT])) == 0
    (group,) = (
        await client.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=[{"group_id": "g", "topics": None}])
    ).groups
    assert group.topics[0].partitions[0].start_offset == 4


@with_adapter
async def test_a_group_begins_with_what_is_young(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    await client.create("u")
    now_ms = time.time_ns() // 1_000_000
    for topic in ("t", "u"):
        await client.produce(topic, batch(b"old", b"old"))
    await client.produce("t", batch(b"young", time_ms=now_ms - 60_000))
    trimmed = {"name": "u", "partitions": [{"partition_index": 0, "offset": 1}]}
    await client.ask(ApiKey.DELETE_RECORDS, 2, topics=[trimmed], timeout_ms=1_000)
    assert await configure(client, share_auto_offset_reset="by_duration:PT1H") == 0
    told = await beat(client, "me", 0, ["t", "u"])
    found = {}
    for number, assigned in enumerate(told.assignment.topic_partitions):
        me = Member(connect(), assigned.topic_id, f"me{number}")
        found[assigned.topic_id] = await me.take()
    assert sorted(found.values()) == [[], [(2, 2, 1)]], "of the other topic nothing is young"


@with_adapter
async def test_what_was_trimmed_is_passed_over(connect: Connect) -> None:
    (me,) = await joined(connect, "me")
    assert await me.take(max_records=1) == [(0, 4, 1)]
    trimmed = {"name": "t", "partitions": [{"partition_index": 0, "offset": 10}]}
    await me.client.ask(ApiKey.DELETE_RECORDS, 2, topics=[trimmed], timeout_ms=1_000)
    assert await me.take((0, 4, [RELEASE]), max_records=1) == [(10, 14, 1)]


@with_engine
async def test_what_is_settled_and_counted_survives_a_restart(engine: MemoryEngine) -> None:
    async def opened() -> tuple[Broker, Connect]:
        broker = await Broker.open(engine, LoopClock())
        adapter = KafkaAdapter(KafkaSettings(), broker, Operations())
        return broker, lambda: Client(adapter)

    _, connect = await opened()
    (me,) = await joined(connect, "me")
    assert len(await me.take()) == 4
    assert await me.acknowledge((0, 6, [ACCEPT]), (8, 9, [RELEASE]), (15, 19, [ACCEPT])) == 0
    broker, connect = await opened()
    client = connect()
    (listed,) = (await client.ask(ApiKey.LIST_GROUPS, 5)).groups
    assert (listed.group_type, listed.group_state) == ("Share", "Empty")
    assert (await beat(client, "me", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await beat(client, "me", 0, ["t"])).member_epoch == 2
    again = Member(connect(), me.topic_id)
    assert await again.take() == [(7, 7, 1), (8, 9, 2), (10, 14, 1)]
    await broker.topics.delete(broker.topics.get("t"))
    await opened()
    assert not (await engine.load("subscriptions/g")).entries, "of a topic that is gone nothing is kept"


@with_adapter
async def test_an_answer_keeps_to_its_limit(connect: Connect) -> None:
    client = connect()
    await client.create("many", 3)
    topic_id = (await client.ask(ApiKey.METADATA, 12, topics=[{"name": "many"}])).topics[0].topic_id
    assert await configure(client, "g", share_auto_offset_reset="earliest") == 0
    for partition in range(3):
        await client.produce("many", batch(b"x" * 820), partition=partition)
    await beat(client, "me", 0, ["many"])
    wanted = [{"partition_index": index, "acknowledgement_batches": []} for index in range(3)]
    me = Member(client, topic_id)
    topics = [{"topic_id": topic_id, "partitions": wanted}]
    seen = []
    for _ in range(3):
        answer = await me.fetch(topics=topics, max_bytes=1_000)
        given = [p for topic in answer.responses for p in topic.partitions if p.acquired_records]
        assert len(given) == 1, "the second batch of about 900 bytes has no room"
        seen.append(given[0].partition_index)
    assert sorted(seen) == [0, 1, 2]
