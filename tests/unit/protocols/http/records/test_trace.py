"""Where a message went, asked for over HTTP."""

import asyncio
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.dead_letters.browsing import take
from mainstem.broker.queues import DeadLetterTarget, QueueProperties
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.clients.http_client import NOW_MS, Client, with_client
from tests.support.worlds.brokers import with_engine
from tests.unit.protocols.http.measured import behind

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def publish(client: Client, topic: str, *records: dict[str, Any]) -> None:
    reply = await client.ask("POST", f"/v1/topics/{topic}/records", {"records": list(records)})
    assert reply.status == 200, reply.body


def told(trace: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Each station: what, where, who."""
    return [(one["what"], _place(one["place"]), one["who"]) for one in trace["stations"]]


def _place(place: dict[str, Any] | None) -> str:
    return "" if place is None else f"{place['topic']}:{place['partition']}:{place['offset']}"


@with_client
async def test_a_record_is_found_by_place_key_header_and_trace(client: Client) -> None:
    await client.create("t", 2)
    await client.create("other")
    await publish(client, "t", {"key": "a", "value": 1, "partition": 0})
    headers = {"traceparent": TRACEPARENT, "message-id": "m-1"}
    await publish(client, "t", {"key": "k", "value": 2, "partition": 0, "headers": headers})
    await publish(client, "other", {"value": 3, "headers": {"traceparent": TRACEPARENT}})
    await behind(client, "g", "t", 1)
    for query in ("t:0:1", "k", "k?by=key&topic=t", "m-1"):
        trace = await client.get(f"/v1/trace/{query}")
        assert [_place(one["place"]) for one in trace["records"]] == ["t:0:1"], query
        assert told(trace) == [("published", "t:0:1", "record"), ("unread", "t:0:1", "g")], query
        assert trace["complete"]
    for query in (TRACEPARENT, TRACEPARENT.split("-")[1].upper()):
        trace = await client.get(f"/v1/trace/{query}")
        assert {_place(one["place"]) for one in trace["records"]} == {"t:0:1", "other:0:0"}
    assert (await client.get("/v1/trace/nothing"))["records"] == []
    assert (await client.ask("GET", "/v1/trace/none:0:0")).problem == "unknown-topic"
    assert (await client.ask("GET", "/v1/trace/t:7:0")).problem == "unknown-topic"
    assert (await client.ask("GET", "/v1/trace/t:0:99")).problem == "offset-out-of-range"
    assert (await client.ask("GET", "/v1/trace/a?by=b")).problem == "invalid-parameter"


@with_client
async def test_a_group_that_has_committed_behind_it_has_read_it(client: Client) -> None:
    await client.create("t")
    await client.publish("t", NOW_MS, NOW_MS)
    await behind(client, "g", "t")
    reply = await client.ask("POST", "/v1/groups/g/seek", {"offset": 1, "partition": 0})
    assert reply.status == 200
    assert ("read", "t:0:0", "g") in told(await client.get("/v1/trace/t:0:0"))
    assert ("unread", "t:0:1", "g") in told(await client.get("/v1/trace/t:0:1"))


def test_all_lives_of_a_message_are_one_line() -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        client = Client(await Broker.open(engine, LoopClock()))
        broker = client.broker
        await broker.queues.declare("default", "dead", QueueProperties())
        work = await broker.queues.declare(
            "default", "work", QueueProperties(dead_letter=DeadLetterTarget("", "dead"), delivery_limit=5)
        )
        await publish(client, "work", {"value": {"job": 1}, "headers": {"traceparent": TRACEPARENT}})
        later = {"target": {"topic": "work"}, "delay_ms": 3_600_000, "headers": {"traceparent": TRACEPARENT}}
        assert (await client.ask("POST", "/v1/schedules", later)).status == 201
        assert ("waits", "work:0:0", "work") in told(await client.get("/v1/trace/work:0:0"))
        message = await take(work)
        assert message is not None
        assert ("given", "work:0:0", "work") in told(await client.get("/v1/trace/work:0:0"))
        broker.queues.settling.requeue([message], error="busy")
        message = await take(work)
        assert message is not None
        broker.queues.settling.reject([message], "rejected", "KeyError: 'country'")
        await broker.queues.outbox.wait_durable()
        edit = {"value": '{"job": 1, "country": "DE"}'}
        assert (await client.ask("PATCH", "/v1/queues/dead/messages/0:0", edit)).status == 204
        await client.ask("POST", "/v1/queues/dead/redrive", {})
        async with asyncio.timeout(20):
            while (await client.get("/v1/redrives"))["redrives"][0]["state"] == "running":  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        for asked in ("work:0:0", "dead:0:0", "dead:0:1", "work:0:1", TRACEPARENT):
            trace = await client.get(f"/v1/trace/{asked}")
            stations = told(trace)
            assert {_place(one["place"]) for one in trace["records"]} == {
                "work:0:0",
                "dead:0:0",
                "dead:0:1",
                "work:0:1",
            }
            for expected in (
                ("published", "work:0:0", "record"),
                ("retry", "work:0:0", "work"),
                ("dead", "dead:0:0", "work"),
                ("edited", "dead:0:1", ""),
                ("redriven", "work:0:1", "work"),
                ("waits", "work:0:1", "work"),
                ("settled", "work:0:0", "work"),
            ):
                assert stations.count(expected) >= 1, (asked, expected, stations)
            timed = [one["time_ms"] for one in trace["stations"] if one["time_ms"] is not None]
            assert timed == sorted(timed)
            assert ("scheduled", "", "work") in stations
        errors = [one["detail"] for one in trace["stations"] if one["what"] == "retry"]
        assert any("busy" in error for error in errors)
        await broker.close()

    run()
