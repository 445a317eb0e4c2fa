"""Connections over HTTP: listed, searched, sorted, paged, closed."""

from tests.support.clients.fixed_operations import FixedConnection
from tests.support.clients.http_client import Client, with_client


@with_client
async def test_connections_are_searched_sorted_and_paged(client: Client) -> None:
    client.operations.connected = [
        FixedConnection(f"{protocol}-{number}", f"client {number}", since_ms=100 - number, received_rate=number % 7)
        for number, protocol in enumerate(["kafka", "amqp"] * 5)
    ]
    first = await client.get("/v1/connections?limit=4")
    assert [one["since_ms"] for one in first["connections"]] == [91, 92, 93, 94]
    second = await client.get(first["next"])
    third = await client.get(second["next"])
    assert [one["since_ms"] for one in second["connections"] + third["connections"]] == [*range(95, 101)]
    assert third["next"] is None
    busiest = await client.get("/v1/connections?sort=received&limit=2&protocol=kafka")
    assert [one["id"] for one in busiest["connections"]] == ["kafka-6", "kafka-4"]
    found = await client.get("/v1/connections?search=client+9")
    assert [one["id"] for one in found["connections"]] == ["amqp-9"]
    assert found["connections"][0]["address"] == "10.0.0.7:4321"


@with_client
async def test_a_connection_is_closed_once(client: Client) -> None:
    assert (await client.get("/v1/connections/kafka-1"))["client"] == "c"
    assert (await client.ask("DELETE", "/v1/connections/kafka-1")).status == 204
    for method in ("GET", "DELETE"):
        reply = await client.ask(method, "/v1/connections/kafka-1")
        assert (reply.status, reply.problem) == (404, "unknown-connection")


@with_client
async def test_a_wrong_order_is_refused(client: Client) -> None:
    reply = await client.ask("GET", "/v1/connections?sort=colour")
    assert (reply.status, reply.problem) == (400, "invalid-parameter")
