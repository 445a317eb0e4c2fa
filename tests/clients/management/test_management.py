"""The management API of the real program, with pika beside it: what one does, the other sees."""

import time
from typing import Any
from urllib.parse import quote

import pika
import pika.exceptions
import pytest

from tests.clients.management.both import Both
from tests.support.serving.program import PATIENCE_S


def ask_until_closed(channel: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        channel.queue_declare("q", passive=True)


@pytest.mark.conformance
def test_clients_are_seen_and_can_be_closed(both: Both) -> None:
    connection = both.connect(client_properties={"connection_name": "shop", "odd": b"\xff"}, heartbeat=30)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=7)
    channel.queue_declare("q")
    channel.basic_consume("q", lambda *_: None, consumer_tag="tag")
    (row,) = both.ask("GET", "/connections")
    assert (row["user"], row["vhost"], row["channels"], row["peer_host"]) == ("guest", "/", 1, "127.0.0.1")
    assert row["name"] == f"127.0.0.1:{row['peer_port']} -> 127.0.0.1:{both.port}"
    assert (row["host"], row["port"], row["auth_mechanism"]) == ("127.0.0.1", both.port, "PLAIN")
    assert (row["timeout"], row["frame_max"], row["user_provided_name"]) == (30, 131_072, "shop")
    assert row["client_properties"]["product"].startswith("Pika")
    assert row["client_properties"]["odd"] == "Not UTF-8, base64 is: /w=="
    assert row["client_properties"]["capabilities"]["publisher_confirms"] is True
    place = "/connections/" + quote(row["name"], safe="")
    assert both.ask("GET", place) == row
    assert [each["name"] for each in both.ask("GET", f"{place}/channels")] == [f"{row['name']} (1)"]
    (consumer,) = both.ask("GET", "/consumers")
    assert (consumer["consumer_tag"], consumer["queue"]["name"], consumer["prefetch_count"]) == ("tag", "q", 7)
    assert consumer["consumer_timeout"] == 1_800_000
    details = consumer["channel_details"]
    assert (details["peer_host"], details["peer_port"]) == ("127.0.0.1", row["peer_port"])
    assert details["connection_name"] == row["name"]
    (row_of_channel,) = both.ask("GET", "/channels")
    assert row_of_channel["consumer_count"] == 1
    assert row_of_channel["connection_details"] == {name: row[name] for name in ("name", "peer_host", "peer_port")}
    assert both.ask("GET", "/channels/" + quote(row_of_channel["name"], safe=""))["number"] == 1
    queue = both.ask("GET", "/queues/%2F/q")
    assert (queue["consumers"], queue["consumer_details"]) == (1, [consumer])
    both.ask("DELETE", place)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        ask_until_closed(channel)
    assert caught.value.reply_code == 320
    assert both.ask("GET", "/connections") == []


@pytest.mark.conformance
def test_the_consumer_whose_turn_it_is_can_be_seen(both: Both) -> None:
    connection = both.connect()
    channel = connection.channel()
    channel.queue_declare("single", arguments={"x-single-active-consumer": True})
    for tag in ("first", "second"):
        channel.basic_consume("single", lambda *_: None, consumer_tag=tag)
    row = both.ask("GET", "/queues/%2F/single")
    assert (row["single_active_consumer_tag"], row["exclusive_consumer_tag"]) == ("first", None)
    assert {each["consumer_tag"]: each["activity_status"] for each in row["consumer_details"]} == {
        "first": "up",
        "second": "waiting",
    }
    channel.queue_declare("alone")
    channel.basic_consume("alone", lambda *_: None, exclusive=True, consumer_tag="mine")
    row = both.ask("GET", "/queues/%2F/alone")
    assert (row["single_active_consumer_tag"], row["exclusive_consumer_tag"]) == (None, "mine")
    connection.close()


@pytest.mark.conformance
def test_users_virtual_hosts_and_permissions_hold_for_amqp(both: Both) -> None:
    both.ask("PUT", "/vhosts/shop", {})
    both.ask("PUT", "/users/ann", {"password": "secret", "tags": ""})
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        both.connect("ann", "secret", "shop")
    both.ask("PUT", "/permissions/shop/ann", {"configure": "^own", "write": ".*", "read": ".*"})
    connection = both.connect("ann", "secret", "shop")
    connection.channel().queue_declare("own-q", durable=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        connection.channel().queue_declare("other")
    assert caught.value.reply_code == 403
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        both.connect("ann", "wrong", "shop")
    connection.close()
    assert [queue["name"] for queue in both.ask("GET", "/queues/shop")] == ["own-q"]


@pytest.mark.conformance
def test_what_management_declares_and_publishes_clients_get(both: Both) -> None:
    both.ask("PUT", "/exchanges/%2F/later", {"type": "x-delayed-message", "arguments": {"x-delayed-type": "topic"}})
    both.ask("PUT", "/queues/%2F/q", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    both.ask("POST", "/bindings/%2F/e/later/q/q", {"routing_key": "a.#"})
    message = {
        "routing_key": "a.b",
        "payload": "text",
        "properties": {"headers": {"x-delay": 100, "n": 1}, "message_id": "m"},
    }
    begun = time.monotonic()
    assert both.ask("POST", "/exchanges/%2F/later/publish", message) == {"routed": True}
    connection = both.connect()
    channel = connection.channel()
    # Declared the same, it is the same.
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    for method, properties, body in channel.consume("q", inactivity_timeout=PATIENCE_S):
        assert time.monotonic() - begun >= 0.1
        assert (body, method.exchange, method.routing_key) == (b"text", "later", "a.b")
        assert (properties.message_id, properties.headers["n"]) == ("m", 1)
        channel.basic_ack(method.delivery_tag)
        break
    connection.close()
