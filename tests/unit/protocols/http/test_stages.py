"""Stages over HTTP: one call publishes them, one drops them."""

from typing import Any

import pytest

from mainstem.broker.catalog.topics import NewTopic
from tests.support.clients.http_client import NOW_MS, Client, Reply, with_client
from tests.support.worlds.staging import QUERY, Task, values_in


async def staged(client: Client, batch: int, *values: bytes, attempt: str = "0", sink: str = "") -> Task:
    await client.broker.topics.ensure(NewTopic("t", 1))
    task = Task(client.broker, batch, attempt=attempt, sink=sink)
    await task.write("t", 0, *values)
    return task


async def commit(client: Client, batch: int, *tasks: Task, **other: Any) -> Reply:
    stages = [{"task": task.key.task, "attempt": task.key.attempt, "end": task.position} for task in tasks]
    return await client.ask("POST", "/v1/stages/commit", {"query": QUERY, "batch": batch, "stages": stages, **other})


@with_client
async def test_a_batch_is_published_once(client: Client) -> None:
    task = await staged(client, 3, b"a", b"b")
    reply = await commit(client, 3, task)
    assert reply.status == 200
    assert reply.json() == {"published": True, "records": 2, "bytes": reply.json()["bytes"]}
    again = await staged(client, 3, b"a", b"b", attempt="1")
    assert (await commit(client, 3, again)).json() == {"published": False, "records": 0, "bytes": 0}
    assert await values_in(client.broker, "t") == [b"a", b"b"]
    shown = await client.get("/v1/stages")
    assert shown == {
        "stage_count": 0,
        "stages": [],
        "sink_count": 1,
        "sinks": [{"query": QUERY, "sink": "", "batch": 3, "published_ms": NOW_MS}],
    }


@with_client
async def test_what_is_open_is_shown_and_can_be_dropped(client: Client) -> None:
    task = await staged(client, 3, b"a", sink="s")
    shown = await client.get("/v1/stages?limit=1")
    assert shown["stages"] == [
        {"query": QUERY, "sink": "s", "batch": 3, "task": 0, "attempt": "0", "end": 2, "opened_ms": NOW_MS}
    ]
    wish = {"query": QUERY, "sink": "s", "batch": 3, "stages": [{"task": 0, "attempt": "0"}]}
    for dropped in (1, 0):
        assert (await client.ask("POST", "/v1/stages/abort", wish)).json() == {"dropped": dropped}
    other = await staged(client, 3, b"a", sink="s", attempt="1")
    for batch, dropped in ((2, 0), (3, 1)):
        wish = {"query": QUERY, "sink": "s", "batch": batch}
        assert (await client.ask("POST", "/v1/stages/abort", wish)).json() == {"dropped": dropped}
    assert (await commit(client, 3, other, sink="s")).problem == "unknown-stage"
    both = {"query": QUERY, "sink": "s", "batch": 3, "stages": [], "final": True}
    assert (await client.ask("POST", "/v1/stages/abort", both)).status == 400
    gone = await commit(client, 3, task, sink="s")
    assert (gone.status, gone.problem) == (404, "unknown-stage")


@with_client
async def test_what_cannot_be_published_is_refused_by_name(client: Client) -> None:
    await commit(client, 5)
    old = await staged(client, 4, b"old")
    reply = await commit(client, 4, old)
    assert (reply.status, reply.problem) == (409, "stale-batch")
    assert "batch 4 is older than batch 5" in reply.json()["detail"]
    short = await staged(client, 6, b"a" * 100)
    short.position += 1
    assert (await commit(client, 6, short)).problem == "incomplete-stage"
    short.position -= 1
    twice = await commit(client, 6, short, short)
    assert (twice.problem, twice.json()["pointer"]) == ("invalid-content", "/stages")
    other = await staged(client, 6, b"a", attempt="1")
    assert (await commit(client, 6, short, other)).problem == "unknown-stage"
    await client.broker.topics.configure("t", lambda _: {"max.message.bytes": "100"})
    assert (await commit(client, 6, short)).problem == "refused-batch"
    await client.broker.topics.configure("t", lambda _: {})
    await client.broker.topics.delete(client.broker.topics.get("t"))
    gone = await commit(client, 6, short)
    assert (gone.status, gone.problem) == (404, "unknown-topic")
    assert "topic t was deleted" in gone.json()["detail"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"query": ""}, "invalid-stage"),
        ({"sink": "\0"}, "invalid-stage"),
        ({"query": "x" * 256}, "invalid-content"),
        ({"batch": -1}, "invalid-content"),
        ({"batch": 2**63}, "invalid-content"),
        ({"stages": [{"task": 0, "attempt": "0"}]}, "invalid-content"),
        ({"other": 1}, "invalid-content"),
    ],
)
def test_what_cannot_be_meant_is_refused(change: dict[str, Any], problem: str) -> None:
    @with_client
    async def run(client: Client) -> None:
        reply = await client.ask("POST", "/v1/stages/commit", {"query": "q", "batch": 0, "stages": [], **change})
        assert (reply.status, reply.problem) == (400, problem)

    run()
