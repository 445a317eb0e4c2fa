"""The methods of class basic that carry no content, and those of the classes access, channel and confirm."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainstem.broker.errors import QueueBusy
from mainstem.broker.queues import Message, Queue, compile_expression
from mainstem.protocols.amqp.codec.field_table import Table
from mainstem.protocols.amqp.codec.methods import Method
from mainstem.protocols.amqp.errors import (
    access_refused,
    not_allowed,
    not_implemented,
    precondition_failed,
    resource_locked,
)
from mainstem.protocols.amqp.handlers.deliver.consumers import ChannelConsumer, encode_got
from mainstem.protocols.amqp.handlers.deliver.streams import StreamConsumer
from mainstem.protocols.amqp.handlers.methods.queues import find, named
from mainstem.protocols.amqp.handlers.permissions import check_queue
from mainstem.protocols.amqp.handlers.publish.plans import REPLY_TO
from mainstem.protocols.amqp.mapping.arguments import (
    CONSUMER_ANYWHERE,
    CONSUMER_KNOWN,
    SELECTOR,
    check_arguments,
    declared_arguments,
)
from mainstem.protocols.amqp.mapping.words import queue_words

if TYPE_CHECKING:
    from mainstem.protocols.amqp.handlers.channel import Channel

TAG_PREFIX = "amq.ctag-"


def qos(channel: Channel, method: Method) -> None:
    """basic.qos: of consumers to come, or of all of this channel together."""
    if method["prefetch_size"]:
        not_implemented(f"prefetch_size!=0 ({method['prefetch_size']})")
    count = method["prefetch_count"]
    if method["global"]:
        channel.limit_all(count)
    else:
        channel.prefetch = count
        channel.limit_all(0)
    if channel.shared is not None:
        channel.shared.wake()
    else:
        for consumer in channel.consumers.values():
            consumer.adjust()
            consumer.wake()
    channel.reply("basic.qos-ok")


def consume(channel: Channel, method: Method) -> None:
    """basic.consume."""
    tag = method["consumer_tag"]
    if tag in channel.consumers or (tag and tag == channel.reply_tag):
        not_allowed(f"attempt to reuse consumer tag '{tag}'")
    limit = channel.connection.session.settings.consumers_per_channel_max
    if limit and len(channel.consumers) >= limit:
        not_allowed(f"reached maximum ({limit}) of consumers per channel")
    tag = tag or channel.connection.node.new_name(TAG_PREFIX)
    if method["queue"] == REPLY_TO:
        _await_replies(channel, tag, no_ack=method["no_ack"])
    else:
        name = named(channel, method["queue"])
        check_queue(channel.connection, "read", name)
        queue = find(channel, name)
        _attach(channel, queue, tag, method)
    if not method["nowait"]:
        channel.reply("basic.consume-ok", consumer_tag=tag)


def _await_replies(channel: Channel, tag: str, *, no_ack: bool) -> None:
    if not no_ack:
        precondition_failed("reply consumer cannot acknowledge")
    if channel.reply_name is not None:
        precondition_failed("reply consumer already set")
    node = channel.connection.node
    channel.reply_name = node.new_name(f"{REPLY_TO}.")
    channel.reply_tag = tag
    node.reply_channels[channel.reply_name] = channel


def _attach(channel: Channel, queue: Queue, tag: str, method: Method) -> None:
    kind = queue.properties.kind
    words = queue_words(queue.name, channel.connection.host)
    arguments: Table = method["arguments"]
    check_arguments(arguments, words, kind, CONSUMER_KNOWN[kind], CONSUMER_ANYWHERE)
    if kind == "classic" and queue.properties.single_active and method["exclusive"]:
        access_refused(f"{words} in exclusive use")
    if kind != "classic" and channel.prefetch_all:
        not_implemented(f"{words} does not support global qos")
    make: type[ChannelConsumer] = ChannelConsumer
    if kind == "stream":
        if not channel.prefetch:
            precondition_failed(f"consumer prefetch count is not set for stream {words}")
        if method["no_ack"]:
            not_implemented(f"automatic acknowledgement not supported by stream {words}")
        make = StreamConsumer
    priority = arguments.get("x-priority")
    consumer = make(
        channel,
        queue,
        tag,
        prefetch=channel.prefetch,
        no_ack=method["no_ack"],
        exclusive=method["exclusive"] and kind != "stream",  # its consumers take nothing from each other
        priority=0 if priority is None else priority.value,
        arguments=arguments,
        timeout_ms=_timeout_ms(channel, queue, arguments),
    )
    channel.add_consumer(consumer)
    try:
        queue.attach(consumer, _wants(channel, arguments))
    except QueueBusy:
        channel.remove_consumer(tag)
        access_refused(f"{words} in exclusive use")


def _wants(channel: Channel, arguments: Table) -> Callable[[Message], bool] | None:
    """What the consumer's selector says; its names are those of headers, and of properties behind `properties.`."""
    field = arguments.get(SELECTOR)
    if field is None:
        return None
    matches = compile_expression(field.value.decode("utf-8", "replace"))
    envelopes = channel.connection.node.envelopes

    def wants(message: Message) -> bool:
        properties = envelopes.properties_of(message)
        facts = {f"properties.{name}": value for name, value in properties.items() if name != "headers"}
        return matches({**facts, **envelopes.headers_of(message)})

    return wants


def _timeout_ms(channel: Channel, queue: Queue, arguments: Table) -> int:
    """How long a delivery may stay unacknowledged: the consumer says, or its queue, or the broker."""
    field = arguments.get("x-consumer-timeout") or declared_arguments(queue.properties).get("x-consumer-timeout")
    if field is not None:
        timeout_ms: int = field.value
        return timeout_ms
    return channel.connection.session.settings.consumer_timeout_ms


def cancel(channel: Channel, method: Method) -> None:
    """basic.cancel; one that is unknown is answered all the same."""
    tag = method["consumer_tag"]
    consumer = channel.remove_consumer(tag)
    if consumer is not None:
        consumer.queue.detach(consumer)
    elif tag and tag == channel.reply_tag and channel.reply_name is not None:
        channel.connection.node.reply_channels.pop(channel.reply_name, None)
        channel.reply_name, channel.reply_tag = None, ""
    if not method["nowait"]:
        channel.reply("basic.cancel-ok", consumer_tag=tag)


def get(channel: Channel, method: Method) -> None:
    """basic.get: at once if the message is in memory, else when it was read."""
    name = named(channel, method["queue"])
    check_queue(channel.connection, "read", name)
    queue = find(channel, name)
    words = queue_words(queue.name, channel.connection.host)
    if queue.properties.kind == "stream":
        not_implemented(f"basic.get not supported by stream queues {words}")
    if queue.properties.kind == "quorum" and queue.properties.single_active:
        resource_locked(
            f"cannot obtain access to locked {words}. basic.get operations are not supported by quorum queues "
            "with single active consumer"
        )
    no_ack = method["no_ack"]
    session = channel.connection.session
    answered = False
    held = False

    def answer(message: Message | None) -> None:
        nonlocal answered
        answered = True
        if channel.is_ended:
            if message is not None:
                channel.connection.settling.requeue([message], failed=False)
        elif message is None:
            channel.reply("basic.get-empty")
        else:
            _give(channel, queue, message, no_ack=no_ack)
        if held:
            session.release()

    queue.get_one(answer)
    if not answered:
        held = True
        session.hold()


def _give(channel: Channel, queue: Queue, message: Message, *, no_ack: bool) -> None:
    connection = channel.connection
    tag = channel.next_tag
    channel.next_tag += 1
    envelope = connection.node.envelopes.open(message)
    if no_ack:
        connection.settling.settle([message])
    else:
        channel.unacked.add(tag, channel.getter, [message])
        channel.getter.outstanding += 1
    connection.session.say(
        encode_got(channel.number, envelope, message, tag, queue.ready_count, connection.session.payload_bytes_max)
    )


def recover_async(channel: Channel, method: Method) -> None:
    """basic.recover-async."""
    if not method["requeue"]:
        not_implemented("requeue=false")
    channel.carry_out("requeue", channel.unacked.take(channel.unacked.until(0)))


def recover(channel: Channel, method: Method) -> None:
    """basic.recover."""
    recover_async(channel, method)
    channel.connection.pass_ended()
    channel.reply("basic.recover-ok")


def access(channel: Channel, method: Method) -> None:
    """access.request: everybody may everything, as the method no longer means anything."""
    channel.reply("access.request-ok", ticket=1)


def flow(channel: Channel, method: Method) -> None:
    """channel.flow."""
    if not method["active"]:
        not_implemented("active=false")
    channel.reply("channel.flow-ok", active=True)


def nothing(channel: Channel, method: Method) -> None:
    """An answer to what we sent: nothing follows from it."""


def confirm(channel: Channel, method: Method) -> None:
    """confirm.select."""
    if channel.verdicts is not None:
        precondition_failed("cannot switch from tx to confirm mode")
    channel.publisher.is_confirming = True
    if not method["nowait"]:
        channel.reply("confirm.select-ok")


METHODS = {
    "access.request": access,
    "channel.flow": flow,
    "channel.flow-ok": nothing,
    "basic.qos": qos,
    "basic.consume": consume,
    "basic.cancel": cancel,
    "basic.cancel-ok": nothing,
    "basic.get": get,
    "basic.recover-async": recover_async,
    "basic.recover": recover,
    "confirm.select": confirm,
}
