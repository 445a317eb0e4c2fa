"""Schedules over HTTP."""

import asyncio
from collections.abc import Callable
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.queues import QueueProperties
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.clients.http_client import Client, with_client
from tests.support.worlds.brokers import with_engine

FAR = {"target": {"topic": "t"}, "due_ms": 4_000_000_000_000}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


async def create(client: Client, **content: Any) -> dict[str, Any]:
    reply = await client.ask("POST", "/v1/schedules", FAR | content)
    assert reply.status == 201, reply.body
    assert reply.headers["location"] == f"/v1/schedules/{reply.json()['id']}"
    return reply.json()


@with_client
async def test_created_shown_changed_and_cancelled(client: Client) -> None:
    made = await create(client, value="text", key={"base64": "/w=="}, headers={"kind": "a", "none": None})
    shown = await client.get(f"/v1/schedules/{made['id']}")
    assert shown == made
    assert shown["key"] == {"base64": "/w=="}
    assert shown["headers"] == {"kind": "a", "none": None}
    reply = await client.ask("PATCH", f"/v1/schedules/{made['id']}", {"due_ms": 4_100_000_000_000, "value": "other"})
    changed = reply.json()
    assert (changed["due_ms"], changed["value"], changed["headers"]) == (4_100_000_000_000, "other", made["headers"])
    assert (await client.ask("GET", f"/v1/schedules/{made['id']}")).problem == "not-scheduled"
    assert (await client.ask("DELETE", f"/v1/schedules/{changed['id']}")).status == 204
    assert (await client.ask("DELETE", f"/v1/schedules/{changed['id']}")).problem == "not-scheduled"
    assert (await client.get("/v1/schedules"))["pending"] == 0


@with_client
async def test_listed_in_pages_and_searched(client: Client) -> None:
    for number in range(7):
        target = {"exchange": "x", "routing_key": f"k{number % 2}"} if number > 3 else {"topic": f"t{number}"}
        await create(client, target=target, due_ms=4_000_000_000_000 + number * 10**10, headers={"n": str(number)})
    page, found = "/v1/schedules?limit=3", []
    while page:
        answer = await client.get(page)
        found += answer["schedules"]
        page = answer["next"]
    assert len(found) == 7
    for query, count in [
        ("topic=t1", 1), ("topic=k1", 1), ("exchange=x", 3), ("header=n&header_value=6", 1), ("header=n", 7),
        ("namespace=other", 0), ("due_from_ms=4020000000000&due_before_ms=4040000000000", 2),
    ]:  # fmt: skip
        assert len((await client.get(f"/v1/schedules?{query}"))["schedules"]) == count, query


@with_client
async def test_refused(client: Client) -> None:
    for content, problem in [
        ({"target": {}, "due_ms": 1}, "invalid-content"),
        ({"target": {"topic": "t", "exchange": "x"}, "due_ms": 1}, "invalid-content"),
        ({"target": {"topic": "t"}}, "invalid-content"),
        ({"target": {"topic": "t"}, "due_ms": 1, "delay_ms": 1}, "invalid-content"),
        ({"target": {"topic": "t"}, "due_ms": 1 << 60}, "invalid-content"),
        ({"target": {"topic": "t"}, "due_ms": 1, "value": {"base64": "?"}}, "invalid-content"),
        ({"target": {"topic": "t"}, "delay_ms": (1 << 53) - 1}, "invalid-schedule"),
    ]:
        assert (await client.ask("POST", "/v1/schedules", content)).problem == problem, content
    assert (await client.ask("GET", "/v1/schedules?after=x")).problem == "invalid-parameter"
    assert (await client.ask("GET", "/v1/schedules?header_value=x")).problem == "invalid-parameter"
    assert (await client.ask("GET", "/v1/schedules/nonsense")).problem == "not-scheduled"


@with_client
async def test_what_recurs(client: Client) -> None:
    wish = {"target": {"topic": "t"}, "cron": "0 6 * * mon-fri", "zone": "Europe/Berlin", "value": "wake up"}
    made = (await client.ask("PUT", "/v1/recurrences/morning", wish)).json()
    assert made["count"] == 0
    assert made["last_ms"] is None
    assert await client.get("/v1/recurrences/morning") == made
    assert (await client.get("/v1/recurrences"))["recurrences"] == [made]
    for wrong in ({"cron": "often"}, {"zone": "Moon"}):
        assert (await client.ask("PUT", "/v1/recurrences/morning", wish | wrong)).problem == "invalid-schedule"
    assert (await client.ask("DELETE", "/v1/recurrences/morning")).status == 204
    assert (await client.ask("DELETE", "/v1/recurrences/morning")).problem == "not-scheduled"
    assert (await client.ask("GET", "/v1/recurrences/morning")).problem == "not-scheduled"


@with_engine
async def test_it_arrives(engine: MemoryEngine) -> None:
    client = Client(await Broker.open(engine, LoopClock()))
    queue = await client.broker.queues.declare("default", "q", QueueProperties())
    wish = {"target": {"topic": "q"}, "delay_ms": 20, "value": "v", "headers": {"h": "1"}}
    assert (await client.ask("POST", "/v1/schedules", wish)).status == 201
    await until(lambda: queue.ready_count == 1)
    (message,) = (await client.get("/v1/queues/q/messages"))["messages"]
    assert (message["value"], message["headers"]) == ("v", {"h": "1"})
