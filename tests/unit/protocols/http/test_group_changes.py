"""Groups over HTTP: moved with a preview, deleted; and lists that are searched and sorted by the broker."""

import pytest

from tests.support.clients.http_client import NOW_MS, Client, with_client
from tests.unit.protocols.http.measured import behind


@pytest.mark.parametrize(
    ("wish", "after"),
    [
        ({"to": "start"}, 0),
        ({"to": "end"}, 5),
        ({"offset": 3}, 3),
        ({"offset": 99}, 5),
        ({"by": -1}, 1),
        ({"by": -10}, 0),
        ({"by": 10}, 5),
        ({"time_ms": NOW_MS + 4}, 4),
        ({"time_ms": NOW_MS + 9}, 5),
    ],
)  # fmt: skip
def test_a_group_is_moved_after_a_preview(wish: dict[str, object], after: int) -> None:
    @with_client
    async def run(client: Client) -> None:
        await client.create("t")
        await client.publish("t", *(NOW_MS + n for n in range(5)))
        await behind(client, "g", "t")
        await client.ask("POST", "/v1/groups/g/seek", {"offset": 2})
        moves = [{"topic": "t", "partition": 0, "before": 2, "after": after}]
        preview = await client.ask("POST", "/v1/groups/g/seek", wish | {"dry_run": True})
        assert preview.json() == {"dry_run": True, "moves": moves}
        assert (await client.get("/v1/groups/g"))["offsets"][0]["offset"] == 2
        done = await client.ask("POST", "/v1/groups/g/seek", wish)
        assert done.json() == {"dry_run": False, "moves": moves}
        assert (await client.get("/v1/groups/g"))["offsets"][0]["offset"] == after

    run()


@with_client
async def test_topics_that_are_named_are_moved_too(client: Client) -> None:
    await client.create("t")
    await client.create("u", 2)
    await client.publish("t", NOW_MS)
    await behind(client, "g", "t")
    done = await client.ask("POST", "/v1/groups/g/seek", {"to": "end", "topics": ["u"], "partition": 1})
    assert done.json()["moves"] == [{"topic": "u", "partition": 1, "before": None, "after": 0}]


@with_client
async def test_a_group_is_deleted_once(client: Client) -> None:
    await client.create("t")
    await client.publish("t", NOW_MS)
    await behind(client, "g", "t")
    assert (await client.ask("DELETE", "/v1/groups/g")).status == 204
    for reply in (
        await client.ask("DELETE", "/v1/groups/g"),
        await client.ask("POST", "/v1/groups/g/seek", {"to": "end"}),
    ):
        assert (reply.status, reply.problem) == (404, "unknown-group")


@with_client
async def test_a_wish_that_is_not_one_is_refused(client: Client) -> None:
    await client.create("t")
    await client.publish("t", NOW_MS)
    await behind(client, "g", "t")
    for wish in ({}, {"to": "end", "offset": 1}, {"to": "middle"}, {"by": "x"}):
        reply = await client.ask("POST", "/v1/groups/g/seek", wish)
        assert (reply.status, reply.problem) == (400, "invalid-content")
    reply = await client.ask("POST", "/v1/groups/g/seek", {"to": "end", "topics": ["none"]})
    assert (reply.status, reply.problem) == (404, "unknown-topic")


@with_client
async def test_topics_are_searched_and_sorted_by_the_broker(client: Client) -> None:
    for number in range(12):
        await client.create(f"orders.{number:02}", 1 + number % 3)
        await client.publish(f"orders.{number:02}", *(range(1, 1 + number)) or (1,))
    await client.create("other", cleanup_policy="compact")
    page = await client.get("/v1/topics?search=orders&sort=records&limit=2")
    assert [(topic["name"], topic["records"]) for topic in page["topics"]] == [("orders.11", 11), ("orders.10", 10)]
    page = await client.get(page["next"])
    assert [topic["name"] for topic in page["topics"]] == ["orders.09", "orders.08"]
    assert [topic["name"] for topic in (await client.get("/v1/topics?kind=compacted"))["topics"]] == ["other"]
    page = await client.get("/v1/topics?search=.1&limit=1")
    assert [topic["name"] for topic in page["topics"]] == ["orders.10"]
    assert [topic["name"] for topic in (await client.get(page["next"]))["topics"]] == ["orders.11"]
    first = (await client.get("/v1/topics?sort=bytes"))["topics"][0]
    assert (first["name"], first["kind"]) == ("orders.11", "stream")
    assert first["bytes"] > 0
    reply = await client.ask("GET", "/v1/topics?sort=bytes&after=x")
    assert (reply.status, reply.problem) == (400, "invalid-parameter")
