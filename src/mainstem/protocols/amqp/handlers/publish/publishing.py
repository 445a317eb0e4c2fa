"""basic.publish and its confirms.

A confirm with `multiple` never covers a message that is not durable: those that need not wait for the disk are confirmed one by
one while earlier ones do.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from mainstem.broker.queues import HOLD, REFUSED, TRANSACTION_BYTES_MAX, Put
from mainstem.broker.schedules import Target
from mainstem.protocols.amqp.codec.framing import METHOD, encode_content, encode_frame
from mainstem.protocols.amqp.codec.methods import encode_method
from mainstem.protocols.amqp.errors import NO_ROUTE, precondition_failed
from mainstem.protocols.amqp.handlers.publish.plans import Plan

if TYPE_CHECKING:
    from mainstem.protocols.amqp.handlers.channel import Channel

_CONFIRM = struct.Struct(">BHIHHQBB")


class Publisher:
    """One channel's side of publishing."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._connection = channel.connection
        self._outbox = channel.connection.outbox
        self.is_confirming = False
        self.sequence = 0
        """Number of the last message, where they are confirmed."""
        self._stored = 0
        """All up to here are confirmed, or refused."""
        self._lasting = 0
        """The last one that waits for the disk."""
        self._asked = 0
        """Up to here the disk is asked."""
        self._early: list[int] = []
        """Of this pass: those that need not wait."""
        self.transaction: list[tuple[Plan, bytes]] | None = None
        """What tx.commit will publish."""
        self.transaction_bytes = 0

    @property
    def unconfirmed(self) -> int:
        """How many messages wait for their confirm."""
        return self.sequence - self._stored if self.is_confirming else 0

    def publish(self, method: bytes, properties: bytes, bodies: list[bytes]) -> None:
        """Messages that have their basic.publish and their properties in common. Raises AmqpError."""
        plan = self._connection.planner.find(self._channel, method, properties)
        if self.transaction is not None:
            for body in bodies:
                self._remember(plan, body)
            return
        connection = self._connection
        if self._outbox.is_full:
            connection.wait_for_relief(plan.queues)
        elif plan.is_single:
            outcome = self._outbox.put_all(plan.queues[0], plan.headers, bodies, plan.key, plan.ttl_ms, plan.priority)
            if outcome != REFUSED:
                self._taken(plan, bodies, len(bodies))
                if outcome == HOLD:
                    connection.wait_for_relief(plan.queues)
                return
        done = 0
        while done < len(bodies):
            if connection.is_to_stop:
                # A run of messages for many queues is more work than one pass may be.
                connection.publish_later(self, method, properties, bodies[done:])
                return
            done += self._publish_some(plan, bodies, done)

    def publish_rest(self, method: bytes, properties: bytes, bodies: list[bytes]) -> None:
        """Go on with messages that were left for later."""
        if not self._channel.is_ended:
            self._channel.publish_counted(method, properties, bodies)

    def _publish_some(self, plan: Plan, bodies: list[bytes], first: int) -> int:
        """Publish from there on, one message at least; answers how many."""
        if plan.is_plain and not plan.is_single:
            outbox = self._outbox
            count = outbox.put_fan(plan.queues, plan.headers, bodies, first, plan.key, plan.ttl_ms, plan.priority)
            if count:
                self._taken(plan, bodies[first : first + count], count)
                if outbox.intake.is_pressed:
                    self._connection.wait_for_relief(plan.queues)
                return count
        self._publish_one(plan, bodies[first])
        return 1

    def _taken(self, plan: Plan, bodies: list[bytes], count: int) -> None:
        self._connection.published(sum(map(len, bodies)) + len(plan.headers) * count, self.is_confirming)
        if self.is_confirming:
            self._count(plan, count)

    def _publish_one(self, plan: Plan, body: bytes) -> None:
        self._connection.published(len(body) + len(plan.headers), self.is_confirming)
        if plan.is_plain:
            outcome = self._outbox.put(plan.queues, plan.headers, body, plan.key, plan.ttl_ms, plan.priority)
        else:
            outcome = self._publish_specially(plan, body)
        if self.is_confirming:
            if outcome == REFUSED:
                self.sequence += 1
                self._refuse(self.sequence)
            else:
                self._count(plan, 1)
        if outcome == HOLD or self._outbox.intake.is_pressed:  # what is kept for later is pressing, too
            self._connection.wait_for_relief(plan.queues)

    def _count(self, plan: Plan, count: int) -> None:
        """`count` more messages wait for their confirm."""
        first = self.sequence + 1
        self.sequence += count
        if plan.must_last:
            self._lasting = self.sequence
        else:
            self._early.extend(range(first, first + count))
        self._channel.touch()

    # Special ways ----------------------------------------------------------------------------------------------------

    def _publish_specially(self, plan: Plan, body: bytes) -> int:
        outcome = 0
        if plan.reply is not None:
            plan.reply.deliver_reply(plan, body)
            return outcome
        if plan.delayed:
            self.delay(plan, body)
        if plan.queues:
            outcome = self._outbox.put(
                plan.queues, plan.headers, body, key=plan.key, ttl_ms=plan.ttl_ms, priority=plan.priority
            )
        elif plan.mandatory and not plan.delayed:
            self.give_back(plan, body)
        return outcome

    def delay(self, plan: Plan, body: bytes) -> None:
        """Hand it to the schedule: an exchange keeps it for a while."""
        broker = self._connection.node.broker
        now_ms = broker.clock.now_ms()
        for exchange, delay_ms in plan.delayed:
            broker.schedules.schedule(
                Target(self._connection.namespace, exchange, plan.routing_keys),
                plan.headers,
                body,
                key=plan.key,
                due_ms=now_ms + delay_ms,
                ttl_ms=plan.ttl_ms,
                priority=plan.priority,
            )

    def give_back(self, plan: Plan, body: bytes) -> None:
        """It must reach a queue and does not: basic.return."""
        number = self._channel.number
        method = encode_method(
            "basic.return",
            reply_code=NO_ROUTE,
            reply_text="NO_ROUTE",
            exchange=plan.exchange,
            routing_key=plan.routing_key,
        )
        content = encode_content(number, plan.properties, body, self._connection.session.payload_bytes_max)
        self._connection.session.say(encode_frame(METHOD, number, method) + content)

    # Confirms --------------------------------------------------------------------------------------------------------

    def pass_ended(self) -> None:
        """Ask for the disk, once for all of a pass; confirm what need not wait for it."""
        if self._lasting > self._asked:
            self._asked = self._lasting
            self._connection.owed += 1
            self._outbox.when_durable(self._confirm, self._lasting)
        early, self._early = self._early, []
        if not early:
            return
        if self._asked <= self._stored:
            self._stored = early[-1]
            self._say(0x50, early[-1], 1)
        else:
            number = self._channel.number
            self._connection.session.say(
                b"".join([_CONFIRM.pack(METHOD, number, 13, 60, 0x50, tag, 0, 0xCE) for tag in early])
            )

    def _confirm(self, sequence: int, error: BaseException | None) -> None:
        self._connection.owed -= 1
        if self._channel.is_ended:
            return
        self._stored = sequence
        self._say(0x50 if error is None else 0x78, sequence, 1)

    def _refuse(self, sequence: int) -> None:
        self._say(0x78, sequence, 0)

    def _say(self, method: int, sequence: int, bits: int) -> None:
        self._connection.session.say(_CONFIRM.pack(METHOD, self._channel.number, 13, 60, method, sequence, bits, 0xCE))

    # Transactions ----------------------------------------------------------------------------------------------------

    def _remember(self, plan: Plan, body: bytes) -> None:
        assert self.transaction is not None
        self.transaction.append((plan, body))
        self.transaction_bytes += len(plan.headers) + len(body)
        if self.transaction_bytes > TRANSACTION_BYTES_MAX:
            precondition_failed(f"a transaction publishes more than {TRANSACTION_BYTES_MAX} bytes")


def puts_of(transaction: list[tuple[Plan, bytes]]) -> list[Put]:
    """What goes to queues."""
    return [
        Put(plan.queues, plan.headers, body, plan.key, plan.ttl_ms, plan.priority)
        for plan, body in transaction
        if plan.queues
    ]
