"""Topics over HTTP."""

from typing import Any

import pytest

from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.errors import TopicError
from mainstem.model.errors import Overloaded, StorageFull
from mainstem.wire.record_batch import encode_marker
from tests.support.clients.http_client import NOW_MS, Client, with_client


@with_client
async def test_a_topic_is_created_shown_and_deleted(client: Client) -> None:
    content = {"name": "a.b", "partitions": 2, "config": {"retention.ms": 5000, "cleanup.policy": "compact"}}
    created = await client.ask("POST", "/v1/topics", content)
    assert (created.status, created.headers["location"]) == (201, "/v1/topics/a.b")
    topic = await client.get("/v1/topics/a.b")
    assert created.json() == topic
    assert topic["id"] == str(client.broker.topics.get("a.b").id)
    assert topic["partitions"] == [
        {"partition": number, "start": 0, "end": 0, "stable": 0, "bytes": 0} for number in (0, 1)
    ]
    assert topic["config"]["retention.ms"] == {"value": "5000", "source": "topic"}
    assert topic["config"]["segment.ms"]["source"] == "default"
    gone = await client.ask("DELETE", "/v1/topics/a.b")
    assert (gone.status, gone.body) == (204, b"")
    again = await client.ask("DELETE", "/v1/topics/a.b")
    assert (again.status, again.problem) == (404, "unknown-topic")


@with_client
async def test_the_past_says_how_many_records_came_when(client: Client) -> None:
    await client.create("t", 2)
    await client.publish("t", NOW_MS - 9_000, NOW_MS - 8_500, NOW_MS - 100)
    await client.publish("t", NOW_MS - 5_000, partition=1)
    past = await client.get(f"/v1/topics/t/past?from_ms={NOW_MS - 10_000}&until_ms={NOW_MS}&parts=10")
    assert sum(past["records"]) == 4
    assert past["records"][5] == 1
    assert past["partitions"] == 2
    of_all = await client.get("/v1/topics/t/past?parts=3")
    assert of_all["from_ms"] == NOW_MS - 9_000
    assert sum(of_all["records"]) == 4
    await client.create("none")
    assert sum((await client.get("/v1/topics/none/past"))["records"]) == 0


@with_client
async def test_the_list_comes_in_pages_that_lead_to_each_other(client: Client) -> None:
    names = [f"t{number:02}" for number in range(25)]
    await client.broker.topics.create([NewTopic(name, 1) for name in reversed(names)])
    seen, path = [], "/v1/topics?limit=10"
    sizes = []
    while path:
        page = await client.get(path)
        seen += [topic["name"] for topic in page["topics"]]
        sizes.append(len(page["topics"]))
        path = page["next"]
    assert (seen, sizes) == (names, [10, 10, 5])
    assert (await client.get("/v1/topics?after=t23"))["topics"][0]["name"] == "t24"


@with_client
async def test_many_partitions_come_in_pages_too(client: Client) -> None:
    await client.create("a", 5)
    first = await client.get("/v1/topics/a?limit=3")
    assert [partition["partition"] for partition in first["partitions"]] == [0, 1, 2]
    second = await client.get(first["next"])
    assert [partition["partition"] for partition in second["partitions"]] == [3, 4]
    assert (second["next"], second["partition_count"]) == (None, 5)


@with_client
async def test_what_is_published_moves_the_facts(client: Client) -> None:
    await client.create("a")
    await client.publish("a", 1, 2, 3)
    await client.publish("a", 4, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    (facts,) = (await client.get("/v1/topics/a"))["partitions"]
    assert (facts["start"], facts["end"], facts["stable"]) == (0, 4, 3)
    assert facts["bytes"] > 0


@with_client
async def test_a_change_names_only_what_is_different(client: Client) -> None:
    await client.create("a", 2, retention_ms="5000", retention_bytes="9")
    change = {"partitions": 3, "config": {"retention.ms": None, "max.message.bytes": 2000}}
    changed = await client.ask("PATCH", "/v1/topics/a", change)
    assert changed.status == 200
    assert changed.json()["partition_count"] == 3
    assert client.broker.topics.get("a").configs == {"retention.bytes": "9", "max.message.bytes": "2000"}
    assert (await client.ask("PATCH", "/v1/topics/a", change)).json() == changed.json(), "said twice, done once"
    assert (await client.ask("PATCH", "/v1/topics/a", {})).status == 200


@with_client
async def test_a_change_is_refused_as_a_whole(client: Client) -> None:
    await client.create("a", 2)
    for change in (
        {"partitions": 1, "config": {"retention.ms": 1}},
        {"partitions": 3, "config": {"retention.ms": "x"}},
        {"partitions": 3, "config": {"nonsense": None}},
    ):
        assert (await client.ask("PATCH", "/v1/topics/a", change)).status == 400
    topic = client.broker.topics.get("a")
    assert (len(topic.logs), topic.configs) == (2, {})


@pytest.mark.parametrize(
    ("content", "problem", "members"),
    [
        ({}, "invalid-content", {"pointer": "/name"}),
        ([], "invalid-content", {"pointer": ""}),
        ({"name": 1}, "invalid-content", {"pointer": "/name"}),
        ({"name": "b", "partition": 1}, "invalid-content", {"pointer": "/partition"}),
        ({"name": "b", "partitions": 0}, "invalid-content", {"pointer": "/partitions"}),
        ({"name": "b", "config": 1}, "invalid-content", {"pointer": "/config"}),
        ({"name": "b", "config": {"a/b": {}}}, "invalid-content", {"pointer": "/config/a~1b"}),
        ({"name": "b", "config": {"retention.ms": None}}, "invalid-content", {"pointer": "/config/retention.ms"}),
        ({"name": "b", "config": {"a/b": 1}}, "invalid-config", {"key": "a/b", "pointer": "/config/a~1b"}),
        (b'{"name": "b", "config": {"retention.ms": 1e400}}', "invalid-content", {"pointer": "/config"}),
        ({"name": "b", "config": {"retention.ms": "x"}}, "invalid-config", {"key": "retention.ms"}),
        ({"name": "b", "config": {"retention.ms": True}}, "invalid-config", {"key": "retention.ms"}),
        ({"name": "b", "partitions": 100_001}, "invalid-partition-count", {}),
        ({"name": "b c"}, "invalid-topic-name", {}),
        ({"name": "t_1"}, "invalid-topic-name", {}),
        (b"{", "invalid-content", {"pointer": ""}),
        (b'{"name": "\xff"}', "invalid-content", {"pointer": ""}),
        (b'{"name": "b", "config": {"a": ' + b"[" * 9_000 + b"]" * 9_000 + b"}}", "invalid-content", {"pointer": ""}),
    ],
)  # fmt: skip
def test_a_topic_that_cannot_be_is_400_and_says_where(content: Any, problem: str, members: dict[str, str]) -> None:
    @with_client
    async def run(client: Client) -> None:
        await client.create("t.1")
        reply = await client.ask("POST", "/v1/topics", content)
        assert (reply.status, reply.problem) == (400, problem)
        assert members.items() <= reply.json().items()
        assert set(client.broker.topics.named()) == {"t.1"}

    run()


@with_client
async def test_a_topic_that_exists_is_409(client: Client) -> None:
    await client.create("a")
    reply = await client.ask("POST", "/v1/topics", {"name": "a"})
    assert (reply.status, reply.problem) == (409, "topic-exists")


@pytest.mark.parametrize("headers", [(), ("Content-Type: text/plain",), ("Content-Type: application/jsonx",)])
def test_content_of_another_type_is_415(headers: tuple[str, ...]) -> None:
    @with_client
    async def run(client: Client) -> None:
        reply = await client.ask("POST", "/v1/topics", b'{"name": "a"}', *(headers or ("X: y",)))
        assert (reply.status, reply.problem) == (415, "unsupported-media-type")

    run()


@with_client
async def test_a_content_type_may_have_parameters(client: Client) -> None:
    reply = await client.ask("POST", "/v1/topics", b'{"name": "a"}', "Content-Type: Application/JSON; charset=utf-8")
    assert reply.status == 201


@pytest.mark.parametrize(
    ("error", "status", "problem", "retry_after"),
    [
        (StorageFull("full"), 503, "storage-full", "30"),
        (Overloaded("busy"), 503, "overloaded", "1"),
        (TopicError("of no kind that is known"), 500, "internal-error", None),
    ],
)
def test_what_the_log_refuses_has_its_status(
    error: Exception, status: int, problem: str, retry_after: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    @with_client
    async def run(client: Client) -> None:
        async def refuse(wishes: object) -> list[Exception]:
            return [error]

        monkeypatch.setattr(client.broker.topics, "create", refuse)
        reply = await client.ask("POST", "/v1/topics", {"name": "a"})
        assert (reply.status, reply.problem, reply.headers.get("retry-after")) == (status, problem, retry_after)

    run()


# Positions


@with_client
async def test_a_position_is_told_by_offset_or_time(client: Client) -> None:
    await client.create("a")
    await client.publish("a", NOW_MS - 9_000, NOW_MS - 5_000)
    path = "/v1/topics/a/partitions/0"
    assert (await client.get(path))["position"] is None
    by_offset = (await client.get(f"{path}?offset=1"))["position"]
    assert by_offset == {"offset": 1, "timestamp_ms": NOW_MS - 5_000, "lag_messages": 1, "lag_seconds": 5.0}
    assert (await client.get(f"{path}?time_ms={NOW_MS - 6_000}"))["position"] == by_offset
    assert (await client.get(f"{path}?offset=2"))["position"]["lag_seconds"] == 0
    assert (await client.get(f"{path}?time_ms={NOW_MS}"))["position"]["offset"] == -1


@pytest.mark.parametrize(
    ("path", "status", "problem"),
    [
        ("/v1/topics/a/partitions/1", 404, "unknown-partition"),
        ("/v1/topics/b/partitions/0", 404, "unknown-topic"),
        ("/v1/topics/a/partitions/-1", 400, "invalid-parameter"),
        ("/v1/topics/a/partitions/x", 400, "invalid-parameter"),
        ("/v1/topics/a/partitions/0?offset=1", 400, "offset-out-of-range"),
        ("/v1/topics/a/partitions/0?offset=x", 400, "invalid-parameter"),
        ("/v1/topics/a/partitions/0?offset=null", 400, "invalid-parameter"),
        ("/v1/topics/a/partitions/0?offset=0&time_ms=0", 400, "invalid-parameter"),
        ("/v1/topics/a/partitions/0?offset=0&offset=0", 400, "invalid-parameter"),
        ("/v1/topics/a/partitions", 404, "unknown-path"),
        ("/v1/topics/a/", 404, "unknown-path"),
        ("/v1/topics/%ff", 400, "invalid-request"),
        ("/v1/topics?limit=0", 400, "invalid-parameter"),
        ("/v1/topics?limit=1001", 400, "invalid-parameter"),
        ("/v1/topics?nonsense=1", 400, "invalid-parameter"),
        ("/v1/topics?" + "&".join(f"a{n}=1" for n in range(17)), 400, "invalid-request"),
    ],
)
def test_what_cannot_be_asked_is_refused(path: str, status: int, problem: str) -> None:
    @with_client
    async def run(client: Client) -> None:
        await client.create("a")
        reply = await client.ask("GET", path)
        assert (reply.status, reply.problem) == (status, problem)

    run()


@with_client
async def test_a_wrong_method_names_all_that_are_right(client: Client) -> None:
    reply = await client.ask("PUT", "/v1/topics")
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD, POST")


@with_client
async def test_a_parameter_that_cannot_be_is_named(client: Client) -> None:
    assert (await client.ask("GET", "/v1/topics?limit=x")).json()["parameter"] == "limit"
    assert (await client.ask("GET", "/v1/topics?nonsense=1")).json()["parameter"] == "nonsense"


@with_client
async def test_markers_are_messages_without_an_age(client: Client) -> None:
    await client.create("a")
    await client.publish("a", NOW_MS - 1_000, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    await client.publish_batch("a", encode_marker(1, 0, commit=True, timestamp_ms=NOW_MS - 500))
    position = (await client.get("/v1/topics/a/partitions/0?offset=1"))["position"]
    assert (position["lag_messages"], position["lag_seconds"]) == (1, 0.0)
