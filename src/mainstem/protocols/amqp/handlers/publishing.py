"""basic.publish and its confirms.

What to do with a message follows from its basic.publish and its properties, which most publishers repeat: so it is found out
once and kept as a plan until a queue or a route changes. A confirm with `multiple` never covers a message that is not
durable: those that need not wait for the disk are confirmed one by one while earlier ones do.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from mainstem.broker.errors import UnknownExchange
from mainstem.broker.queues import HOLD, REFUSED, Put, Queue
from mainstem.broker.routes import Delayed
from mainstem.coordination.scheduled_record import Target
from mainstem.protocols.amqp.codec.framing import METHOD, encode_content, encode_frame
from mainstem.protocols.amqp.codec.methods import decode_method, encode_method
from mainstem.protocols.amqp.codec.properties import Properties, decode_properties, encode_properties
from mainstem.protocols.amqp.errors import NO_ROUTE, access_refused, not_found, not_implemented, precondition_failed
from mainstem.protocols.amqp.handlers.permissions import check_exchange, check_key
from mainstem.protocols.amqp.mapping.arguments import EXPIRY_MS_MAX
from mainstem.protocols.amqp.mapping.envelope import KEY_HEADER, further_keys, seal
from mainstem.protocols.amqp.mapping.values import plain_table, readable
from mainstem.protocols.amqp.mapping.words import exchange_words

if TYPE_CHECKING:
    from mainstem.protocols.amqp.handlers.channel import Channel

REPLY_TO = "amq.rabbitmq.reply-to"
PLANS_MAX = 2_048
PLAN_BYTES_MAX = 1_024
"""Longer properties are not kept: they hardly come again."""
PERSISTENT = 2

_CONFIRM = struct.Struct(">BHIHHQBB")


class Plan:
    """What becomes of messages with this basic.publish and these properties."""

    __slots__ = (
        "delayed",
        "exchange",
        "headers",
        "is_plain",
        "is_single",
        "key",
        "mandatory",
        "must_last",
        "priority",
        "properties",
        "queues",
        "reply",
        "routing_key",
        "routing_keys",
        "ttl_ms",
    )

    def __init__(self, exchange: str, routing_key: str, mandatory: bool, properties: bytes) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.routing_keys: tuple[str, ...] = (routing_key,)
        self.mandatory = mandatory
        self.properties = properties
        self.queues: tuple[Queue, ...] = ()
        self.delayed: tuple[Delayed, ...] = ()
        self.headers = b""
        self.key: bytes | None = None
        self.ttl_ms = -1
        self.priority = 0
        self.must_last = False
        """Whether a confirm waits for the disk."""
        self.reply: Channel | None = None
        """Who awaits it as a direct reply."""
        self.is_plain = False
        """Whether it goes to queues, and nowhere else."""
        self.is_single = False
        """Whether that is one queue."""


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
        plan = self._find_plan(method, properties)
        if plan.is_single and self.transaction is None:
            outcome = self._outbox.put_all(plan.queues[0], plan.headers, bodies, plan.key, plan.ttl_ms, plan.priority)
            if outcome != REFUSED:
                self._connection.published_bytes += sum(map(len, bodies)) + len(plan.headers) * len(bodies)
                if self.is_confirming:
                    self._count(plan, len(bodies))
                if outcome == HOLD:
                    self._connection.wait_for_relief()
                return
        for body in bodies:
            if self.transaction is not None:
                self._remember(plan, body)
            else:
                self._publish_one(plan, body)

    def _publish_one(self, plan: Plan, body: bytes) -> None:
        self._connection.published_bytes += len(body) + len(plan.headers)
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
        if outcome and (outcome == HOLD or self._outbox.is_full):
            self._connection.wait_for_relief()

    def _count(self, plan: Plan, count: int) -> None:
        """So many more are to be confirmed."""
        first = self.sequence + 1
        self.sequence += count
        if plan.must_last:
            self._lasting = self.sequence
        else:
            self._early.extend(range(first, first + count))
        self._channel.touch()

    # Plans -----------------------------------------------------------------------------------------------------------

    def _find_plan(self, method: bytes, properties: bytes) -> Plan:
        connection = self._connection
        generation = connection.queues.generation + connection.router.generation
        if connection.plans_generation != generation:
            connection.plans_generation = generation
            connection.plans.clear()
        return connection.plans.get((method, properties)) or self._make_plan(method, properties)

    def _make_plan(self, method: bytes, properties: bytes) -> Plan:
        arguments = decode_method(method)
        if arguments["immediate"]:
            not_implemented("immediate=true")
        exchange: str = arguments["exchange"]
        plan = Plan(exchange, arguments["routing_key"], arguments["mandatory"], properties)
        check_exchange(self._connection, "write", exchange)
        found = self._connection.router.find(exchange)
        if exchange:
            if found is None:
                not_found(f"no {exchange_words(exchange, self._connection.host)}")
            if found.internal:
                access_refused(f"cannot publish to internal {exchange_words(exchange, self._connection.host)}")
        decoded = decode_properties(properties)
        may_be_kept = self._take_properties(plan, decoded)
        for key in plan.routing_keys:
            check_key(self._connection, "write", exchange, key)
        may_be_kept &= self._take_routes(plan, decoded)
        plan.headers = seal(exchange, plan.routing_key, plan.properties, decoded, plan.ttl_ms)
        if may_be_kept and len(properties) <= PLAN_BYTES_MAX:
            plans = self._connection.plans
            if len(plans) >= PLANS_MAX:
                plans.clear()
            plans[method, properties] = plan
        return plan

    def _take_properties(self, plan: Plan, decoded: Properties) -> bool:
        """What the broker itself looks at; answers whether it is the same for every channel."""
        user = decoded.get("user_id")
        if user is not None and user != self._connection.user:
            precondition_failed(
                f"user_id property set to '{user}' but authenticated user was '{self._connection.user}'"
            )
        if "expiration" in decoded:
            plan.ttl_ms = expiration_ms(decoded["expiration"])
        plan.priority = decoded.get("priority", 0)
        plan.must_last = decoded.get("delivery_mode") == PERSISTENT
        headers = decoded.get("headers")
        if headers:
            for name in ("CC", "BCC"):
                field = headers.get(name)
                if field is not None and (
                    field.type != "array" or any(entry.type != "longstr" for entry in field.value)
                ):
                    precondition_failed(f'invalid message: {{unacceptable_type_in_header,<<"{name}">>}}')
                plan.routing_keys += tuple(further_keys(headers, name))
            if KEY_HEADER in headers:
                plan.key = readable(headers[KEY_HEADER])
            if headers.pop("BCC", None) is not None:
                plan.properties = encode_properties(decoded)
        if decoded.get("reply_to") == REPLY_TO:
            if self._channel.reply_name is None:
                precondition_failed("fast reply consumer does not exist")
            decoded["reply_to"] = self._channel.reply_name
            plan.properties = encode_properties(decoded)
            return False
        return True

    def _take_routes(self, plan: Plan, decoded: Properties) -> bool:
        """Where it goes; answers whether that is so for every message with this key."""
        connection = self._connection
        exchange, keys = plan.exchange, plan.routing_keys
        if not exchange and plan.routing_key.startswith(REPLY_TO):
            plan.reply = connection.node.reply_channels.get(plan.routing_key)
            if plan.reply is not None:
                return False

        def headers() -> dict[str, object]:
            return plain_table(decoded.get("headers", {}))

        try:
            if len(keys) == 1:
                routed = connection.router.route(exchange, keys[0], headers, lambda: decoded)
            else:
                routed = connection.router.route_all(exchange, keys, headers, lambda: decoded)
        except UnknownExchange:
            not_found(f"no {exchange_words(exchange, connection.host)}")
        found = [connection.queues.find(connection.namespace, name) for name in routed.queues]
        plan.queues = tuple([queue for queue in found if queue is not None])
        plan.delayed = routed.delayed
        plan.is_plain = bool(plan.queues) and not plan.delayed
        plan.is_single = plan.is_plain and len(plan.queues) == 1
        plan.must_last = plan.must_last and (
            bool(plan.delayed) or any(queue.properties.is_lasting for queue in plan.queues)
        )
        return routed.cacheable

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


TRANSACTION_BYTES_MAX = 24 << 20
"""What one tx.commit may publish: it is one commit, and is kept in memory until then."""


def puts_of(transaction: list[tuple[Plan, bytes]]) -> list[Put]:
    """What goes to queues."""
    return [
        Put(plan.queues, plan.headers, body, plan.key, plan.ttl_ms, plan.priority)
        for plan, body in transaction
        if plan.queues
    ]


def expiration_ms(text: str) -> int:
    """The time to live that a message names. Raises ChannelError."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    length = len(digits) - len(digits.lstrip("0123456789"))
    if not length:
        precondition_failed(f"invalid expiration '{text}': no_integer")
    if length < len(digits):
        precondition_failed(f"invalid expiration '{text}': {{leftover_string,\"{digits[length:]}\"}}")
    value = int(text) if len(digits) < 20 else EXPIRY_MS_MAX + 1
    if value < 0:
        precondition_failed(f"invalid expiration '{text}': {{value_negative,{value}}}")
    if value > EXPIRY_MS_MAX:
        precondition_failed(f"invalid expiration '{text}': {{value_too_large,{value}}}")
    return value
