"""Groups over HTTP: members, offsets and lag."""

from mainstem.broker.groups.directed_groups import Beat
from mainstem.broker.groups.groups import CommittedOffset, GroupRules, JoinWish, TopicPlace
from mainstem.broker.groups.streams_groups import StreamsBeat
from mainstem.broker.subscriptions.subscriptions import LeaseVerdict, ReadRequest, Ruling
from mainstem.wire.kafka.consumer_protocol import encode_assignment
from tests.support.clients.http_client import NOW_MS, Client, with_client
from tests.support.worlds.applications import COUNTING


async def commit(client: Client, group: str, topic: str, **offsets: int) -> None:
    """Offsets by `p0`, `p1`, ..."""
    topic_id = client.broker.topics.get(topic).id
    places = {
        TopicPlace(topic_id, int(name[1:])): CommittedOffset(offset, -1, "note", NOW_MS)
        for name, offset in offsets.items()
    }
    await client.broker.groups.commit(group, places)


@with_client
async def test_a_group_without_members_shows_its_lag(client: Client) -> None:
    await client.create("a", 3)
    await client.publish("a", NOW_MS - 60_000, NOW_MS - 9_000, NOW_MS - 1_000)
    await client.publish("a", NOW_MS - 20_000, partition=1)
    await commit(client, "g", "a", p0=1, p1=0, p2=0)
    group = await client.get("/v1/groups/g")
    assert (group["state"], group["members"], group["next"]) == ("empty", [], None)
    assert (group["lag_messages"], group["lag_seconds"]) == (3, 20.0)
    rows = [(o["topic"], o["partition"], o["offset"], o["end"], o["lag_messages"], o["lag_seconds"])
            for o in group["offsets"]]  # fmt: skip
    assert rows == [("a", 0, 1, 3, 2, 9.0), ("a", 1, 0, 1, 1, 20.0), ("a", 2, 0, 0, 0, 0.0)]
    assert (group["offsets"][0]["note"], group["offsets"][0]["committed_ms"]) == ("note", NOW_MS)


@with_client
async def test_a_group_that_has_read_all_has_no_lag(client: Client) -> None:
    await client.create("a")
    await client.publish("a", 1, 2)
    await commit(client, "g", "a", p0=2)
    group = await client.get("/v1/groups/g")
    assert (group["lag_messages"], group["lag_seconds"]) == (0, 0.0)


@with_client
async def test_records_without_a_timestamp_have_no_age(client: Client) -> None:
    await client.create("a")
    await client.publish("a", -1)
    await commit(client, "g", "a", p0=0)
    group = await client.get("/v1/groups/g")
    assert (group["lag_messages"], group["lag_seconds"]) == (1, None)


@with_client
async def test_what_expired_is_not_lag(client: Client) -> None:
    await client.create("a")
    await client.publish("a", NOW_MS - 60_000)
    await client.publish("a", NOW_MS - 1_000)
    await commit(client, "g", "a", p0=0)
    assert (await client.get("/v1/groups/g"))["lag_seconds"] == 60.0
    await client.broker.trim(client.broker.topics.get("a").logs[0], 1)
    group = await client.get("/v1/groups/g")
    assert (group["lag_messages"], group["lag_seconds"]) == (1, 1.0)


@with_client
async def test_a_topic_that_is_gone_is_no_lag(client: Client) -> None:
    await client.create("a")
    await client.publish("a", 1)
    await commit(client, "g", "a", p0=0)
    await client.broker.topics.delete(client.broker.topics.get("a"))
    group = await client.get("/v1/groups/g")
    assert (group["offsets"], group["lag_messages"]) == ([], 0)


@with_client
async def test_members_are_shown_with_what_they_work_on(client: Client) -> None:
    groups = client.broker.groups
    groups.govern(GroupRules(initial_delay_ms=0))
    wish = JoinWish("", None, "client", "/127.0.0.1", 10_000, 10_000, "consumer", (("range", b""),), False, False)
    joined = (await groups.join("g/1", wish)).result()
    assigned = {"assigned_partitions": [{"topic": "a", "partitions": [0, 2]}]}
    assignments = {joined.member_id: bytes(encode_assignment(assigned))}
    await groups.sync("g/1", joined.member_id, None, joined.generation, (None, None), assignments)
    group = await client.get("/v1/groups/g%2F1")
    assert (group["name"], group["state"], group["assigned_by"]) == ("g/1", "stable", "members")
    assert (group["generation"], group["protocol"]) == (1, "range")
    (member,) = group["members"]
    assert (member["client_id"], member["client_host"]) == ("client", "/127.0.0.1")
    assert member["assigned"] == [{"topic": "a", "partitions": [0, 2]}]
    assert (await client.get("/v1/groups"))["groups"] == [
        {"name": "g/1", "state": "stable", "members": 1, "is_shared": False}
    ]


@with_client
async def test_a_group_that_the_broker_assigns_is_shown_like_any_other(client: Client) -> None:
    await client.create("a", 2)
    await client.publish("a", NOW_MS - 2_000)
    beat = Beat("m", 0, "client", frozenset({"a"}), rebalance_timeout_ms=10_000, owned=frozenset())
    await client.broker.directed_groups.beat("g", beat)
    assert (await client.get("/v1/groups"))["groups"] == [
        {"name": "g", "state": "stable", "members": 1, "is_shared": False}
    ]
    await commit(client, "g", "a", p0=0)
    group = await client.get("/v1/groups/g")
    assert (group["state"], group["assigned_by"], group["lag_messages"]) == ("stable", "broker", 1)
    (member,) = group["members"]
    assert (member["id"], member["client_id"], member["client_host"]) == ("m", "client", None)
    assert member["assigned"] == [{"topic": "a", "partitions": [0, 1]}]
    assert 'mainstem_group_members{group="g"} 1.0' in (await client.ask("GET", "/metrics")).body.decode()


@with_client
async def test_a_share_group_is_shown_with_what_is_not_settled(client: Client) -> None:
    await client.create("a", 1)
    await client.publish("a", *(NOW_MS - age for age in (9_000, 7_000, 5_000, 3_000)))
    shared = client.broker.share_groups
    await shared.configs.configure("g", lambda configs: {"share.auto.offset.reset": "earliest"})
    await shared.beat("g", Beat("m", 0, "client", frozenset({"a"})))
    log = client.broker.topics.get("a").logs[0]
    await shared.open("g", log)
    assert (await shared.subscriptions.take("g", log, ReadRequest("m", 10, 1 << 20))).records == 4
    verdicts = [Ruling(0, 0, LeaseVerdict.ACCEPT), Ruling(2, 2, LeaseVerdict.ACCEPT)]
    assert await shared.subscriptions.rule("g", "m", {log: verdicts}) == {}
    group = await client.get("/v1/groups/g")
    assert (group["state"], group["is_shared"], group["assigned_by"]) == ("stable", True, "broker")
    assert (group["lag_messages"], group["lag_seconds"]) == (2, 7.0)
    (offset,) = group["offsets"]
    assert (offset["topic"], offset["partition"], offset["offset"], offset["end"]) == ("a", 0, 1, 4)
    assert offset["committed_ms"] is None
    assert group["members"][0]["assigned"] == [{"topic": "a", "partitions": [0]}]
    assert (await client.get("/v1/groups"))["groups"] == [
        {"name": "g", "state": "stable", "members": 1, "is_shared": True}
    ]
    measured = (await client.ask("GET", "/metrics")).body.decode()
    assert 'mainstem_group_lag_messages{group="g",topic="a"} 2.0' in measured
    assert 'mainstem_group_lag_seconds{group="g",topic="a"} 7.0' in measured


@with_client
async def test_groups_and_offsets_come_in_pages(client: Client) -> None:
    await client.create("a", 3)
    await client.create("b", 3)
    for name in ("g2", "g1", "g3"):
        await commit(client, name, "b", p0=0, p1=0, p2=0)
        await commit(client, name, "a", p0=0, p1=0, p2=0)
    page = await client.get("/v1/groups?limit=2")
    assert [group["name"] for group in page["groups"]] == ["g1", "g2"]
    assert [group["name"] for group in (await client.get(page["next"]))["groups"]] == ["g3"]
    seen, path = [], "/v1/groups/g1?limit=4"
    while path:
        page = await client.get(path)
        seen += [(offset["topic"], offset["partition"]) for offset in page["offsets"]]
        path = page["next"]
    assert seen == [(topic, partition) for topic in ("a", "b") for partition in range(3)]


@with_client
async def test_an_unknown_group_is_404(client: Client) -> None:
    reply = await client.ask("GET", "/v1/groups/nobody")
    assert (reply.status, reply.problem) == (404, "unknown-group")
    wrong = await client.ask("GET", "/v1/groups/nobody?after=x")
    assert (wrong.status, wrong.json()["parameter"]) == (400, "after")


@with_client
async def test_a_group_of_a_streams_application(client: Client) -> None:
    await client.create("words", 2)
    await client.broker.group_configs.configure("g", lambda _: {"streams.initial.rebalance.delay.ms": "0"})
    beat = StreamsBeat("one", 0, "app", rebalance_timeout_ms=1_000, topology=COUNTING, process_id="p")
    await client.broker.streams_groups.beat("g", beat)
    group = await client.get("/v1/groups/g")
    assert (group["state"], group["assigned_by"], group["protocol"]) == ("stable", "broker", "streams")
    (member,) = group["members"]
    assert (member["id"], member["client_id"]) == ("one", "app")
    assert {found["topic"]: found["partitions"] for found in member["assigned"]} == {"by-word": [0, 1], "words": [0, 1]}
    (listed,) = (await client.get("/v1/groups"))["groups"]
    assert (listed["name"], listed["members"], listed["is_shared"]) == ("g", 1, False)
