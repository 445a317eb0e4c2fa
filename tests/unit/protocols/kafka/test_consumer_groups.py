"""Groups that the broker assigns, request by request."""

from typing import Any

from mainstem.wire.kafka import ApiKey, ErrorCode
from tests.unit.protocols.kafka.client import Client, Connect, with_adapter
from tests.unit.protocols.kafka.test_groups import commit, join


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


@with_adapter(group_initial_delay_ms=0)
async def test_refusals(connect: Connect) -> None:
    client = connect()
    await client.create("t")
    assert (await joined(client, "")).error_code == ErrorCode.INVALID_REQUEST
    assert (await beat(client, "me", 0)).error_code == ErrorCode.INVALID_REQUEST
    assert (await beat(client, "me", 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        await beat(client, "me", 0, subscribed_topic_regex="a.*")
    ).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    await joined(client)
    assert (await beat(client, "me", 9)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await beat(client, "me", 1, server_assignor="best")).error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert (await join(client, 9)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (await join(client, 9, "classic")).error_code == 0
    classic = {"rebalance_timeout_ms": 1, "subscribed_topic_names": [], "topic_partitions": [], "group_id": "classic"}
    assert (await beat(client, "me", 0, **classic)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
