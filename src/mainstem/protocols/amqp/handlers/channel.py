"""One channel: its methods to their handlers, its deliveries and their acknowledgements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from mainstem.broker.queues import Message
from mainstem.broker.queues.delivery.times import DeliveryTimes
from mainstem.protocols.amqp.codec.framing import METHOD, encode_content, encode_frame
from mainstem.protocols.amqp.codec.methods import Method, encode_method
from mainstem.protocols.amqp.errors import AmqpError, ChannelError
from mainstem.protocols.amqp.handlers.calls import call, id_of
from mainstem.protocols.amqp.handlers.deliver.shared_prefetch import SharedPrefetch
from mainstem.protocols.amqp.handlers.deliver.unacknowledged import Unacknowledged, shares
from mainstem.protocols.amqp.handlers.publish.plans import Plan
from mainstem.protocols.amqp.handlers.publish.publishing import Publisher
from mainstem.protocols.amqp.session.machine import OUTPUT_BYTES_MAX

if TYPE_CHECKING:
    from mainstem.protocols.amqp.handlers.connection import AmqpConnection
    from mainstem.protocols.amqp.handlers.deliver.consumers import ChannelConsumer

Acknowledgement: TypeAlias = tuple[str, list[int], list[Message]]
"""What is to be done with deliveries, and their tags."""

REPLIES_BYTES_MAX = 8 << 20
"""Direct replies that may wait to be sent; more are dropped, as they are when nobody listens."""

PUBLISH, ACK, REJECT, NACK = map(id_of, ("basic.publish", "basic.ack", "basic.reject", "basic.nack"))


class Getter:
    """Who was given a message by basic.get: it has no room that could grow."""

    def __init__(self) -> None:
        self.outstanding = 0


class Channel:
    """The broker's side of one channel."""

    def __init__(self, connection: AmqpConnection, number: int) -> None:
        self.connection = connection
        self.number = number
        self.consumers: dict[str, ChannelConsumer] = {}
        self.getter = Getter()
        self.unacked = Unacknowledged()
        self.next_tag = 1
        self.prefetch = 0
        """Of consumers to come."""
        self.shared: SharedPrefetch | None = None
        """The limit of all consumers together."""
        self.outstanding = 0
        """Deliveries to consumers that wait for their acknowledgement."""
        self.last_queue = ""
        """Declared last: meant by an empty name."""
        self.reply_name: str | None = None
        self.reply_tag = ""
        self.publisher = Publisher(self)
        self._meters = connection.node.meters
        self.verdicts: list[Acknowledgement] | None = None
        """In a transaction: what tx.commit will settle, with what is to be done."""
        self.is_ended = False
        self._settled: list[Message] = []
        self._relieved: dict[ChannelConsumer, None] = {}
        self.is_touched = False
        self._times = DeliveryTimes()
        self._cancels: list[str] | None = None
        """Tags of consumers that are to be told of their end later."""

    # Frames (codec.framing.ChannelPort) ------------------------------------------------------------------------------

    def publish(self, method: bytes, properties: bytes, bodies: list[bytes]) -> bool:
        """Messages of one kind."""
        self._meters.publish.requests += len(bodies)
        return self.publish_counted(method, properties, bodies)

    def publish_counted(self, method: bytes, properties: bytes, bodies: list[bytes]) -> bool:
        """The same for messages that some were left of before."""
        try:
            self.publisher.publish(method, properties, bodies)
        except AmqpError as error:
            self.fail(error, PUBLISH)
            return True
        return self.connection.is_to_stop

    def refuse_size(self, body_bytes: int) -> bool:
        """Larger than allowed."""
        limit = self.connection.session.settings.message_bytes_max
        self.fail(ChannelError(406, f"message size {body_bytes} is larger than configured max size {limit}"), PUBLISH)
        return True

    def acknowledge(self, tags: list[int]) -> bool:
        """basic.ack of single deliveries."""
        return self._decide(tags, "settle", ACK)

    def acknowledge_until(self, tag: int) -> bool:
        """basic.ack of all deliveries up to this one."""
        return self._decide_until(tag, "settle", ACK)

    def reject(self, tag: int, bits: int) -> bool:
        """basic.reject."""
        return self._decide([tag], "requeue" if bits & 1 else "reject", REJECT)

    def nack(self, tag: int, bits: int) -> bool:
        """basic.nack."""
        verdict = "requeue" if bits & 2 else "reject"
        return self._decide_until(tag, verdict, NACK) if bits & 1 else self._decide([tag], verdict, NACK)

    # Acknowledgements ------------------------------------------------------------------------------------------------

    def _decide_until(self, tag: int, verdict: str, method: bytes) -> bool:
        return self._decide([tag] if tag and tag not in self.unacked else self.unacked.until(tag), verdict, method)

    def _decide(self, tags: list[int], verdict: str, method: bytes) -> bool:
        messages = self.unacked.take(tags)
        (self._meters.acknowledge if verdict == "settle" else self._meters.reject).requests += len(messages)
        if self.verdicts is not None:
            self.verdicts.append((verdict, tags[: len(messages)], messages))
        else:
            self.carry_out(verdict, messages)
        if len(messages) < len(tags):
            self.fail(ChannelError(406, f"unknown delivery tag {tags[len(messages)]}"), method)
            return True
        return self.connection.is_to_stop

    def carry_out(self, verdict: str, messages: list[Message]) -> None:
        """Do with deliveries what was said."""
        for holder, count in shares(messages):
            holder.outstanding -= count
            if holder is not self.getter:
                self.outstanding -= count
                self._relieved[holder] = None
        if verdict == "settle":
            self._settled += messages
        else:
            self._settle()
            if verdict == "requeue":
                self.connection.settling.requeue(messages, failed=True)
            else:
                self.connection.settling.reject(messages)
        self.touch()

    def touch(self) -> None:
        """There is something to do at the end of the pass."""
        if not self.is_touched:
            self.is_touched = True
            self.connection.touched.append(self)

    def pass_ended(self) -> None:
        """Settle in one go what was acknowledged, and let those deliver who have room now."""
        self.is_touched = False
        if self.is_ended:
            return
        self.publisher.pass_ended()
        self._settle()
        if self._relieved:
            relieved, self._relieved = self._relieved, {}
            if self.shared is not None:
                self.shared.wake()
                return
            for consumer in relieved:
                if consumer.prefetch or not consumer.room:
                    consumer.adjust()
                    consumer.wake()

    def _settle(self) -> None:
        if self._settled:
            settled, self._settled = self._settled, []
            self.connection.settling.settle(settled)

    # Deliveries ------------------------------------------------------------------------------------------------------

    def delivered(self, consumer: ChannelConsumer, count: int) -> None:
        """`count` more deliveries wait for their acknowledgement."""
        self.outstanding += count
        self._meters.deliver.requests += count
        self._times.add(self.next_tag - count, self.connection.now)
        if self.shared is not None and consumer.tag in self.consumers:
            self.shared.delivered(consumer)

    @property
    def prefetch_all(self) -> int:
        """The limit of all consumers together; 0: none."""
        return 0 if self.shared is None else self.shared.limit

    def limit_all(self, count: int) -> None:
        """Set that limit; 0: none."""
        self.shared = SharedPrefetch(self, count) if count else None

    def room_left(self, consumer: ChannelConsumer) -> int | None:
        """What this consumer may have of the limit of all; None: there is none."""
        return None if self.shared is None else self.shared.room_of(consumer)

    def add_consumer(self, consumer: ChannelConsumer) -> None:
        """There is one more."""
        self.consumers[consumer.tag] = consumer
        if self.shared is not None:
            self.shared.add(consumer)
        consumer.adjust()

    def remove_consumer(self, tag: str) -> ChannelConsumer | None:
        """There is one less; None: there was none of this tag."""
        consumer = self.consumers.pop(tag, None)
        if consumer is not None and self.shared is not None:
            self.shared.remove(consumer)
        return consumer

    def output_room(self) -> int:
        """Bytes that may be delivered before the output is full."""
        return OUTPUT_BYTES_MAX - self.connection.session.output_bytes

    def consumer_cancelled(self, consumer: ChannelConsumer) -> None:
        """Its queue is gone; a client that understands is told."""
        if self.remove_consumer(consumer.tag) is None:
            return
        if "consumer_cancel_notify" not in self.connection.session.capabilities:
            return
        if self._cancels is None:
            self._tell_cancelled(consumer.tag)
        else:
            self._cancels.append(consumer.tag)

    def hold_cancels(self) -> None:
        """This channel is deleting a queue: the answer to that comes before its own consumers are told."""
        self._cancels = []

    def release_cancels(self) -> None:
        """The deletion is answered."""
        cancels, self._cancels = self._cancels, None
        for tag in cancels or ():
            self._tell_cancelled(tag)

    def _tell_cancelled(self, tag: str) -> None:
        self.reply("basic.cancel", consumer_tag=tag, nowait=True)

    def deliver_reply(self, plan: Plan, body: bytes) -> None:
        """A direct reply: to the one who waits for it, past every queue."""
        session = self.connection.session
        if session.output_bytes > REPLIES_BYTES_MAX or session.is_output_paused:
            return
        method = encode_method(
            "basic.deliver",
            consumer_tag=self.reply_tag,
            delivery_tag=self.next_tag,
            exchange=plan.exchange,
            routing_key=plan.routing_key,
        )
        self.next_tag += 1
        content = encode_content(self.number, plan.properties, body, session.payload_bytes_max)
        session.say(encode_frame(METHOD, self.number, method) + content)

    def time_passed(self, now: float) -> None:
        """Close the channel when a delivery was not acknowledged in time."""
        oldest = self.unacked.oldest()
        seconds = self._times.waiting(oldest, now)
        if seconds:
            holder: Any = self.unacked[oldest].holder
            settings = self.connection.session.settings
            timeout_ms = settings.consumer_timeout_ms if isinstance(holder, Getter) else holder.timeout_ms
            if timeout_ms and seconds * 1000 > timeout_ms:
                self.fail(_timed_out(self.number, timeout_ms), b"")

    # Methods ---------------------------------------------------------------------------------------------------------

    def method_received(self, method: Method) -> None:
        """Deal with a method. Raises AmqpError."""
        self.connection.pass_ended()
        self._meters.count(method.name)
        call(self, method)

    def reply(self, name: str, **arguments: Any) -> None:
        """Send a method on this channel."""
        if not self.is_ended:
            self.connection.session.send(self.number, name, **arguments)

    def fail(self, error: AmqpError, payload: bytes) -> None:
        """Close the channel, or the connection."""
        if not self.is_ended:
            self.connection.session.fail(error, self.number, payload)

    def close(self, done: Callable[[], None]) -> None:
        """Give everything back; called back when all that it acknowledged is durable."""
        self.connection.forget(self)
        self.end()
        self.connection.when_durable(done)

    def end(self) -> None:
        """Give everything back."""
        if self.is_ended:
            return
        self._settle()
        self.is_ended = True
        if self.reply_name is not None:
            self.connection.node.reply_channels.pop(self.reply_name, None)
        consumers, self.consumers = self.consumers, {}
        for consumer in consumers.values():
            consumer.queue.detach(consumer)
        for _, tags, messages in self.verdicts or ():
            self.unacked.restore(zip(tags, messages, strict=True))
        given = self.unacked.take_all()
        if given:
            self.connection.settling.requeue(given, failed=True, error="its channel ended")


def _timed_out(channel: int, timeout_ms: int) -> ChannelError:
    """What the client is told then, in RabbitMQ's words."""
    return ChannelError(
        406,
        f"delivery acknowledgement on channel {channel} timed out. Timeout value used: {timeout_ms} ms. "
        "This timeout value can be configured, see consumers doc guide to learn more",
    )
