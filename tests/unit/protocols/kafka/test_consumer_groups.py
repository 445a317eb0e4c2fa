"""Groups that the broker assigns, request by request."""

from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.protocols.kafka.adapter import KafkaAdapter
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.kafka import ApiKey, ErrorCode
from mainstem.wire.kafka.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from tests.support.clients.kafka_client import Client, Connect, Operations, with_adapter
from tests.support.worlds.brokers import with_engine
from tests.unit.protocols.kafka.group_requests import commit, fetch, join, stable


async def beat(client: Client, member_id: str, epoch: int, **said: Any) -> Any:
    body = {"group_id": "g", "member_id": member_id, "member_epoch": epoch} | said
    return await client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **body)


async def joined(client: Client, member_id: str = "me") -> Any:
    first = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return await beat(client, member_id, 0, **first)


@with_adapter
async def test_a_member_is_told_its_share(connect: Connect) -> None:
    client = connect()
    await client.create("t", 3)
    told = await joined(client)
    assert (told.error_code, told.member_epoch, told.heartbeat_interval_ms) == (0, 1, 5_000)
    assert [list(t.partitions) for t in told.assignment.topic_partitions] == [[0, 1, 2]]
    assert (await beat(client, "me", 1)).assignment is None
    (group,) = (await client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["g"])).groups
    assert (group.group_state, group.assignor_name, group.members[0].member_epoch) == ("Stable", "uniform", 1)
    assert group.members[0].assignment.topic_partitions[0].topic_name == "t"
    (listed,) = (await client.ask(ApiKey.LIST_GROUPS, 5, types_filter=["consumer"])).groups
    assert (listed.group_id, listed.group_type, listed.group_state) == ("g", "Consumer", "Stable")
    (unknown,) = (await client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["x"])).groups
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (classic,) = (await client.ask(ApiKey.DESCRIBE_GROUPS, 6, groups=["g"])).groups
    assert classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND


@with_adapter
async def test_offsets_are_committed_in_the_members_epoch(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    await joined(client)
    member = {"member_id": "me", "generation_id_or_member_epoch": 1}
    assert await commit(client, 9, 5, **member) == 0
    assert await commit(client, 8, 5, **member) == ErrorCode.UNSUPPORTED_VERSION, "older ones know no epochs"
    assert await commit(client, 9, 5, **member | {"generation_id_or_member_epoch": 0}) == ErrorCode.STALE_MEMBER_EPOCH
    assert await commit(client, 9, 5, **member | {"member_id": "you"}) == ErrorCode.UNKNOWN_MEMBER_ID
    for epoch, code in ((1, 0), (0, ErrorCode.STALE_MEMBER_EPOCH)):
        asked = {"group_id": "g", "member_id": "me", "member_epoch": epoch, "topics": None}
        (answer,) = (await client.ask(ApiKey.OFFSET_FETCH, 9, groups=[asked])).groups
        assert answer.error_code == code
    (refused,) = (await client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=["g"])).results
    assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
    assert (await beat(client, "me", -1)).member_epoch == -1
    (deleted,) = (await client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=["g"])).results
    assert deleted.error_code == 0
    assert not (await client.ask(ApiKey.LIST_GROUPS, 5)).groups


@with_adapter
async def test_a_group_without_members_and_offsets_is_found_again_and_again(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    await joined(client)
    await beat(client, "me", -1)
    deletion = {"group_id": "g", "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    for _ in range(2):
        assert (await client.ask(ApiKey.OFFSET_DELETE, 0, **deletion)).error_code == 0
    (deleted,) = (await client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=["g"])).results
    assert deleted.error_code == 0


@with_adapter(group_initial_delay_ms=0)
async def test_refusals(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    assert (await joined(client, "")).error_code == ErrorCode.INVALID_REQUEST
    assert (await beat(client, "me", 0)).error_code == ErrorCode.INVALID_REQUEST
    assert (await beat(client, "me", 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    first = {"rebalance_timeout_ms": 1, "subscribed_topic_names": [], "topic_partitions": []}
    for wrong in ("a(", "(?=a)b"):
        refused = await beat(client, "me", 0, subscribed_topic_regex=wrong, **first)
        assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert (await client.ask(ApiKey.LIST_GROUPS, 5)).groups == []
    await joined(client)
    assert (await beat(client, "me", 9)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await beat(client, "me", 1, server_assignor="best")).error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    # Only consumers may come from the classic protocol, and only what can be read is taken over.
    assert (await join(client, 9, protocol_type="connect")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = [{"name": "range", "metadata": b"?"}]
    assert (await join(client, 9, protocols=other)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (await join(client, 9, "connectors", protocol_type="connect")).error_code == 0
    assert (await beat(client, "me", 0, group_id="connectors", **first)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await stable(client, "strange")
    assert (await beat(client, "me", 0, group_id="strange", **first)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await beat(client, "me", 7, group_id="strange")).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@with_adapter
async def test_topics_by_regular_expression(connect: Connect) -> None:
    client = connect()
    await client.create("orders-1", 1)
    await client.create("bills", 1)
    first = {"rebalance_timeout_ms": 1_000, "topic_partitions": []}
    told = await beat(client, "me", 0, subscribed_topic_regex="orders-.*", **first)
    ids = {"orders-1": told.assignment.topic_partitions[0].topic_id}
    assert len(told.assignment.topic_partitions) == 1
    await client.create("orders-2", 2)
    told = await beat(client, "me", 1)
    assert (told.member_epoch, sorted(len(t.partitions) for t in told.assignment.topic_partitions)) == (2, [1, 2])
    await client.create("other", 1)
    assert (await beat(client, "me", 2)).assignment is None
    (group,) = (await client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["g"])).groups
    assert group.members[0].subscribed_topic_regex == "orders-.*"
    await client.ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": "orders-2"}], timeout_ms=1_000)
    told = await beat(client, "me", 2)
    assert [t.topic_id for t in told.assignment.topic_partitions] == [ids["orders-1"]]
    owned = [{"topic_id": ids["orders-1"], "partitions": [0]}]
    assert (await beat(client, "me", 2, topic_partitions=owned)).member_epoch == 3
    told = await beat(client, "me", 3, subscribed_topic_regex="", subscribed_topic_names=["bills"])
    assert told.assignment.topic_partitions == []
    told = await beat(client, "me", 3, topic_partitions=[])
    assert [t.topic_id for t in told.assignment.topic_partitions] not in ([], [ids["orders-1"]])


class Classic:
    """One member of the classic protocol, cooperative: it says what it has, and keeps it while others join."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.id, self.generation = "", -1
        self.has: list[int] = []

    async def join(self, **said: Any) -> Any:
        owned = [{"topic": "t", "partitions": self.has}]
        metadata = bytes(encode_subscription({"topics": ["t"], "owned_partitions": owned}))
        protocols = [{"name": "cooperative-sticky", "metadata": metadata}]
        answer = await join(self.client, 9, member_id=self.id, protocols=protocols, **said)
        assert answer.error_code == 0
        self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    @property
    def said(self) -> dict[str, Any]:
        return {"group_id": "g", "generation_id": self.generation, "member_id": self.id}

    async def sync(self, **shares: list[int]) -> int:
        assignments = [
            {
                "member_id": member,
                "assignment": bytes(encode_assignment({"assigned_partitions": [{"topic": "t", "partitions": parts}]})),
            }
            for member, parts in shares.items()
        ]
        answer = await self.client.ask(ApiKey.SYNC_GROUP, 5, assignments=assignments, **self.said)
        if not answer.error_code:
            entries = decode_assignment(answer.assignment)[1].assigned_partitions
            self.has = [partition for entry in entries for partition in entry.partitions]
        return int(answer.error_code)

    async def beats(self) -> int:
        return int((await self.client.ask(ApiKey.HEARTBEAT, 4, **self.said)).error_code)


async def kind(client: Client) -> tuple[str, str]:
    (listed,) = (await client.ask(ApiKey.LIST_GROUPS, 5)).groups
    return listed.group_type, listed.group_state


@with_adapter(group_initial_delay_ms=0)
async def test_a_group_is_rolled_to_the_newer_protocol_and_back(connect: Connect) -> None:
    client = connect()
    await client.create("t", 4)
    old = Classic(connect())
    await old.join()
    assert await old.sync(**{old.id: [0, 1, 2, 3]}) == 0
    assert await commit(client, 9, 7, member_id=old.id, generation_id_or_member_epoch=1) == 0
    assert await kind(client) == ("Classic", "Stable")

    told = await joined(client, "new")
    assert (told.error_code, told.member_epoch, told.assignment.topic_partitions) == (0, 2, [])
    assert await kind(client) == ("Consumer", "Reconciling")
    assert await old.beats() == ErrorCode.REBALANCE_IN_PROGRESS
    assert await old.sync() == ErrorCode.REBALANCE_IN_PROGRESS
    answer = await old.join()
    assert (answer.generation_id, answer.leader, answer.members) == (1, "", []), "it must let go first"
    assert await old.sync() == 0
    assert old.has == [0, 1]
    assert (await beat(client, "new", 2)).assignment is None
    assert await old.beats() == ErrorCode.REBALANCE_IN_PROGRESS
    assert (await old.join()).generation_id == 2
    assert (await old.sync(), old.has, await old.beats()) == (0, [0, 1], 0)
    told = await beat(client, "new", 2)
    assert [list(t.partitions) for t in told.assignment.topic_partitions] == [[2, 3]]
    assert await kind(client) == ("Consumer", "Stable")

    (group,) = (await client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["g"])).groups
    assert {member.member_id: member.member_type for member in group.members} == {old.id: 0, "new": 1}
    stale = {"member_id": old.id, "generation_id_or_member_epoch": 1}
    assert await commit(client, 9, 8, **stale) == ErrorCode.ILLEGAL_GENERATION
    assert await commit(client, 9, 8, member_id=old.id, generation_id_or_member_epoch=2) == 0
    topics = [{"name": "t", "partitions": [{"partition_index": 0}]}]
    forgotten = await client.ask(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)
    assert forgotten.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC

    assert (await beat(client, "new", -1)).error_code == 0
    assert await kind(client) == ("Classic", "PreparingRebalance")
    assert await old.beats() == ErrorCode.REBALANCE_IN_PROGRESS
    answer = await old.join()
    assert (answer.generation_id, answer.leader) == (3, old.id)
    assert await old.sync(**{old.id: [0, 1, 2, 3]}) == 0
    assert old.has == [0, 1, 2, 3]
    assert await fetch(client, 9, [0]) == [(0, 8, "note", 0)]
    unknown = (await client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["g"])).groups[0]
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND


@with_adapter(group_initial_delay_ms=0)
async def test_a_classic_member_joins_and_leaves_a_directed_group(connect: Connect) -> None:
    client = connect()
    await client.create("t", 2)
    await joined(client, "new")
    old = Classic(connect())
    assert (await old.join()).generation_id == 2
    assert (await old.sync(), old.has) == (0, [])
    assert await old.beats() == 0
    told = await beat(client, "new", 1)
    owned = [{"topic_id": t.topic_id, "partitions": t.partitions} for t in told.assignment.topic_partitions]
    await beat(client, "new", 1, topic_partitions=owned)
    assert await old.beats() == ErrorCode.REBALANCE_IN_PROGRESS, "its share is free by now"
    await old.join()
    assert (await old.sync(), len(old.has)) == (0, 1)
    gone = await client.ask(ApiKey.LEAVE_GROUP, 5, group_id="g", members=[{"member_id": "new"}])
    assert gone.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    gone = await client.ask(ApiKey.LEAVE_GROUP, 5, group_id="g", members=[{"member_id": old.id}])
    assert gone.members[0].error_code == 0
    told = await beat(client, "new", 2)
    assert [len(t.partitions) for t in told.assignment.topic_partitions] == [2]


@with_adapter(group_initial_delay_ms=0)
async def test_a_static_member_changes_its_protocol(connect: Connect) -> None:
    client = connect()
    await client.create("t", 2)
    old = Classic(connect())
    await old.join(group_instance_id="i")
    await client.ask(ApiKey.SYNC_GROUP, 5, group_instance_id="i", assignments=[], **old.said)
    first = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    told = await beat(client, "new", 0, instance_id="i", **first)
    assert [len(t.partitions) for t in told.assignment.topic_partitions] == [2], "it takes the place of the old one"
    said = old.said | {"group_instance_id": "i"}
    assert (await client.ask(ApiKey.HEARTBEAT, 4, **said)).error_code == ErrorCode.FENCED_INSTANCE_ID
    back = Classic(connect())
    await back.join(group_instance_id="i")
    assert (await kind(client))[0] == "Classic"


@with_adapter(group_initial_delay_ms=0)
async def test_an_empty_group_changes_its_kind(connect: Connect) -> None:
    client = connect()
    await client.create("t", 1)
    await joined(client, "new")
    assert await commit(client, 9, 5, member_id="new", generation_id_or_member_epoch=1) == 0
    await beat(client, "new", -1)
    assert await kind(client) == ("Consumer", "Empty")
    old = Classic(connect())
    await old.join()
    assert (await kind(client))[0] == "Classic"
    await client.ask(ApiKey.LEAVE_GROUP, 5, group_id="g", members=[{"member_id": old.id}])
    assert await kind(client) == ("Classic", "Empty")
    assert (await joined(client, "newer")).error_code == 0
    assert await kind(client) == ("Consumer", "Stable")
    assert await fetch(client, 9, [0]) == [(0, 5, "note", 0)]


@with_adapter(group_initial_delay_ms=0, consumer_group_migration="disabled")
async def test_the_operator_may_forbid_it(connect: Connect) -> None:
    client = connect()
    await client.create("t", 1)
    old = Classic(connect())
    await old.join()
    await old.sync(**{old.id: [0]})
    assert (await joined(client, "new")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert await old.beats() == 0


@with_engine
async def test_a_mixed_group_goes_on_after_a_restart(engine: MemoryEngine) -> None:
    async def opened() -> Client:
        settings = KafkaSettings(group_initial_delay_ms=0)
        return Client(KafkaAdapter(settings, await Broker.open(engine, LoopClock()), Operations()))

    client = await opened()
    await client.create("t", 2)
    old = Classic(client)
    await old.join()
    await old.sync(**{old.id: [0, 1]})
    await joined(client, "new")
    client = old.client = await opened()
    assert await kind(client) == ("Consumer", "Reconciling")
    assert await old.beats() == ErrorCode.REBALANCE_IN_PROGRESS
    await old.join()
    assert (await old.sync(), len(old.has)) == (0, 1)
    await old.join()
    assert len((await beat(client, "new", 2)).assignment.topic_partitions) == 1
    await beat(client, "new", -1)
    client = old.client = await opened()
    assert (await kind(client))[0] == "Classic"
    assert await old.beats() == 0, "as it was stored when the last of the others left"
