"""Messages of queues over HTTP: taken for a time, by one client each, and settled by their receipts."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.broker.broker import Broker
from mainstem.broker.queues import DeadLetterTarget, QueueProperties, encode_headers
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.clients.http_client import NOW_MS, Client, SteadyClock, with_client
from tests.support.worlds.brokers import with_engine

Q = "/v1/queues/q"


async def fill(client: Client, *values: bytes, name: str = "q", **properties: Any) -> None:
    queue = await client.broker.queues.declare("default", name, QueueProperties(**properties))
    for value in values:
        client.broker.queues.outbox.put([queue], encode_headers([("h", b"1")]), value, b"k")
    await client.broker.queues.outbox.wait_durable()


async def receive(client: Client, path: str = Q, **wish: Any) -> list[dict[str, Any]]:
    reply = await client.ask("POST", f"{path}/receive", wish)
    assert reply.status == 200, reply.body
    found: list[dict[str, Any]] = reply.json()["messages"]
    return found


async def settle(client: Client, **wish: Any) -> Any:
    reply = await client.ask("POST", f"{Q}/settle", wish)
    assert reply.status == 200, reply.body
    return reply.json()


def pass_time(client: Client, ms: int) -> None:
    clock = client.broker.clock
    assert isinstance(clock, SteadyClock)
    clock.passed_ms += ms
    client.broker.queues.timers._ring()


@with_client
async def test_a_message_is_received_and_accepted(client: Client) -> None:
    await fill(client, b'{"a": 1}', b"two")
    first, second = await receive(client)
    receipts = [first.pop("receipt"), second.pop("receipt")]
    assert first == {
        "place": "0:0", "time_ms": NOW_MS, "lease_until_ms": NOW_MS + 30_000, "deliveries": 1, "failures": 0,
        "key": "k", "value": {"a": 1}, "headers": {"h": "1"},
    }  # fmt: skip
    assert second["text"] == "two"
    assert await receive(client) == [], "they are with a client"
    assert await settle(client, accept=receipts) == {"done": 2, "unknown": []}
    assert await settle(client, accept=receipts) == {"done": 0, "unknown": receipts}, "a receipt is good once"
    assert (await client.get(Q))["lag_messages"] == 0


@with_client
async def test_what_is_tried_again_comes_again_with_its_failures(client: Client) -> None:
    await fill(client, b"v")
    (message,) = await receive(client)
    await settle(client, retry=[{"receipt": message["receipt"], "error": "no luck"}])
    (again,) = await receive(client)
    assert (again["deliveries"], again["failures"], again["place"]) == (2, 1, "0:0")
    await settle(client, retry=[{"receipt": again["receipt"], "after_ms": 60_000}])
    assert await receive(client) == [], "it rests"


@with_client
async def test_what_is_rejected_becomes_a_dead_letter_with_its_reason(client: Client) -> None:
    await fill(client, name="dead")
    await fill(client, b"v", dead_letter=DeadLetterTarget("", "dead"))
    (message,) = await receive(client)
    assert (await settle(client, reject=[{"receipt": message["receipt"], "reason": "no country"}]))["done"] == 1
    (letter,) = (await client.get("/v1/queues/dead/messages"))["messages"]
    assert (letter["origin"]["reason"], letter["origin"]["error"]) == ("rejected", "no country")


@with_client
async def test_a_lease_ends_unless_it_is_renewed(client: Client) -> None:
    await fill(client, b"a", b"b")
    a, b = await receive(client, lease_ms=1_000)
    await settle(client, renew=[{"receipt": b["receipt"], "lease_ms": 5_000}])
    pass_time(client, 2_000)
    (again,) = await receive(client)
    assert (again["text"], again["deliveries"], again["failures"]) == ("a", 2, 1)
    outcome = await settle(client, accept=[a["receipt"], b["receipt"]])
    assert outcome == {"done": 1, "unknown": [a["receipt"]]}, "what is late has no effect"


@with_client
async def test_a_receiver_waits_for_a_message(client: Client) -> None:
    await fill(client)

    async def later() -> None:
        await asyncio.sleep(0.01)
        await fill(client, b"v")

    task = asyncio.create_task(later())
    (message,) = await receive(client, wait_ms=20_000)
    assert message["text"] == "v"
    await task
    assert await receive(client, wait_ms=1) == []


@with_client
async def test_a_receiver_of_a_queue_that_goes_is_told(client: Client) -> None:
    await fill(client)
    queue = client.broker.queues.find("default", "q")
    assert queue is not None
    asyncio.get_running_loop().call_later(
        0.01, lambda: tasks.append(asyncio.ensure_future(client.broker.queues.delete(queue)))
    )
    tasks: list[Any] = []
    reply = await client.ask("POST", f"{Q}/receive", {"wait_ms": 20_000})
    assert (reply.status, reply.problem) == (404, "unknown-queue")


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"kind": "stream"}, "unsuitable-source"),
        ({"auto_delete": True}, "unsuitable-source"),
        ({"exclusive": True}, "queue-busy"),
    ],
)  # fmt: skip
def test_some_queues_are_not_for_receivers(properties: Any, problem: str) -> None:
    @with_client
    async def run(client: Client) -> None:
        await client.broker.queues.declare("default", "q", QueueProperties(**properties), owner=client)
        reply = await client.ask("POST", f"{Q}/receive", {})
        assert (reply.status, reply.problem) == (409, problem)

    run()


@with_client
async def test_what_cannot_be_asked_is_said_so(client: Client) -> None:
    reply = await client.ask("POST", "/v1/queues/none/receive", {})
    assert (reply.status, reply.problem) == (404, "unknown-queue")
    await fill(client)
    for wish in ({"max": 0}, {"max": 1_001}, {"lease_ms": 1}, {"wait_ms": 30_001}, {"x": 1}):
        assert (await client.ask("POST", f"{Q}/receive", wish)).status == 400
    client.broker.receipts._receipts_max = 0
    reply = await client.ask("POST", f"{Q}/receive", {})
    assert (reply.status, reply.problem) == (503, "overloaded")


def test_after_a_restart_what_was_not_settled_is_given_again() -> None:
    async def run(engine: MemoryEngine) -> None:
        client = Client(await Broker.open(engine, SteadyClock()))
        await fill(client, b"a", b"b")
        a, _ = await receive(client)
        await settle(client, accept=[a["receipt"]])
        client = Client(await Broker.open(engine, SteadyClock()))
        (again,) = await receive(client)
        assert again["text"] == "b"

    with_engine(run)()


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 5)),
        st.tuples(st.just("receive"), st.integers(1, 4)),
        st.tuples(st.sampled_from(["accept", "retry", "renew", "expire"]), st.integers(0, 9)),
    ),
    max_size=30,
)


@settings(max_examples=30, deadline=None)
@given(OPERATIONS)
def test_no_message_is_ever_with_two(operations: list[tuple[str, int]]) -> None:
    @with_client
    async def run(client: Client) -> None:
        await fill(client)
        held: dict[str, str] = {}
        published = accepted = 0
        for verb, number in operations:
            if verb == "publish":
                await fill(client, *(b"v" for _ in range(number)))
                published += number
            elif verb == "receive":
                for message in await receive(client, max=number, lease_ms=1_000):
                    assert message["place"] not in held.values()
                    held[message["receipt"]] = message["place"]
            elif verb == "expire":
                pass_time(client, 1_001)
                held.clear()
            elif held:
                receipt = list(held)[number % len(held)]
                more = {"lease_ms": 1_000} if verb == "renew" else {}
                wish: Any = [receipt] if verb == "accept" else [{"receipt": receipt, **more}]
                assert (await settle(client, **{verb: wish}))["done"] == 1
                if verb != "renew":
                    del held[receipt]
                accepted += verb == "accept"
        rest: set[str] = set(held.values())
        while messages := await receive(client, max=100):
            for message in messages:
                assert message["place"] not in rest
                rest.add(message["place"])
        assert len(rest) == published - accepted, "none is lost"

    run()
