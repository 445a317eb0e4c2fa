"""Queues, exchanges, bindings and messages, as rabbitmqadmin asks for them."""

import asyncio
import base64
from urllib.parse import unquote, unquote_plus

from mainstem.protocols.management.mapping.rates import Rates
from tests.support.clients.management_client import Admin, with_admin

Q = "/queues/%2F"
X = "/exchanges/%2F"


@with_admin
async def test_queues(admin: Admin) -> None:
    await admin.put(f"{Q}/orders", {"durable": True, "arguments": {"x-max-length": 5, "x-message-ttl": 60_000}})
    await admin.put(f"{Q}/orders", {"durable": True, "arguments": {"x-max-length": 5, "x-message-ttl": 60_000}}, 204)
    await admin.put(f"{Q}/orders", {"durable": True, "arguments": {"x-max-length": 6}}, 400)
    await admin.put(f"{Q}/a%2Fb", {"durable": "false", "auto_delete": "true"})
    await admin.put(f"{Q}/quorum", {"type": "quorum", "durable": True})
    await admin.put(f"{Q}/amq.mine", {}, 400)
    await admin.put(f"{Q}/wrong", {"arguments": {"x-max-length": "five"}}, 400)
    await admin.put("/queues/nowhere/q", {}, 404)
    shown = await admin.get(f"{Q}/orders")
    assert shown["arguments"] == {"x-max-length": 5, "x-message-ttl": 60_000}
    assert (shown["messages"], shown["consumers"], shown["type"], shown["vhost"]) == (0, 0, "classic", "/")
    assert (await admin.get(f"{Q}/quorum"))["type"] == "quorum"
    assert (await admin.get(f"{Q}/a%2Fb"))["durable"] is False
    names = [row["name"] for row in await admin.get("/queues?columns=name&sort=name")]
    assert names == ["a/b", "orders", "quorum"]
    page = await admin.get("/queues?page=1&page_size=2&name=or&use_regex=false&pagination=true")
    assert (page["filtered_count"], page["total_count"], page["page_count"]) == (2, 3, 1)
    assert {row["name"] for row in page["items"]} == {"orders", "quorum"}
    assert (await admin.ask("GET", "/queues?page=9")).status == 400
    assert (await admin.ask("GET", "/queues?name=(&use_regex=true")).status == 400
    await admin.delete(f"{Q}/orders")
    await admin.delete(f"{Q}/orders", 404)


@with_admin
async def test_what_is_not_said_to_last_does_not(admin: Admin) -> None:
    """As in RabbitMQ: then a virtual host's default type does not apply either, if it is one that lasts."""
    await admin.put("/vhosts/shop", {"default_queue_type": "quorum"})
    await admin.put("/queues/shop/plain", {})
    await admin.put("/queues/shop/lasting", {"durable": True})
    await admin.put("/queues/shop/odd", {"arguments": {"x-queue-type": "quorum"}}, 400)
    rows = {row["name"]: (row["durable"], row["type"]) for row in await admin.get("/queues/shop")}
    assert rows == {"plain": (False, "classic"), "lasting": (True, "quorum")}


@with_admin
async def test_our_own_arguments_go_out_and_in_with_the_definitions(admin: Admin) -> None:
    arguments = {"x-mainstem-retry": "fixed delay_ms=5", "x-mainstem-lease-ms": 1_000, "x-mainstem-ordering": "key"}
    await admin.put(f"{Q}/mine", {"durable": True, "arguments": arguments})
    definitions = await admin.get("/definitions")
    assert definitions["queues"][0]["arguments"] == {"x-queue-type": "classic", **arguments}
    await admin.delete(f"{Q}/mine")
    await admin.post("/definitions", definitions, 204)
    assert (await admin.get(f"{Q}/mine"))["arguments"] == {"x-queue-type": "classic", **arguments}
    await admin.put(f"{Q}/mine", {"durable": True, "arguments": {**arguments, "x-mainstem-ordering": "shared"}}, 400)


@with_admin
async def test_streams_are_not_got_from(admin: Admin) -> None:
    await admin.put(f"{Q}/s", {"durable": True, "arguments": {"x-queue-type": "stream"}})
    await admin.post(f"{Q}/s/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}, 400)


@with_admin
async def test_publish_and_get(admin: Admin) -> None:
    await admin.put(f"{Q}/q", {})
    publish = {"properties": {"headers": {"n": 1}, "delivery_mode": 2}, "routing_key": "q", "payload": "text"}
    assert await admin.post(f"{X}/amq.default/publish", publish | {"payload_encoding": "string"}) == {"routed": True}
    assert await admin.post(f"{X}/amq.default/publish", publish | {"routing_key": "nobody"}) == {"routed": False}
    binary = {"properties": {}, "routing_key": "q", "payload": base64.b64encode(b"\xff").decode()}
    await admin.post(f"{X}/amq.default/publish", binary | {"payload_encoding": "base64"})
    keep = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
    first, second = await admin.post(f"{Q}/q/get", keep)
    assert (first["payload"], first["payload_encoding"], first["properties"]["headers"]) == ("text", "string", {"n": 1})
    assert (first["exchange"], first["routing_key"], first["redelivered"], first["message_count"]) == (
        "",
        "q",
        False,
        1,
    )
    assert (second["payload"], second["payload_encoding"]) == ("/w==", "base64")
    assert (await admin.get(f"{Q}/q"))["messages"] == 2
    (short,) = await admin.post(f"{Q}/q/get", {"count": 1, "ackmode": "ack_requeue_false", "truncate": 2})
    assert (short["payload"], short["payload_bytes"], short["redelivered"]) == ("te", 4, True)
    await admin.delete(f"{Q}/q/contents")
    assert (await admin.get(f"{Q}/q"))["messages"] == 0
    for wrong in ({}, {"count": 1}, {"count": -1, "ackmode": "ack_requeue_true"}, {"count": 1, "ackmode": "eat"}):
        await admin.post(f"{Q}/q/get", wrong, 400)
    for wrong in ({"properties": {"weird": 1}}, {"properties": {"priority": "high"}}, {"payload_encoding": "rot13"}):
        await admin.post(f"{X}/amq.default/publish", publish | wrong, 400)
    await admin.post(f"{X}/amq.rabbitmq.trace/publish", publish, 401)


@with_admin
async def test_a_delayed_message_arrives_later(admin: Admin) -> None:
    await admin.put(f"{Q}/q", {})
    await admin.put(f"{X}/later", {"type": "x-delayed-message", "arguments": {"x-delayed-type": "fanout"}})
    await admin.post("/bindings/%2F/e/later/q/q", {}, 201)
    publish = {"properties": {"headers": {"x-delay": 30}}, "routing_key": "", "payload": "v"}
    assert await admin.post(f"{X}/later/publish", publish) == {"routed": True}
    assert (await admin.get(f"{Q}/q"))["messages"] == 0
    async with asyncio.timeout(20):
        while not (await admin.get(f"{Q}/q"))["messages"]:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)


@with_admin
async def test_exchanges_and_bindings(admin: Admin) -> None:
    await admin.put(f"{X}/events", {"type": "topic", "arguments": {"alternate-exchange": "amq.fanout"}})
    await admin.put(f"{X}/events", {"type": "topic", "arguments": {"alternate-exchange": "amq.fanout"}}, 204)
    await admin.put(f"{X}/events", {"type": "fanout"}, 400)
    await admin.put(f"{X}/odd", {"type": "odd"}, 400)
    await admin.put(f"{Q}/q", {})
    shown = await admin.get(f"{X}/events")
    assert (shown["type"], shown["durable"], shown["arguments"]) == (
        "topic",
        False,
        {"alternate-exchange": "amq.fanout"},
    )
    assert len(await admin.get(X)) == 8
    reply = await admin.ask("POST", "/bindings/%2F/e/events/q/q", {"routing_key": "a.#/x", "arguments": {"k": 1}})
    assert reply.status == 201
    end, _, place = reply.headers["location"].partition("/")
    assert (end, unquote_plus(unquote(place)).partition("~")[0]) == ("q", "a.#/x"), (
        "as seen from /bindings/%2F/e/events/q/"
    )
    await admin.post("/bindings/%2F/e/events/q/q", {"routing_key": "plain"}, 201)
    await admin.post("/bindings/%2F/e/events/e/amq.direct", {"routing_key": "x"}, 201)
    await admin.post("/bindings/%2F/e/events/q/nobody", {}, 404)
    assert (await admin.get(f"/bindings/%2F/e/events/q/q/{place}"))["arguments"] == {"k": 1}
    assert len(await admin.get("/bindings/%2F/e/events/q/q")) == 2
    assert len(await admin.get(f"{X}/events/bindings/source")) == 3
    assert len(await admin.get(f"{X}/amq.direct/bindings/destination")) == 1
    assert [row["source"] for row in await admin.get(f"{Q}/q/bindings")] == ["", "events", "events"]
    assert len(await admin.get("/bindings")) == 4
    await admin.delete(f"/bindings/%2F/e/events/q/q/{place}")
    await admin.delete("/bindings/%2F/e/events/q/q/plain")
    await admin.delete("/bindings/%2F/e/events/q/q/plain", 404)
    await admin.delete(f"{X}/events?if-unused=true", 400)
    await admin.delete(f"{X}/events")
    await admin.delete(f"{X}/amq.direct", 400)


@with_admin
async def test_the_exchange_without_a_name_is_bound_to_every_queue(admin: Admin) -> None:
    for name in ("b", "a%2F~"):
        await admin.put(f"{Q}/{name}", {})
    await admin.post("/bindings/%2F/e/amq.direct/q/b", {"routing_key": "k l~"}, 201)
    default = {"source": "", "vhost": "/", "destination_type": "queue", "arguments": {}}
    a = default | {"destination": "a/~", "routing_key": "a/~", "properties_key": "a%2F%7E"}
    b = default | {"destination": "b", "routing_key": "b", "properties_key": "b"}
    other = b | {"source": "amq.direct", "routing_key": "k l~", "properties_key": "k+l%7E"}
    assert await admin.get("/bindings") == await admin.get("/bindings/%2F") == [a, b, other]
    assert await admin.get(f"{X}/amq.default/bindings/source") == [a, b]
    assert await admin.get(f"{X}/amq.default/bindings/destination") == []
    assert await admin.get(f"{X}/amq.direct/bindings/source") == [other]
    assert await admin.get(f"{Q}/b/bindings") == [b, other]
    between = "/bindings/%2F/e/amq.default/q/a%2F~"
    assert await admin.get(between) == [a]
    assert await admin.get(f"{between}/a%252F%257E") == await admin.get(f"{between}/a%2F~") == a
    assert await admin.get("/bindings/%2F/e/amq.direct/q/b/k%2Bl%257E") == other
    for method, path in (("DELETE", f"{between}/a%252F%257E"), ("POST", between)):
        reply = await admin.ask(method, path, {"routing_key": "z"})
        assert (reply.status, reply.json()["reason"]) == (401, "Access refused.")
    assert await admin.get(between) == [a]


@with_admin
async def test_what_is_not_there_is_said_in_the_words_that_clients_compare(admin: Admin) -> None:
    await admin.put(f"{Q}/q", {})
    nothing = {"error": "Object Not Found", "reason": "Not Found"}
    for path in (
        "/nowhere",
        "/vhosts/no",
        "/queues/no/q",
        f"{Q}/no",
        f"{X}/no",
        "/users/no",
        "/permissions/%2F/no",
        "/topic-permissions/%2F/no",
        "/policies/%2F/no",
        "/operator-policies/%2F/no",
        "/policies/no/p",
        "/parameters/shovel/%2F/no",
        "/global-parameters/no",
        "/connections/no",
        "/bindings/%2F/e/amq.direct/q/q/no",
    ):
        for method in ("GET", "DELETE"):
            reply = await admin.ask(method, path)
            assert (reply.status, reply.json()) == (404, nothing), (method, path)
    message = {"properties": {}, "routing_key": "", "payload": ""}
    policy = {"pattern": "^a", "definition": {"max-length": 1}}
    for method, path, content, reason in (
        ("PUT", "/queues/no/q", {}, "vhost_not_found"),
        ("PUT", "/exchanges/no/x", {"type": "direct"}, "vhost_not_found"),
        ("PUT", "/policies/no/p", policy, "vhost_not_found"),
        ("PUT", "/parameters/shovel/no/p", {"value": 1}, "vhost_not_found"),
        ("PUT", "/vhost-limits/no/max-queues", {"value": 1}, "vhost_not_found"),
        ("PUT", "/user-limits/no/max-channels", {"value": 1}, "user_not_found"),
        ("POST", f"{X}/no/publish", message, "exchange_not_found"),
        ("POST", f"{Q}/no/get", {"count": 1, "ackmode": "ack_requeue_true"}, "queue_not_found"),
        ("POST", "/bindings/%2F/e/no/q/q", {}, "no exchange 'no' in vhost '/'"),
        ("POST", "/bindings/%2F/e/amq.direct/q/no", {}, "no queue 'no' in vhost '/'"),
    ):
        reply = await admin.ask(method, path, content)
        assert (reply.status, reply.json()) == (404, {"error": "not_found", "reason": reason}), (method, path)


@with_admin
async def test_the_whole_at_a_glance(admin: Admin) -> None:
    await admin.put(f"{Q}/q", {})
    overview = await admin.get("/overview")
    assert overview["object_totals"] == {"channels": 0, "connections": 0, "consumers": 0, "exchanges": 7, "queues": 1}
    assert overview["queue_totals"]["messages"] == 0
    assert await admin.get("/overview?columns=node,queue_totals.messages") == {
        "node": "mainstem@localhost",
        "queue_totals": {"messages": 0},
    }
    assert (await admin.get("/whoami"))["name"] == "guest"
    (node,) = await admin.get("/nodes")
    assert node["running"] is True
    assert node["mem_used"] > 0
    assert node["fd_total"] > 0
    assert await admin.get(f"/nodes/{node['name']}/memory") == {"memory": "not_available"}
    assert (await admin.ask("GET", "/nodes/other/memory")).status == 404
    assert await admin.get("/aliveness-test/%2F") == {"status": "ok"}
    for check in (
        "alarms",
        "local-alarms",
        "virtual-hosts",
        "ready-to-serve-clients",
        "port-listener/5672",
        "protocol-listener/amqp",
    ):
        assert (await admin.get(f"/health/checks/{check}"))["status"] == "ok"
    assert (await admin.ask("GET", "/health/checks/port-listener/1")).status == 503
    for path in ("/connections", "/channels", "/consumers", "/extensions", "/vhosts/%2F/connections", "/consumers/%2F"):
        assert await admin.get(path) == []
    assert (await admin.ask("GET", "/nowhere")).json() == {"error": "Object Not Found", "reason": "Not Found"}
    assert (await admin.ask("PATCH", "/overview")).status == 405
    assert (await admin.ask("PUT", f"{Q}/x", b"{")).json() == {"error": "bad_request", "reason": "not_json"}
    assert (await admin.ask("PUT", f"{Q}/x", b"[" * 100_000)).status == 400


@with_admin
async def test_what_would_be_replicated_is_on_the_one_node(admin: Admin) -> None:
    for kind in ("quorum", "stream"):
        await admin.put(f"{Q}/{kind}", {"durable": True, "arguments": {"x-queue-type": kind}})
        row = await admin.get(f"{Q}/{kind}")
        assert row["members"] == row["online"] == [row["leader"]] == [row["node"]]
    await admin.put(f"{Q}/classic", {})
    assert "members" not in await admin.get(f"{Q}/classic")


@with_admin
async def test_counts_of_what_came_and_went(admin: Admin) -> None:
    await admin.put(f"{Q}/q", {})
    await admin.put(f"{Q}/unused", {})
    message = {"properties": {}, "routing_key": "q", "payload": "text", "payload_encoding": "string"}
    for _ in range(3):
        await admin.post(f"{X}/amq.default/publish", message)
    await admin.post(f"{Q}/q/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"})
    await admin.post(f"{Q}/q/get", {"count": 2, "ackmode": "ack_requeue_false", "encoding": "auto"})
    stats = (await admin.get(f"{Q}/q"))["message_stats"]
    assert {name: stats[name] for name in ("publish", "get", "deliver", "deliver_get", "ack", "redeliver")} == {
        "publish": 3,
        "get": 3,
        "deliver": 0,
        "deliver_get": 3,
        "ack": 2,
        "redeliver": 1,
    }
    assert stats["publish_details"] == {"rate": 0.0}
    assert "message_stats" not in await admin.get(f"{Q}/unused")
    overview = await admin.get("/overview")
    assert overview["message_stats"]["ack"] == 2
    assert overview["queue_totals"]["messages"] == 1
    assert overview["queue_totals"]["messages_details"] == {"rate": 0.0}


def test_rates_are_of_the_time_between_two_samples() -> None:
    now_ms = 0
    rates = Rates(lambda: now_ms)

    def rate(length: int, count: int) -> tuple[float, float]:
        lengths, counts = rates.describe("q", {"messages": length}, {"publish": count})
        return lengths["messages_details"]["rate"], counts["publish_details"]["rate"]

    assert rate(0, 10) == (0.0, 0.0)
    now_ms = 4_999
    assert rate(50, 60) == (0.0, 0.0)
    now_ms = 10_000
    assert rate(50, 110) == (5.0, 10.0)
    now_ms = 12_000
    assert rate(0, 1_000) == (5.0, 10.0)
    now_ms = 20_000
    assert rate(0, 110) == (-5.0, 0.0)
