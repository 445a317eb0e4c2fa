"""One list of all who read a topic: groups, share groups, queues, subscriptions."""

from typing import Any

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.live.lag_history import LagHistory, LagSample
from mainstem.broker.log import Edge
from mainstem.broker.queues import QueueProperties
from mainstem.broker.subscriptions.topic_subscriptions import SubscriptionWish
from tests.support.clients.http_client import NOW_MS, Client, with_client
from tests.unit.protocols.http.measured import behind

HOUR_MS = 3_600_000


@with_client
async def test_consumers_of_every_kind_are_one_list(client: Client) -> None:
    broker = client.broker
    await client.create("t", 2)
    queue = await broker.queues.declare(DEFAULT_NAMESPACE, "t", QueueProperties())
    await broker.topic_subscriptions.open(SubscriptionWish(DEFAULT_NAMESPACE, "t", "sub", start=Edge.START))
    await client.publish("t", NOW_MS - 90_000, NOW_MS)
    await client.publish("t", NOW_MS - 30_000, partition=1)
    await behind(client, "g", "t", 1)
    await behind(client, "elsewhere", (await _other(client)), 1)
    page = await client.get("/v1/topics/t/consumers")
    found: dict[str, Any] = {one["kind"]: one for one in page["consumers"]}
    assert found.keys() == {"group", "queue", "subscription"}
    assert (found["group"]["name"], found["group"]["lag_messages"], found["group"]["lag_seconds"]) == ("g", 2, 90.0)
    assert (found["queue"]["name"], found["queue"]["lag_messages"]) == (queue.name, 3)
    assert (found["subscription"]["name"], found["subscription"]["lag_messages"]) == ("sub", 3)
    assert found["group"]["trend"] == "unknown"
    only = await client.get("/v1/topics/t/consumers?kind=group&search=g")
    assert [one["name"] for one in only["consumers"]] == ["g"]
    first = await client.get("/v1/topics/t/consumers?sort=name&limit=2")
    second = await client.get(first["next"])
    assert [one["name"] for one in first["consumers"] + second["consumers"]] == ["g", "sub", "t"]
    assert (await client.ask("GET", "/v1/topics/none/consumers")).problem == "unknown-topic"


@with_client
async def test_consumers_of_all_topics_are_one_list(client: Client) -> None:
    await client.create("t", 2)
    await client.publish("t", NOW_MS - 90_000, NOW_MS)
    await behind(client, "slow", "t", 1)
    await behind(client, "also-slow", "t", 1)
    await behind(client, "elsewhere", (await _other(client)), 1)
    page = await client.get("/v1/consumers")
    worst = page["consumers"][0]
    assert (worst["name"], worst["topic"], worst["lag_seconds"]) == ("also-slow", "t", 90.0)
    assert {one["name"] for one in page["consumers"]} == {"slow", "also-slow", "elsewhere"}
    assert page["complete"] is True
    assert page["as_of_ms"] == NOW_MS
    first = await client.get("/v1/consumers?sort=name&limit=2&kind=group")
    second = await client.get(first["next"])
    assert [one["name"] for one in first["consumers"] + second["consumers"]] == ["also-slow", "elsewhere", "slow"]
    of_other = await client.get("/v1/consumers?search=other")
    assert [one["name"] for one in of_other["consumers"]] == ["elsewhere"]
    assert (await client.get("/v1/consumers?namespace=none"))["consumers"] == []


async def _other(client: Client) -> str:
    await client.create("other")
    await client.publish("other", NOW_MS)
    return "other"


def test_a_consumer_that_stands_still_is_stuck_and_overtaken_by_retention() -> None:
    history = LagHistory()
    for second in range(0, 301, 15):
        history.note("c", LagSample(second * 1000, 7, 100 + second, 60.0 + second))
    now = LagSample(315_000, 7, 415, 375.0)
    trend = history.trend("c", now, HOUR_MS)
    assert trend.direction == "growing"
    assert trend.messages_per_second is not None
    assert round(trend.messages_per_second, 3) == 1.0
    assert trend.stuck_since_ms == 0
    assert trend.overtaken_in_ms == HOUR_MS - 375_000
    assert history.trend("c", now, None).overtaken_in_ms is None, "nothing is deleted"
    assert len(history.messages("c")) == 21


def test_a_consumer_that_keeps_its_distance_is_steady() -> None:
    history = LagHistory()
    for second in range(0, 301, 15):
        history.note("c", LagSample(second * 1000, second, 50, 10.0))
    trend = history.trend("c", LagSample(301_000, 301, 50, 10.0), HOUR_MS)
    assert (trend.direction, trend.stuck_since_ms, trend.overtaken_in_ms) == ("steady", None, None)
    shrunk = history.trend("c", LagSample(302_000, 350, 5, 1.0), HOUR_MS)
    assert (shrunk.direction, shrunk.overtaken_in_ms) == ("shrinking", None)


def test_one_that_was_committed_long_ago_is_stuck_from_then_on() -> None:
    history = LagHistory()
    history.note("c", LagSample(1_000_000, 1, 9, 5.0, moved_ms=400_000))
    assert history.trend("c", LagSample(1_001_000, 1, 9, 6.0, moved_ms=400_000), None).stuck_since_ms == 400_000
    done = history.trend("c", LagSample(1_001_000, 10, 0, 0.0), None)
    assert done.stuck_since_ms is None, "nothing is left to read"


def test_histories_are_bounded_and_forgotten() -> None:
    history = LagHistory(consumers_max=2)
    for name in ("a", "b", "c"):
        history.note(name, LagSample(1, 1, 1, 1.0))
    assert history.messages("c") == []
    assert history.trend("c", LagSample(2, 1, 1, 1.0), None).direction == "unknown"
    history.keep({"b"})
    assert history.messages("a") == []
    assert history.messages("b") == [(1, 1)]


@with_client
async def test_the_lag_is_sampled(client: Client) -> None:
    await client.create("t")
    await client.publish("t", NOW_MS - 1_000)
    await behind(client, "g", "t")
    client.broker.live.sample()
    await client.get("/health")
    for _ in range(15):
        client.broker.live.sample()
    await client.get("/health")
    (group,) = (await client.get("/v1/topics/t/consumers"))["consumers"]
    assert group["history"] == [[NOW_MS, 1], [NOW_MS, 1]]
