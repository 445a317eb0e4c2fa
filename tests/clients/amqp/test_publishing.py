"""Publishing: confirms, returns, further keys, time to live, transactions, direct replies, delays."""

import random
import time
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError

from tests.clients.amqp.serving import Broker, depth, serving, take, until

pytestmark = pytest.mark.conformance

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.mark.parametrize("delivery_mode", [1, 2])
def test_messages_are_confirmed(channel: BlockingChannel, name: str, delivery_mode: int) -> None:
    channel.queue_declare(name, durable=True)
    channel.confirm_delivery()
    for number in range(20):
        channel.basic_publish("", name, b"%d" % number, pika.BasicProperties(delivery_mode=delivery_mode))
    assert [body for _, _, body in take(channel, name, 20, auto_ack=True)] == [b"%d" % n for n in range(20)]


def test_what_reaches_no_queue_comes_back_if_it_must(channel: BlockingChannel, name: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish("amq.direct", name, b"may be lost")
    with pytest.raises(UnroutableError) as error:
        channel.basic_publish("amq.direct", name, b"must not", pika.BasicProperties(app_id="me"), mandatory=True)
    (returned,) = error.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("amq.direct", name)
    assert (returned.properties.app_id, returned.body) == ("me", b"must not")


def test_a_full_queue_refuses_or_lets_go(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    for body in (b"1", b"2"):
        channel.basic_publish("", name, body)
    with pytest.raises(NackError):
        channel.basic_publish("", name, b"3")
    assert depth(channel, name) == 2
    channel.queue_declare(f"{name}-2", arguments={"x-max-length": 2})
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", f"{name}-2", body)
    assert [body for _, _, body in take(channel, f"{name}-2", 2)] == [b"2", b"3"]


def test_properties_come_back_as_they_were(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    sent = pika.BasicProperties(
        content_type="application/json",
        content_encoding="utf-8",
        headers={
            "text": "ü",
            "number": -5,
            "big": 2**40,
            "yes": True,
            "none": None,
            "list": [1, "a"],
            "table": {"x": 1},
        },
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="100000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
    )
    channel.basic_publish("", name, b"body", sent)
    method, properties, body = channel.basic_get(name, auto_ack=True)
    assert properties == sent
    assert (method.exchange, method.routing_key, method.redelivered, body) == ("", name, False, b"body")


@pytest.mark.parametrize("size", [0, 1, 131_063, 131_064, 131_065, 300_000, 5_000_000])
def test_bodies_of_any_size(channel: BlockingChannel, name: str, size: int) -> None:
    channel.queue_declare(name)
    body = bytes(range(256)) * (size // 256 + 1)
    channel.basic_publish("", name, body[:size])
    assert take(channel, name, 1, auto_ack=True)[0][2] == body[:size]


def test_a_message_that_is_too_large_closes_the_channel(broker: Broker, name: str) -> None:
    with broker.channel() as channel, pytest.raises(ChannelClosedByBroker) as error:
        channel.queue_declare(name)
        channel.basic_publish("", name, bytes((16 << 20) + 1))
        channel.queue_declare(name)
    assert error.value.reply_code == 406
    assert "is larger than configured max size 16777216" in error.value.reply_text


def test_messages_may_be_larger_if_a_commit_may(tmp_path: Path) -> None:
    body = random.Random(7).randbytes(40 << 20)
    limits = ("--set", "amqp.message_bytes_max=52428800", "--set", "storage.commit_bytes_max=64000000")
    with serving(tmp_path / "data", *limits) as broker:
        with broker.channel() as channel:
            channel.queue_declare("large", durable=True)
            channel.confirm_delivery()
            channel.basic_publish("", "large", body, PERSISTENT)
        broker.kill()
        broker.start()
        with broker.channel() as channel:
            assert take(channel, "large", 1)[0][2] == body


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"expiration": "soon"}, "invalid expiration 'soon': no_integer"),
        ({"expiration": "-1"}, "invalid expiration '-1': {value_negative,-1}"),
        ({"user_id": "somebody"}, "user_id property set to 'somebody' but authenticated user was 'guest'"),
        ({"reply_to": "amq.rabbitmq.reply-to"}, "fast reply consumer does not exist"),
    ],
)
def test_properties_that_cannot_be_close_the_channel(
    channel: BlockingChannel, name: str, properties: dict[str, Any], text: str
) -> None:
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.queue_declare(name)
        channel.basic_publish("", name, b"x", pika.BasicProperties(**properties))
        channel.queue_declare(name)
    assert (error.value.reply_code, error.value.reply_text) == (406, f"PRECONDITION_FAILED - {text}")


def test_further_keys_are_told_and_blind_ones_are_not(channel: BlockingChannel, name: str) -> None:
    for suffix in ("", "-cc", "-bcc"):
        channel.queue_declare(name + suffix)
    headers = {"CC": [f"{name}-cc", 5], "BCC": [f"{name}-bcc"]}
    channel.basic_publish("", name, b"x", pika.BasicProperties(headers=headers))
    for suffix in ("", "-cc", "-bcc"):
        method, properties, _ = channel.basic_get(name + suffix, auto_ack=True)
        assert properties.headers == {"CC": [f"{name}-cc", 5]}
        assert method.routing_key == name


def test_messages_expire_and_become_dead_letters(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(f"{name}-dead")
    channel.queue_declare(name, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"})
    channel.basic_publish("", name, b"x", pika.BasicProperties(expiration="20", headers={"own": 1}))
    ((method, properties, body),) = take(channel, f"{name}-dead", 1, auto_ack=True)
    assert body == b"x"
    assert (method.exchange, method.routing_key) == ("", f"{name}-dead")
    assert properties.expiration is None
    (death,) = properties.headers.pop("x-death")
    assert death.pop("time")
    assert death == {
        "original-expiration": "20",
        "count": 1,
        "reason": "expired",
        "queue": name,
        "exchange": "",
        "routing-keys": [name],
    }
    assert properties.headers == {
        "own": 1,
        "x-first-death-exchange": "",
        "x-first-death-queue": name,
        "x-first-death-reason": "expired",
        "x-last-death-exchange": "",
        "x-last-death-queue": name,
        "x-last-death-reason": "expired",
    }


def test_what_waits_to_be_tried_again_comes_back_after_a_kill(tmp_path: Path) -> None:
    """Nobody uses the queues in which it waits: their messages only expire."""
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    with serving(tmp_path / "data") as broker:
        with broker.channel() as channel:
            channel.confirm_delivery()
            channel.queue_declare("work", durable=True)
            channel.queue_declare("later", durable=True, arguments={**back, "x-message-ttl": 2_000})
            channel.queue_declare("each", durable=True, arguments=back)
            channel.queue_declare("safe", durable=True, arguments={**back, "x-queue-type": "quorum"})
            for number in range(10):
                channel.basic_publish("", "later", b"later %d" % number, PERSISTENT)
                for name in ("each", "safe"):
                    properties = pika.BasicProperties(delivery_mode=2, expiration="2000")
                    channel.basic_publish("", name, b"%s %d" % (name.encode(), number), properties)
        broker.kill()
        broker.start()
        with broker.channel() as channel:
            found = {body for _, _, body in take(channel, "work", 30)}
    assert found == {b"%s %d" % (name, number) for name in (b"later", b"each", b"safe") for number in range(10)}


def test_a_queue_may_limit_the_life_of_its_messages_and_its_own(broker: Broker, name: str) -> None:
    with broker.channel() as channel:
        channel.queue_declare(name, arguments={"x-message-ttl": 50, "x-expires": 300})
        channel.basic_publish("", name, b"x")
        assert depth(channel, name) == 1
        until(channel, lambda: depth(channel, name) == 0)

        def is_gone() -> bool:
            time.sleep(0.4)  # Asking for a queue is using it.
            return not broker.has_queue(name)

        until(channel, is_gone)


def test_urgent_messages_come_first(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, arguments={"x-max-priority": 5})
    for priority in (0, 3, 9, 1, None, 3):
        channel.basic_publish("", name, str(priority).encode(), pika.BasicProperties(priority=priority))
    assert depth(channel, name) == 6
    assert [body for _, _, body in take(channel, name, 6)] == [b"9", b"3", b"3", b"1", b"0", b"None"]


def test_a_transaction_counts_with_its_commit(broker: Broker, channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    channel.tx_select()
    channel.basic_publish("", name, b"rolled back")
    channel.tx_rollback()
    channel.basic_publish("", name, b"one")
    channel.basic_publish("", name, b"two")
    assert depth(channel, name) == 0
    channel.tx_commit()
    with broker.channel() as other:
        first, _, body = other.basic_get(name)
        assert body == b"one"
        other.tx_select()
        other.basic_ack(first.delivery_tag)
        other.tx_rollback()
        other.basic_ack(first.delivery_tag)
        other.tx_commit()
    assert [body for _, _, body in take(channel, name, 1)] == [b"two"]


def test_modes_do_not_mix(broker: Broker) -> None:
    for first, second, text in (
        ("tx_select", "confirm_delivery", "cannot switch from tx to confirm mode"),
        ("confirm_delivery", "tx_select", "cannot switch from confirm to tx mode"),
    ):
        with broker.channel() as channel, pytest.raises(ChannelClosedByBroker) as error:
            getattr(channel, first)()
            getattr(channel, second)()
        assert error.value.reply_text == f"PRECONDITION_FAILED - {text}"
    with broker.channel() as channel, pytest.raises(ChannelClosedByBroker) as error:
        channel.tx_commit()
    assert error.value.reply_text == "PRECONDITION_FAILED - channel is not transactional"


def test_direct_replies(broker: Broker, channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    replies: list[tuple[str, bytes]] = []
    channel.basic_consume(
        "amq.rabbitmq.reply-to",
        lambda _, method, properties, body: replies.append((properties.correlation_id, body)),
        auto_ack=True,
    )
    request = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="7")
    channel.basic_publish("", name, b"question", request)
    with broker.channel() as server:
        ((_, properties, body),) = take(server, name, 1, auto_ack=True)
        assert body == b"question"
        assert properties.reply_to.startswith("amq.rabbitmq.reply-to.")
        server.queue_declare(properties.reply_to, passive=True)
        answer = pika.BasicProperties(correlation_id=properties.correlation_id)
        server.basic_publish("", properties.reply_to, b"answer", answer, mandatory=True)
    until(channel, lambda: bool(replies))
    assert replies == [("7", b"answer")]


def test_a_delayed_message_comes_when_it_is_due(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "x-delayed-message", arguments={"x-delayed-type": "direct"})
    channel.queue_declare(name)
    channel.queue_bind(name, name, "k")
    channel.confirm_delivery()
    started = time.monotonic()
    channel.basic_publish(name, "k", b"later", pika.BasicProperties(headers={"x-delay": 400}))
    channel.basic_publish(name, "k", b"now")
    assert [body for _, _, body in take(channel, name, 2)] == [b"now", b"later"]
    assert 0.4 <= time.monotonic() - started < 3


def test_publishing_to_an_exchange_that_is_not_there_closes_the_channel(channel: BlockingChannel, name: str) -> None:
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.basic_publish(name, "", b"x")
        channel.queue_declare(name)
    assert (error.value.reply_code, error.value.reply_text) == (404, f"NOT_FOUND - no exchange '{name}' in vhost '/'")


def test_a_new_binding_counts_at_once(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    for bound in (False, True, False):
        if bound:
            channel.queue_bind(name, "amq.topic", f"{name}.*")
        elif channel.basic_get(name, auto_ack=True)[0]:
            channel.queue_unbind(name, "amq.topic", f"{name}.*")
        channel.basic_publish("amq.topic", f"{name}.x", b"x")
    assert depth(channel, name) == 0


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_further_routing_keys_are_a_list(channel: BlockingChannel, name: str, header: str) -> None:
    channel.queue_declare(name)
    channel.basic_publish("", name, b"", pika.BasicProperties(headers={header: "one"}))
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.queue_declare(name, passive=True)
    text = f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{header}",longstr}}'
    assert (error.value.reply_code, error.value.reply_text) == (406, text)
