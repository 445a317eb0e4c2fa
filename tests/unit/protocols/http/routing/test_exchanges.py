"""Exchanges and bindings over HTTP."""

from mainstem.broker.queues import QueueProperties
from tests.support.clients.http_client import Client, with_client


@with_client
async def test_an_exchange_is_declared_bound_and_deleted(client: Client) -> None:
    await client.broker.queues.declare("default", "q", QueueProperties())
    wish = {"name": "prices", "kind": "topic", "arguments": {"alternate-exchange": "amq.fanout"}}
    reply = await client.ask("POST", "/v1/exchanges", wish)
    assert (reply.status, reply.headers["location"]) == (201, "/v1/exchanges/prices")
    bound = await client.ask("POST", "/v1/bindings", {"exchange": "prices", "queue": "q", "routing_key": "a.*"})
    assert bound.status == 201
    again = await client.ask("POST", "/v1/bindings", {"exchange": "prices", "queue": "q", "routing_key": "a.*"})
    assert again.json() == bound.json(), "it is there already"
    await client.ask("POST", "/v1/bindings", {"exchange": "prices", "to_exchange": "amq.direct"})
    assert client.broker.routes.of("default").route("prices", "a.b").queues == ("q",)
    exchange = await client.get("/v1/exchanges/prices")
    assert (exchange["bindings"], exchange["arguments"]) == (2, {"alternate-exchange": "amq.fanout"})
    found = (await client.get("/v1/bindings?exchange=prices&queue=q"))["bindings"]
    assert found == [bound.json()]
    reply = await client.ask("DELETE", "/v1/exchanges/prices?if_unused=true")
    assert (reply.status, reply.problem) == (409, "exchange-in-use")
    assert (await client.ask("DELETE", f"/v1/bindings/{found[0]['id']}")).status == 204
    assert (await client.ask("DELETE", f"/v1/bindings/{found[0]['id']}")).problem == "unknown-binding"
    assert (await client.ask("DELETE", "/v1/exchanges/prices")).status == 204
    assert (await client.ask("GET", "/v1/exchanges/prices")).problem == "unknown-exchange"


@with_client
async def test_exchanges_and_bindings_are_paged_and_searched(client: Client) -> None:
    await client.broker.queues.declare("default", "q", QueueProperties())
    for number in range(5):
        await client.ask("POST", "/v1/exchanges", {"name": f"x{number}", "kind": "fanout"})
        await client.ask("POST", "/v1/bindings", {"exchange": f"x{number}", "queue": "q"})
    first = await client.get("/v1/exchanges?search=x&limit=3")
    second = await client.get(first["next"])
    assert [one["name"] for one in first["exchanges"] + second["exchanges"]] == [f"x{number}" for number in range(5)]
    everything = (await client.get("/v1/exchanges"))["exchanges"]
    assert everything[0]["name"] == "", "the default exchange"
    seen, path = set(), "/v1/bindings?limit=2"
    while path:
        page = await client.get(path)
        seen |= {one["exchange"] for one in page["bindings"]}
        path = page["next"]
    assert len(seen) == 5


@with_client
async def test_what_cannot_be_is_refused(client: Client) -> None:
    await client.ask("POST", "/v1/exchanges", {"name": "x"})
    for method, path, content, problem in (
        ("POST", "/v1/exchanges", {"name": "x", "kind": "fanout"}, "exchange-differs"),
        ("POST", "/v1/exchanges", {"name": "y", "kind": "odd"}, "invalid-exchange"),
        ("POST", "/v1/exchanges", {"name": "amq.mine"}, "invalid-exchange"),
        ("POST", "/v1/exchanges", {"name": "ü" * 200}, "invalid-content"),
        ("POST", "/v1/exchanges", {"name": "x", "namespace": "none"}, "unknown-namespace"),
        ("DELETE", "/v1/exchanges/amq.direct", None, "invalid-exchange"),
        ("POST", "/v1/bindings", {"exchange": "x", "queue": "none"}, "unknown-queue"),
        ("POST", "/v1/bindings", {"exchange": "x", "to_exchange": "none"}, "unknown-exchange"),
        ("POST", "/v1/bindings", {"exchange": "x"}, "invalid-content"),
    ):
        reply = await client.ask(method, path, content)
        assert reply.problem == problem, (method, path, content)
