"""Queues, their messages and dead letters over HTTP."""

import asyncio
from collections.abc import Callable
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.dead_letters.browsing import take
from mainstem.broker.envelopes import Address
from mainstem.broker.queues import DeadLetterTarget, Queue, QueueProperties, encode_headers
from mainstem.coordination.administration.entries import Namespace
from mainstem.protocols.amqp.adapter import AmqpAdapter
from mainstem.protocols.amqp.session import AmqpSettings
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.clients.http_client import Client
from tests.support.clients.management_client import FixedOperations
from tests.support.worlds.brokers import with_engine


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


def with_queues(test: Callable[[Client], Any]) -> Callable[[], None]:
    async def run(engine: MemoryEngine) -> None:
        await test(Client(await Broker.open(engine, LoopClock())))

    run.__name__ = test.__name__
    return with_engine(run)


async def declare(client: Client, name: str, **properties: Any) -> Queue:
    return await client.broker.queues.declare("default", name, QueueProperties(**properties))


async def put(client: Client, queue: Queue, *values: str) -> None:
    for value in values:
        client.broker.queues.outbox.put([queue], encode_headers([("v", value.encode())]), value.encode())
    await client.broker.queues.outbox.wait_durable()


async def die(client: Client, queue: Queue, count: int) -> None:
    for _ in range(count):
        message = await take(queue)
        assert message is not None
        client.broker.queues.settling.reject([message], "rejected", "cannot be")
    await client.broker.queues.outbox.wait_durable()


def values(page: Any) -> list[str]:
    return [message["value"] for message in page["messages"]]


@with_queues
async def test_listed_and_described(client: Client) -> None:
    for name in ("c", "a", "b"):
        await declare(client, name, length_max=9)
    queue = client.broker.queues.find("default", "a")
    assert queue is not None
    await put(client, queue, "1", "2", "3")
    await take(queue)
    page = await client.get("/v1/queues?limit=2")
    assert [(q["name"], q["ready"], q["unsettled"]) for q in page["queues"]] == [("a", 2, 1), ("b", 0, 0)]
    assert [q["name"] for q in (await client.get(page["next"]))["queues"]] == ["c"]
    shown = await client.get("/v1/queues/a")
    assert (shown["ready"], shown["unsettled"], shown["lag_messages"]) == (2, 1, 3)
    assert shown["lag_seconds"] < 5
    assert shown["rules"] == {"length_max": "9", "overflow": "drop-head", "ordering": "shared"}
    assert (await client.ask("GET", "/v1/queues/none")).problem == "unknown-queue"
    assert (await client.ask("GET", "/v1/queues/a?namespace=other")).problem == "unknown-queue"


@with_queues
async def test_namespaces_are_listed(client: Client) -> None:
    for name in ("b", "a"):
        await client.broker.namespaces.put(Namespace(name))
    page = await client.get("/v1/namespaces?limit=2")
    assert page["namespaces"] == [{"name": "a"}, {"name": "b"}]
    assert await client.get(page["next"]) == {"namespaces": [{"name": "default"}], "next": None}


@with_queues
async def test_rewound_redelivered_paused_and_purged(client: Client) -> None:
    queue = await declare(client, "q")
    await put(client, queue, "1", "2", "3")
    client.broker.queues.settling.settle([message for _ in range(3) if (message := await take(queue)) is not None])
    assert (await client.get("/v1/queues/q"))["ready"] == 0
    reply = await client.ask("POST", "/v1/queues/q/redeliver", {"messages": [{"offsets": [1, 7]}]})
    assert reply.json() == {"messages": 1}
    assert values(await client.get("/v1/queues/q/messages")) == ["2"]
    preview = await client.get("/v1/queues/q/seek?offset=0")
    assert (preview["ready"], preview["messages"], preview["consumers"]) == (1, 3, 0)
    assert (await client.ask("GET", "/v1/queues/q/seek")).problem == "invalid-parameter"
    assert (await client.ask("POST", "/v1/queues/q/seek", {"offset": 0})).json()["ready"] == 3
    assert (await client.ask("POST", "/v1/queues/q/seek", {"offset": 99})).problem == "offset-out-of-range"
    assert (await client.ask("POST", "/v1/queues/q/seek", {})).problem == "invalid-content"
    assert (await client.ask("PATCH", "/v1/queues/q", {"paused": True})).json()["paused"] is True
    assert await take(queue) is None
    assert (await client.ask("PATCH", "/v1/queues/q", {"paused": False})).json()["paused"] is False
    assert (await client.ask("POST", "/v1/queues/q/purge")).json() == {"messages": 3}
    reply = await client.ask("POST", "/v1/queues/q/redeliver", {"messages": [{"lane": 5, "offsets": [1]}]})
    assert reply.problem == "offset-out-of-range"


@with_queues
async def test_what_a_queue_lets_go_of_is_counted(client: Client) -> None:
    few = await declare(client, "few", length_max=2)
    await put(client, few, "1", "2", "3")
    full = await declare(client, "full", length_max=1, overflow="reject-publish")
    await put(client, full, "1", "2", "3")
    brief = await declare(client, "brief", message_ttl_ms=1)
    await put(client, brief, "1")
    await until(lambda: brief.expired == 1)
    await until(lambda: few.dropped == 1)
    shown = {name: await client.get(f"/v1/queues/{name}") for name in ("few", "full", "brief")}
    counts = {name: [queue[count] for count in ("expired", "dropped", "refused")] for name, queue in shown.items()}
    assert counts == {"few": [0, 1, 0], "full": [0, 0, 2], "brief": [1, 0, 0]}


def test_a_queue_is_declared_and_changed_and_a_restart_forgets_neither() -> None:
    async def run(engine: MemoryEngine) -> None:
        client = Client(await Broker.open(engine, LoopClock()))
        wish = {"name": "q", "retry": "fixed delay_ms=500", "lease_ms": 5_000, "ordering": "failover"}
        rules = (await client.ask("POST", "/v1/queues", wish)).json()["rules"]
        assert (rules["retry"], rules["lease_ms"], rules["ordering"]) == ("fixed delay_ms=500", "5000", "failover")
        assert (await client.ask("POST", "/v1/queues", wish | {"name": "r", "retry": "x"})).problem == "invalid-content"
        change = {"retry": "rocketmq", "lease_ms": None, "delivery_limit": 3, "dead_letter_queue": "dead"}
        changed = (await client.ask("PATCH", "/v1/queues/q", change)).json()["rules"]
        assert (changed["retry"], changed["delivery_limit"]) == ("rocketmq", "3")
        assert "lease_ms" not in changed
        assert (await client.ask("PATCH", "/v1/queues/q", {"retry": "x"})).problem == "invalid-content"
        await client.broker.close()
        again = Client(await Broker.open(engine, LoopClock()))
        assert (await again.get("/v1/queues/q"))["rules"] == changed
        stream = {"name": "s", "kind": "stream"}
        assert (await again.ask("POST", "/v1/queues", stream)).status == 201
        assert (await again.ask("PATCH", "/v1/queues/s", {"lease_ms": 5_000})).problem == "invalid-queue"

    with_engine(run)()


@with_queues
async def test_messages_are_seen_edited_and_deleted_where_they_are(client: Client) -> None:
    queue = await declare(client, "q")
    await put(client, queue, *"abcde")
    page = await client.get("/v1/queues/q/messages?limit=2")
    assert values(page) == ["a", "b"]
    assert values(await client.get(page["next"])) == ["c", "d"]
    assert values(await client.get("/v1/queues/q/messages?header=v&header_value=d")) == ["d"]
    assert values(await client.get("/v1/queues/q/messages?where=v%20%3E%20'b'%20AND%20v%20%3C%3E%20'd'")) == ["c", "e"]
    assert (await client.ask("GET", "/v1/queues/q/messages?where=v%20LIKE")).problem == "invalid-parameter"
    change = {"value": "B", "headers": {"v": None, "edited": "yes"}}
    assert (await client.ask("PATCH", "/v1/queues/q/messages/0:1", change)).status == 204
    assert (await client.ask("DELETE", "/v1/queues/q/messages/0:2")).status == 204
    for gone in ("0:1", "0:2", "0:99"):
        assert (await client.ask("DELETE", f"/v1/queues/q/messages/{gone}")).problem == "unknown-message"
    page = await client.get("/v1/queues/q/messages")
    assert values(page) == ["a", "d", "e", "B"]
    assert page["messages"][-1]["headers"] == {"edited": "yes"}
    assert (await client.ask("DELETE", "/v1/queues/q/messages/x")).problem == "invalid-parameter"
    assert queue.ready_count == 4


@with_queues
async def test_dead_letters_with_their_facts_go_back_until_they_came_too_often(client: Client) -> None:
    queue = await declare(client, "work", dead_letter=DeadLetterTarget("", "dead"))
    dead = await declare(client, "dead")
    await put(client, queue, "1", "2", "3")
    await put(client, dead, "stranger")
    await die(client, queue, 3)
    await until(lambda: dead.ready_count == 4)
    page = await client.get("/v1/queues/dead/messages?reason=rejected&origin=work")
    assert values(page) == ["1", "2", "3"]
    facts = page["messages"][1]["origin"]
    assert (facts["queue"], facts["offset"], facts["error"], facts["deliveries"]) == ("work", 1, "cannot be", 1)
    assert page["messages"][0]["deaths"][0]["count"] == 1
    for _ in range(3):
        reply = await client.ask("POST", "/v1/queues/dead/redrive", {"rate": 10_000})
        assert reply.status == 202
        number = reply.json()["number"]
        redrive = client.broker.redrives.get(number)
        assert redrive is not None
        await until(lambda redrive=redrive: redrive.state == "done")
        shown = await client.get(f"/v1/redrives/{number}")
        assert (shown["moved"], shown["left"]) == (3, 1)
        assert queue.ready_count == 3
        await die(client, queue, 3)
        await until(lambda: dead.ready_count == 4)
    assert (await client.get("/v1/queues/dead/messages?origin=work"))["messages"][0]["redriven"] == 3
    reply = await client.ask("POST", "/v1/queues/dead/redrive", {})
    redrive = client.broker.redrives.get(reply.json()["number"])
    assert redrive is not None
    await until(lambda: redrive.state == "done")
    assert (redrive.moved, redrive.left) == (0, 4)
    assert dead.ready_count == 4
    assert len((await client.get("/v1/redrives"))["redrives"]) == 4
    assert (await client.ask("GET", "/v1/redrives/99")).problem == "unknown-redrive"


@with_queues
async def test_a_redrive_keeps_to_its_rate_and_can_be_ended(client: Client) -> None:
    dead, other = await declare(client, "dead"), await declare(client, "other")
    await put(client, dead, *[str(number) for number in range(100)])
    begun = client.broker.clock.monotonic()
    reply = await client.ask("POST", "/v1/queues/dead/redrive", {"to_queue": "other", "rate": 200, "limit": 10})
    redrive = client.broker.redrives.get(reply.json()["number"])
    assert redrive is not None
    await until(lambda: redrive.state == "done")
    assert client.broker.clock.monotonic() - begun >= 0.04
    assert other.ready_count == 10
    assert (await client.ask("POST", "/v1/queues/dead/redrive", {"where": "v >"})).problem == "invalid-content"
    reply = await client.ask("POST", "/v1/queues/dead/redrive", {"to_queue": "other", "rate": 1, "where": "v >= 12"})
    number = reply.json()["number"]
    await until(lambda: other.ready_count == 11)
    assert (await client.ask("DELETE", f"/v1/redrives/{number}")).json()["state"] == "cancelled"
    await until(lambda: dead.ready_count == 89)
    assert values(await client.get("/v1/queues/other/messages"))[-1] == "12"


@with_queues
async def test_an_edited_message_of_amqp_is_another_one_for_its_clients_too(client: Client) -> None:
    AmqpAdapter(AmqpSettings(), client.broker, FixedOperations())
    dialect = client.broker.dialects.get("amqp")
    assert dialect is not None
    queue = await declare(client, "q")
    sealed = dialect.seal(Address("ex", ("key",)), {"headers": {"a": "1", "n": 5}, "message_id": "id"})
    client.broker.queues.outbox.put([queue], sealed.headers, b"v")
    await client.broker.queues.outbox.wait_durable()
    (shown,) = (await client.get("/v1/queues/q/messages"))["messages"]
    assert shown["headers"]["a"] == "1"
    assert "amqp.raw" not in shown["headers"]
    change = {"headers": {"a": None, "b": "2"}}
    assert (await client.ask("PATCH", "/v1/queues/q/messages/0:0", change)).status == 204
    message = await take(queue)
    assert message is not None
    opened = dialect.open(message)
    assert opened.address == Address("ex", ("key",))
    assert opened.properties == {"headers": {"n": 5, "b": "2"}, "message_id": "id"}


@with_queues
async def test_places_of_dead_letters_are_listed_with_their_sources(client: Client) -> None:
    letters = await declare(client, "dead")
    for name in ("a", "b"):
        await declare(client, name, dead_letter=DeadLetterTarget("", "dead"))
    await put(client, letters, "1", "2")
    assert await client.get("/v1/dead-letters") == {
        "places": [{"queue": "dead", "namespace": "default", "letters": 2, "sources": ["a", "b"]}],
        "letters": 2,
    }
    assert (await client.get("/v1/dead-letters?namespace=none"))["places"] == []
