"""SEND: what becomes of a message is found out from its headers, which most publishers repeat, and kept as a plan until a queue
or a route changes.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from mainstem.broker.envelopes import Address
from mainstem.broker.errors import UnknownExchange
from mainstem.broker.queues import HOLD, REFUSED, Put, Queue
from mainstem.broker.routes import Delayed
from mainstem.broker.schedules import Target
from mainstem.broker.users.callers import IMPERSONATOR
from mainstem.protocols.stomp.codec.frames import Head
from mainstem.protocols.stomp.errors import StompError, access_refused, not_found, precondition_failed
from mainstem.protocols.stomp.handlers import endpoints
from mainstem.protocols.stomp.handlers.permissions import check_exchange, check_key
from mainstem.protocols.stomp.handlers.subscription import Subscription, consumer_tag
from mainstem.protocols.stomp.mapping.declarations import read_wish
from mainstem.protocols.stomp.mapping.destinations import TEMP_PREFIX, Destination, parse_destination
from mainstem.protocols.stomp.mapping.properties import FOR_THE_FRAME, read_properties
from mainstem.protocols.stomp.mapping.words import exchange_words

if TYPE_CHECKING:
    from mainstem.protocols.stomp.handlers.connection import StompConnection

PLANS_MAX = 1_024
Key: TypeAlias = "tuple[tuple[str, str], ...]"


class Plan:
    """What becomes of messages with these headers."""

    __slots__ = ("delayed", "headers", "key", "priority", "queues", "routing_keys", "ttl_ms")

    def __init__(self, routing_keys: tuple[str, ...], queues: Sequence[Queue], delayed: Sequence[Delayed]) -> None:
        self.routing_keys = routing_keys
        self.queues = queues
        self.delayed = delayed
        self.headers = b""
        self.key: bytes | None = None
        self.ttl_ms = -1
        self.priority = 0


class Planner:
    """Keeps the plans of one connection: by the head itself, which stands for equal bytes, and by what it says."""

    def __init__(self) -> None:
        self._by_head: dict[Head, Plan] = {}
        self._by_key: dict[Key, Plan] = {}
        self._generation = -1
        self.declared: set[str] = set()
        """Queues that this connection has declared by sending to them."""

    def find(self, connection: StompConnection, head: Head) -> Plan | None:
        """The plan of messages with this head, if it is known."""
        generation = connection.queues.generation + connection.router.generation
        if self._generation != generation:
            self._generation = generation
            self._by_head.clear()
            self._by_key.clear()
        known = self._by_head.get(head)
        if known is None:
            known = self._by_key.get(_key(head))
            if known is not None:
                self._by_head[head] = known
        if len(self._by_head) > PLANS_MAX:
            self._by_head.clear()
        return known

    def keep(self, head: Head, plan: Plan) -> None:
        """It is the same for every message with these headers."""
        if len(self._by_key) >= PLANS_MAX:
            self._by_key.clear()
        self._by_key[_key(head)] = plan


def _key(head: Head) -> Key:
    return tuple([entry for entry in head.headers.items() if entry[0] not in FOR_THE_FRAME])


def send(connection: StompConnection, head: Head, body: bytes) -> Coroutine[Any, Any, None] | None:
    """SEND; one that needs a queue that is not there yet waits for it."""
    if connection.outbox.is_full:
        connection.wait_for_relief(())
        connection.leave_for_later(head, body)
        return None
    plan = connection.planner.find(connection, head)
    if plan is None:
        destination = destination_of(head)
        if _needs_queue(connection, destination, head):
            return _send_later(connection, head, body, destination)
        plan = _make(connection, head, destination, head.headers.get("reply-to"))
    _take(connection, plan, head, body)
    return None


def destination_of(head: Head) -> Destination:
    """Where a frame is for. Raises StompError."""
    text = head.headers.get("destination")
    if text is None:
        raise StompError("Missing destination", f"{head.command} must include a 'destination' header\n")
    return parse_destination(text)


def _needs_queue(connection: StompConnection, destination: Destination, head: Head) -> bool:
    if head.headers.get("reply-to", "").startswith(TEMP_PREFIX):
        return True
    if destination.kind != "queue":
        return False
    is_there = connection.queues.find(connection.namespace, destination.name) is not None
    return not (is_there and destination.name in connection.planner.declared)


async def _send_later(connection: StompConnection, head: Head, body: bytes, destination: Destination) -> None:
    if destination.kind == "queue":
        await endpoints.declare(connection, destination.name, read_wish(head.headers, durable=True))
        connection.planner.declared.add(destination.name)
    reply_to = head.headers.get("reply-to")
    if reply_to is not None and reply_to.startswith(TEMP_PREFIX):
        reply_to = await _await_replies(connection, reply_to)
    _take(connection, _make(connection, head, destination, reply_to), head, body)


async def _await_replies(connection: StompConnection, reply_to: str) -> str:
    """Consume the queue behind a /temp-queue; answers the queue's name, to which replies go."""
    destination = parse_destination(reply_to)
    queue, is_new = await endpoints.reply_queue(connection, destination.name)
    if is_new:
        subscription = Subscription(connection, queue, consumer_tag(reply_to), reply_to, "auto", destination=reply_to)
        connection.subscriptions[subscription.tag] = subscription
        queue.attach(subscription)
        subscription.adjust()
    return queue.name


def _make(connection: StompConnection, head: Head, destination: Destination, reply_to: str | None) -> Plan:
    if destination.kind == "temp_queue":
        raise StompError(
            "Invalid destination", f"'{head.headers['destination']}' is not a valid destination for 'SEND'\n"
        )
    exchange, routing_key = destination.exchange, destination.routing_key
    check_exchange(connection, "write", exchange)
    found = connection.router.find(exchange)
    if exchange and found is None:
        not_found(f"no {exchange_words(exchange, connection.host)}")
    if found is not None and found.internal:
        access_refused(f"cannot publish to internal {exchange_words(exchange, connection.host)}")
    check_key(connection, "write", exchange, routing_key)
    properties = read_properties(head.headers)
    _check_user(connection, properties)
    if reply_to is not None:
        properties["reply_to"] = reply_to
    sealed = connection.node.dialect.seal(Address(exchange, (routing_key,)), properties)
    try:
        routed = connection.router.route(exchange, routing_key, lambda: sealed.plain_headers, lambda: properties)
    except UnknownExchange:
        not_found(f"no {exchange_words(exchange, connection.host)}")
    queues = [connection.queues.find(connection.namespace, name) for name in routed.queues]
    plan = Plan(sealed.routing_keys, tuple([queue for queue in queues if queue is not None]), routed.delayed)
    plan.headers, plan.key, plan.ttl_ms, plan.priority = sealed.headers, sealed.key, sealed.ttl_ms, sealed.priority
    is_for_a_temp_queue = head.headers.get("reply-to", "").startswith(TEMP_PREFIX)
    if routed.cacheable and not is_for_a_temp_queue:
        connection.planner.keep(head, plan)
    return plan


def _check_user(connection: StompConnection, properties: Mapping[str, Any]) -> None:
    user = properties.get("user_id")
    if user is not None and user != connection.user and IMPERSONATOR not in connection.caller.tags:
        precondition_failed(f"user_id property set to '{user}' but authenticated user was '{connection.user}'")


def _take(connection: StompConnection, plan: Plan, head: Head, body: bytes) -> None:
    """Publish it now, or with its transaction."""
    transaction = head.headers.get("transaction")
    if transaction is not None:
        connection.transactions.get(transaction).publish(connection, plan, body)
        return
    connection.published(len(body) + len(plan.headers))
    outcome = 0
    if plan.delayed:
        delay(connection, plan, body)
    if plan.queues:
        outbox = connection.outbox
        outcome = outbox.put(plan.queues, plan.headers, body, plan.key, plan.ttl_ms, plan.priority)
    if outcome == REFUSED and "receipt" in head.headers:
        raise StompError("Message rejected", "a queue is full and refuses messages\n")
    if outcome == HOLD or connection.outbox.intake.is_pressed:
        connection.wait_for_relief(plan.queues)


def delay(connection: StompConnection, plan: Plan, body: bytes) -> None:
    """Hand it to the schedule: an exchange keeps it for a while."""
    broker = connection.node.broker
    now_ms = broker.clock.now_ms()
    for exchange, delay_ms in plan.delayed:
        broker.schedules.schedule(
            Target(connection.namespace, exchange, plan.routing_keys),
            plan.headers,
            body,
            key=plan.key,
            due_ms=now_ms + delay_ms,
            ttl_ms=plan.ttl_ms,
            priority=plan.priority,
        )


def put_of(plan: Plan, body: bytes) -> Put:
    """What goes to queues."""
    return Put(plan.queues, plan.headers, body, plan.key, plan.ttl_ms, plan.priority)


FRAMES = {"SEND": send}
