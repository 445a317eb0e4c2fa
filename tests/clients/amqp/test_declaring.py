"""Exchanges and queues: what may be declared, and what RabbitMQ's clients are told when it may not."""

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ProbableAccessDeniedError

from tests.clients.amqp.serving import Broker, depth, take, until

pytestmark = pytest.mark.conformance


def closed(error: pytest.ExceptionInfo[Any]) -> tuple[int, str]:
    return error.value.reply_code, error.value.reply_text


def test_a_queue_is_declared_again_with_the_same_properties_only(broker: Broker, name: str) -> None:
    arguments = {"x-message-ttl": 60_000, "x-max-length": 5}
    with broker.channel() as channel:
        for _ in range(2):
            assert channel.queue_declare(name, durable=True, arguments=arguments).method.queue == name
    here = f"for queue '{name}' in vhost '/'"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"durable": False, "arguments": arguments}, f"'durable' {here}: received 'false' but current is 'true'"),
        (
            {"durable": True, "auto_delete": True, "arguments": arguments},
            f"'auto_delete' {here}: received 'true' but current is 'false'",
        ),
        (
            {"durable": True, "arguments": arguments | {"x-max-length": 6}},
            f"'x-max-length' {here}: received '6' but current is '5'",
        ),
        (
            {"durable": True, "arguments": {"x-max-length": 5}},
            f"'x-message-ttl' {here}: received none but current is the value '60000' of type 'signedint'",
        ),
        (
            {"durable": True},
            f"'x-message-ttl' {here}: received none but current is the value '60000' of type 'signedint'",
        ),
        (
            {"durable": True, "arguments": arguments | {"x-queue-type": "quorum"}},
            f"'x-queue-type' {here}: received the value 'quorum' of type 'longstr' but current is none",
        ),
    ]
    for options, text in wrong:
        with broker.channel() as channel, pytest.raises(ChannelClosedByBroker) as error:
            channel.queue_declare(name, **options)
        assert closed(error) == (406, f"PRECONDITION_FAILED - inequivalent arg {text}")
    with broker.channel() as channel, pytest.raises(ChannelClosedByBroker) as error:
        channel.queue_declare(name, durable=True, exclusive=True, arguments=arguments)
    code, text = closed(error)
    assert code == 405
    assert text.startswith(f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '/'")


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"x-message-ttl": -1}, "invalid arg 'x-message-ttl' for {}: {{value_negative,-1}}"),
        ({"x-message-ttl": "x"}, "invalid arg 'x-message-ttl' for {}: \"expected integer, got longstr\""),
        ({"x-expires": 0}, "invalid arg 'x-expires' for {}: {{value_zero,0}}"),
        ({"x-max-priority": 256}, "invalid arg 'x-max-priority' for {}: {{max_value_exceeded,256}}"),
        ({"x-overflow": "spill"}, "invalid arg 'x-overflow' for {}: invalid_overflow"),
        (
            {"x-dead-letter-routing-key": "k"},
            "invalid arg 'x-dead-letter-routing-key' for {}: routing_key_but_no_dlx_defined",
        ),
        ({"x-queue-type": "funny"}, "invalid arg 'x-queue-type' for {}: \"unsupported queue type 'funny'\""),
        (
            {"x-queue-type": "quorum", "x-max-priority": 3},
            "invalid arg 'x-max-priority' for {} of queue type rabbit_quorum_queue",
        ),
        (
            {"x-delivery-limit": 3},
            "invalid arg 'x-delivery-limit' for {} of queue type rabbit_classic_queue",
        ),
        (
            {"x-single-active-consumer": 1},
            "invalid arg 'x-single-active-consumer' for {}: {{unacceptable_type,signedint}}",
        ),
    ],
)
def test_arguments_that_cannot_be_are_refused(
    channel: BlockingChannel, name: str, arguments: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.queue_declare(name, durable=True, arguments=arguments)
    text = wrong.format(f"queue '{name}' in vhost '/'")
    assert closed(error) == (406, f"PRECONDITION_FAILED - {text}")


@pytest.mark.parametrize("kind", ["quorum", "stream"])
@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"durable": False}, "non-durable"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
    ],
)
def test_some_kinds_of_queues_are_made_to_last(
    channel: BlockingChannel, name: str, kind: str, options: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.queue_declare(name, **options, arguments={"x-queue-type": kind})
    assert closed(error) == (406, f"PRECONDITION_FAILED - invalid property '{wrong}' for queue '{name}' in vhost '/'")


def test_an_exchange_of_an_unknown_type_cannot_be_declared_again_either(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "topic")
    with pytest.raises(ChannelClosedByBroker) as error:
        channel.exchange_declare(name, "funny")
    assert closed(error) == (406, "PRECONDITION_FAILED - invalid exchange type 'funny'")


def test_unknown_arguments_are_kept_without_effect(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, arguments={"x-of-mine": "yes"})
    channel.queue_declare(name, arguments={"x-of-mine": "no"})


def test_what_is_not_there_is_not_found(broker: Broker, name: str) -> None:
    actions = {
        f"no queue '{name}' in vhost '/'": [
            lambda channel: channel.queue_declare(name, passive=True),
            lambda channel: channel.queue_purge(name),
            lambda channel: channel.basic_get(name),
            lambda channel: channel.basic_consume(name, print),
            lambda channel: channel.queue_bind(name, "amq.direct", "k"),
        ],
        f"no exchange '{name}' in vhost '/'": [
            lambda channel: channel.exchange_declare(name, passive=True),
            lambda channel: channel.exchange_bind("amq.direct", name),
        ],
    }
    for text, calls in actions.items():
        for call in calls:
            with broker.channel() as channel, pytest.raises(ChannelClosedByBroker) as error:
                call(channel)
            assert closed(error) == (404, f"NOT_FOUND - {text}")
    with broker.channel() as channel:
        assert channel.queue_delete(name).method.message_count == 0
        channel.exchange_delete(name)
        channel.queue_unbind(name, "amq.direct", "k")


def test_a_durable_exchange_goes_with_the_bindings_of_transient_queues(broker: Broker) -> None:
    with broker.channel() as channel:
        channel.exchange_declare("leaving", "fanout", durable=True)
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "leaving")
        channel.exchange_delete("leaving")
        with pytest.raises(ChannelClosedByBroker) as error:
            channel.exchange_declare("leaving", passive=True)
    assert closed(error) == (404, "NOT_FOUND - no exchange 'leaving' in vhost '/'")


def test_names_that_are_reserved(broker: Broker) -> None:
    with broker.channel() as channel, pytest.raises(ChannelClosedByBroker) as error:
        channel.queue_declare("amq.mine")
    assert closed(error) == (403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'")
    with broker.channel() as channel, pytest.raises(ChannelClosedByBroker) as error:
        channel.exchange_delete("amq.direct")
    assert closed(error)[0] == 403
    with broker.channel() as channel, pytest.raises(ChannelClosedByBroker) as error:
        channel.exchange_declare("", "direct")
    assert closed(error) == (403, "ACCESS_REFUSED - operation not permitted on the default exchange")


def test_an_exclusive_queue_is_of_its_connection_and_ends_with_it(broker: Broker, name: str) -> None:
    with broker.channel() as owner:
        owner.queue_declare(name, exclusive=True)
        owner.basic_publish("", name, b"x")
        with broker.channel() as other, pytest.raises(ChannelClosedByBroker) as error:
            other.basic_get(name)
        assert closed(error)[0] == 405
        assert owner.basic_get(name, auto_ack=True)[2] == b"x"
    with broker.channel() as channel, pytest.raises(ChannelClosedByBroker) as error:
        channel.queue_declare(name, passive=True)
    assert closed(error)[0] == 404


def test_a_queue_without_a_name_gets_one(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    assert queue.startswith("amq.gen-")
    channel.queue_bind("", "amq.fanout")
    channel.basic_publish("amq.fanout", "", b"to me")
    assert channel.basic_get("", auto_ack=True)[2] == b"to me"


def test_an_auto_delete_queue_goes_with_its_last_consumer(broker: Broker, name: str) -> None:
    with broker.channel() as channel:
        channel.queue_declare(name, auto_delete=True)
        tag = channel.basic_consume(name, lambda *_: None)
        channel.basic_cancel(tag)

        until(channel, lambda: not broker.has_queue(name))


def test_a_queue_is_deleted_only_if_told_so(broker: Broker, name: str) -> None:
    with broker.channel() as channel:
        channel.queue_declare(name)
        channel.basic_publish("", name, b"x")
    with broker.channel() as channel, pytest.raises(ChannelClosedByBroker) as error:
        channel.queue_delete(name, if_empty=True)
    assert closed(error) == (406, f"PRECONDITION_FAILED - queue '{name}' in vhost '/' not empty")
    with broker.channel() as channel:
        channel.basic_consume(name, lambda *_: None)
        with broker.channel() as other, pytest.raises(ChannelClosedByBroker) as error:
            other.queue_delete(name, if_unused=True)
        assert closed(error) == (406, f"PRECONDITION_FAILED - queue '{name}' in vhost '/' in use")
    with broker.channel() as channel:
        assert channel.queue_delete(name).method.message_count == 1


def test_purging_answers_how_many_there_were(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    for _ in range(3):
        channel.basic_publish("", name, b"x")
    assert channel.queue_purge(name).method.message_count == 3
    assert depth(channel, name) == 0


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers", "x-consistent-hash"])
def test_exchanges_of_every_kind_route(channel: BlockingChannel, name: str, kind: str) -> None:
    channel.exchange_declare(name, kind, auto_delete=True)
    channel.queue_declare(name, auto_delete=True)
    key = {"topic": "a.#", "x-consistent-hash": "1"}.get(kind, "a.b")
    channel.queue_bind(name, name, key, arguments={"x-match": "all", "colour": "red"} if kind == "headers" else None)
    channel.basic_publish(name, "a.b", b"in", pika.BasicProperties(headers={"colour": "red"}))
    if kind not in ("fanout", "x-consistent-hash"):
        channel.basic_publish(name, "b.a", b"out", pika.BasicProperties(headers={"colour": "blue"}))
    assert channel.basic_get(name, auto_ack=True)[2] == b"in"
    assert depth(channel, name) == 0


def test_an_exchange_is_declared_again_with_the_same_properties_only(broker: Broker, name: str) -> None:
    with broker.channel() as channel:
        channel.exchange_declare(name, "topic", durable=True)
        channel.exchange_declare(name, "topic", durable=True)
    for options, text in (
        ({"exchange_type": "direct", "durable": True}, "'type' {}: received 'direct' but current is 'topic'"),
        ({"exchange_type": "topic"}, "'durable' {}: received 'false' but current is 'true'"),
    ):
        with broker.channel() as channel, pytest.raises(ChannelClosedByBroker) as error:
            channel.exchange_declare(name, **options)
        here = f"for exchange '{name}' in vhost '/'"
        assert closed(error) == (406, f"PRECONDITION_FAILED - inequivalent arg {text.format(here)}")


def test_alternate_and_bound_exchanges_and_those_within(broker: Broker, name: str) -> None:
    with broker.channel() as channel:
        channel.exchange_declare(f"{name}-last", "fanout")
        channel.exchange_declare(f"{name}-inner", "fanout", internal=True)
        channel.exchange_declare(name, "direct", arguments={"alternate-exchange": f"{name}-last"})
        channel.queue_declare(name)
        channel.queue_bind(name, f"{name}-last")
        channel.queue_declare(f"{name}-2")
        channel.queue_bind(f"{name}-2", f"{name}-inner")
        channel.exchange_bind(f"{name}-inner", name, "known")
        channel.basic_publish(name, "unknown", b"alternate")
        channel.basic_publish(name, "known", b"bound")
        assert take(channel, name, 1, auto_ack=True)[0][2] == b"alternate"
        channel.cancel()
        assert take(channel, f"{name}-2", 1, auto_ack=True)[0][2] == b"bound"
    with broker.channel() as channel, pytest.raises(ChannelClosedByBroker) as error:
        channel.basic_publish(f"{name}-inner", "", b"x")
        channel.queue_declare(name, passive=True)
    assert closed(error) == (403, f"ACCESS_REFUSED - cannot publish to internal exchange '{name}-inner' in vhost '/'")


def test_a_virtual_host_that_is_not_there(broker: Broker) -> None:
    with pytest.raises(ProbableAccessDeniedError, match=r"\(530\) 'NOT_ALLOWED - vhost nowhere not found'"):
        broker.connect(virtual_host="nowhere")


def test_who_is_not_known_is_not_let_in(broker: Broker) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="Login was refused"):
        broker.connect(credentials=pika.PlainCredentials("guest", "wrong"))
