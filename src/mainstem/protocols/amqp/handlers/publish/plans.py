"""What becomes of messages: found out from their basic.publish and their properties, which most publishers repeat.

So it is kept as a plan until a queue or a route changes. Where each message has properties of its own, what follows from the
basic.publish alone is kept, as an address, and the rest is read from the encoded properties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mainstem.broker.errors import UnknownExchange
from mainstem.broker.queues import Queue
from mainstem.broker.routes import Delayed
from mainstem.broker.users.callers import IMPERSONATOR
from mainstem.model.header_names import KEY_HEADER
from mainstem.protocols.amqp.codec.methods import decode_method
from mainstem.protocols.amqp.codec.properties import Properties, decode_properties, encode_properties
from mainstem.protocols.amqp.errors import access_refused, not_found, not_implemented, precondition_failed
from mainstem.protocols.amqp.handlers.permissions import check_exchange, check_key
from mainstem.protocols.amqp.mapping.arguments import EXPIRY_MS_MAX
from mainstem.protocols.amqp.mapping.envelope import encode_address, further_keys, seal
from mainstem.protocols.amqp.mapping.quick_seal import AVAILABLE, QuickSeal
from mainstem.protocols.amqp.mapping.values import plain_table, readable
from mainstem.protocols.amqp.mapping.words import exchange_words

if TYPE_CHECKING:
    from mainstem.protocols.amqp.handlers.channel import Channel

REPLY_TO = "amq.rabbitmq.reply-to"
PLANS_MAX = 2_048
PLAN_BYTES_MAX = 1_024
"""Longer properties are not kept: they hardly come again."""
PERSISTENT = 2


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


class Address(NamedTuple):
    """What follows from a basic.publish, whatever the properties."""

    exchange: str
    routing_key: str
    mandatory: bool
    queues: tuple[Queue, ...]
    is_lasting: bool
    """Whether one of the queues is."""
    entries: bytes
    """Of the block of record headers: those that say how it was addressed."""
    entry_count: int
    content: bytes
    """What stands before the properties in the last of them."""


class Planner:
    """Makes and keeps the plans of one connection."""

    def __init__(self) -> None:
        self._plans: dict[tuple[bytes, bytes], Plan] = {}
        self._addresses: dict[bytes, Address] = {}
        self._generation = -1
        self._quick = QuickSeal()

    def find(self, channel: Channel, method: bytes, properties: bytes) -> Plan:
        """The plan of messages with this basic.publish and these properties. Raises AmqpError."""
        connection = channel.connection
        generation = connection.queues.generation + connection.router.generation
        if self._generation != generation:
            self._generation = generation
            self._plans.clear()
            self._addresses.clear()
        known = self._plans.get((method, properties))
        if known is not None:
            return known
        plan = self._make_quickly(method, properties)
        if plan is not None:
            self._keep(method, properties, plan)
            return plan
        return self._make(channel, method, properties)

    def _keep(self, method: bytes, properties: bytes, plan: Plan) -> None:
        if len(properties) <= PLAN_BYTES_MAX:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            self._plans[method, properties] = plan

    def _make_quickly(self, method: bytes, properties: bytes) -> Plan | None:
        address = self._addresses.get(method)
        if address is None:
            return None
        headers = self._quick.seal(address.entries, address.entry_count, address.content, properties)
        if headers is None:
            return None
        plan = Plan(address.exchange, address.routing_key, address.mandatory, properties)
        plan.queues = address.queues
        plan.is_plain = bool(address.queues)
        plan.is_single = len(address.queues) == 1
        plan.headers = headers
        plan.priority = self._quick.priority
        plan.must_last = address.is_lasting and self._quick.delivery_mode == PERSISTENT
        return plan

    def _make(self, channel: Channel, method: bytes, properties: bytes) -> Plan:
        connection = channel.connection
        arguments = decode_method(method)
        if arguments["immediate"]:
            not_implemented("immediate=true")
        exchange: str = arguments["exchange"]
        plan = Plan(exchange, arguments["routing_key"], arguments["mandatory"], properties)
        check_exchange(connection, "write", exchange)
        found = connection.router.find(exchange)
        if exchange:
            if found is None:
                not_found(f"no {exchange_words(exchange, connection.host)}")
            if found.internal:
                access_refused(f"cannot publish to internal {exchange_words(exchange, connection.host)}")
        decoded = decode_properties(properties)
        may_be_kept = _take_properties(channel, plan, decoded)
        for key in plan.routing_keys:
            check_key(connection, "write", exchange, key)
        may_be_kept &= _take_routes(channel, plan, decoded)
        plan.headers = seal(exchange, plan.routing_key, plan.properties, decoded, plan.ttl_ms)
        if may_be_kept:
            self._keep(method, properties, plan)
            if AVAILABLE and len(plan.routing_keys) == 1 and not plan.delayed:
                self._keep_address(method, plan)
        return plan

    def _keep_address(self, method: bytes, plan: Plan) -> None:
        if len(self._addresses) >= PLANS_MAX:
            self._addresses.clear()
        entries, count, content = encode_address(plan.exchange, plan.routing_key)
        is_lasting = any(queue.properties.is_lasting for queue in plan.queues)
        self._addresses[method] = Address(
            plan.exchange, plan.routing_key, plan.mandatory, plan.queues, is_lasting, entries, count, content
        )


def _take_properties(channel: Channel, plan: Plan, decoded: Properties) -> bool:
    """What the broker itself looks at; answers whether it is the same for every channel."""
    user = decoded.get("user_id")
    if user is not None and user != channel.connection.user and IMPERSONATOR not in channel.connection.caller.tags:
        precondition_failed(f"user_id property set to '{user}' but authenticated user was '{channel.connection.user}'")
    if "expiration" in decoded:
        plan.ttl_ms = expiration_ms(decoded["expiration"])
    plan.priority = decoded.get("priority", 0)
    plan.must_last = decoded.get("delivery_mode") == PERSISTENT
    headers = decoded.get("headers")
    if headers:
        for name in ("CC", "BCC"):
            field = headers.get(name)
            if field is not None and field.type != "array":
                precondition_failed(f'invalid message: {{unacceptable_type_in_header,"{name}",{field.type}}}')
            plan.routing_keys += tuple(further_keys(headers, name))
        if KEY_HEADER in headers:
            plan.key = readable(headers[KEY_HEADER])
        if headers.pop("BCC", None) is not None:
            plan.properties = encode_properties(decoded)
    if decoded.get("reply_to") == REPLY_TO:
        if channel.reply_name is None:
            precondition_failed("fast reply consumer does not exist")
        decoded["reply_to"] = channel.reply_name
        plan.properties = encode_properties(decoded)
        return False
    return True


def _take_routes(channel: Channel, plan: Plan, decoded: Properties) -> bool:
    """Where it goes; answers whether that is so for every message with this key."""
    connection = channel.connection
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
