"""Queues: list, declare, delete, purge, get."""

from __future__ import annotations

import base64
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.dead_letters.browsing import take
from mainstem.broker.dialect import Dialect
from mainstem.broker.errors import UnknownQueue
from mainstem.broker.queues import Message, Queue
from mainstem.broker.routes import Destination, DestinationKind
from mainstem.protocols.management.errors import BadRequest
from mainstem.protocols.management.handlers.bindings import bindings_to
from mainstem.protocols.management.handlers.callers import Caller
from mainstem.protocols.management.handlers.paths import Call, Path, created
from mainstem.protocols.management.mapping import fields
from mainstem.protocols.management.mapping.amqp_words import connections_of, dialect_of
from mainstem.protocols.management.mapping.listing import Row, listing, one
from mainstem.protocols.management.mapping.rates import Rates, counts_of, lengths_of
from mainstem.protocols.management.mapping.rows import binding_rows, consumer_row, queue_row
from mainstem.protocols.management.mapping.words import host_of
from mainstem.wire.http.messages import Response

GET_MESSAGES_MAX = 1_000
ACKMODES = ("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")
AUTO, BASE64 = "auto", "base64"
RESERVED_PREFIX = "amq."


class QueuePaths:
    """/api/queues."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._queues = broker.queues
        self._rates = Rates(broker.clock.now_ms)

    def paths(self) -> list[Path]:
        """What is served here."""
        return [
            Path("GET", "/queues", self.list_all),
            Path("GET", "/queues/detailed", self.list_all),
            Path("GET", "/queues/{}", self.list_host),
            Path("GET", "/queues/{}/{}", self.get),
            Path("PUT", "/queues/{}/{}", self.declare),
            Path("DELETE", "/queues/{}/{}", self.delete),
            Path("GET", "/queues/{}/{}/bindings", self.bindings),
            Path("DELETE", "/queues/{}/{}/contents", self.purge),
            Path("POST", "/queues/{}/{}/get", self.take),
            Path("POST", "/queues/{}/{}/actions", self.act),
        ]

    async def list_all(self, call: Call) -> Any:
        """Of all virtual hosts that the caller may see."""
        queues = [
            queue
            for namespace in self._broker.namespaces.all()
            if call.caller.may_see(namespace.name)
            for queue in self._queues.all(namespace.name)
        ]
        await self._queues.know(queues)
        return listing([self._row(queue) for queue in queues], call.query)

    async def list_host(self, call: Call) -> Any:
        """Of one virtual host."""
        queues = self._queues.all(call.caller.enter(call.steps[0]))
        await self._queues.know(queues)
        return listing([self._row(queue) for queue in queues], call.query)

    async def get(self, call: Call) -> Any:
        """One queue, with those who consume it."""
        queue = self._find(call)
        await self._queues.know((queue,))
        connections = connections_of(self._broker)
        details = [
            consumer_row(facts, channel, consumer)
            for facts in connections
            for channel in facts.channels
            for consumer in channel.consumers
            if consumer.queue is queue
        ]
        row = {**self._row(queue), "consumer_details": details, "incoming": [], "deliveries": []}
        for detail in details:
            if queue.properties.single_active and detail["active"]:
                row["single_active_consumer_tag"] = detail["consumer_tag"]
            if detail["exclusive"]:
                row["exclusive_consumer_tag"] = detail["consumer_tag"]
        return one(row, call.query)

    def _row(self, queue: Queue) -> Row:
        counts = counts_of((queue,))
        lengths, stats = self._rates.describe((queue.namespace, queue.name), lengths_of((queue,)), counts)
        row = queue_row(queue, self._broker) | lengths
        if any(counts.values()):  # as RabbitMQ, which says nothing of queues that nobody used
            row["message_stats"] = stats
        return row

    async def declare(self, call: Call) -> Response:
        """Declare it; 201 when it is new."""
        namespace = call.caller.enter(call.steps[0])
        return created(await declare_queue(self._broker, call.caller, namespace, call.steps[1], call.fields()))

    async def delete(self, call: Call) -> None:
        """Delete it, unless it is in use or holds messages and that was asked for."""
        queue = self._find(call)
        call.caller.check(queue.namespace, "configure", queue.name)
        if_unused, if_empty = call.query.get("if-unused") == "true", call.query.get("if-empty") == "true"
        await self._queues.delete(queue, if_unused=if_unused, if_empty=if_empty)

    def bindings(self, call: Call) -> Any:
        """What leads to it."""
        queue = self._find(call)
        found = bindings_to(self._broker, queue.namespace, Destination(DestinationKind.QUEUE, queue.name))
        return listing(binding_rows(found, queue.namespace), call.query)

    async def purge(self, call: Call) -> None:
        """Let all go that waits."""
        queue = self._find(call)
        call.caller.check(queue.namespace, "read", queue.name)
        await self._queues.purge(queue)

    async def act(self, call: Call) -> None:
        """`sync` and `cancel_sync` are of mirrored queues, of which there are none."""
        self._find(call)
        if fields.text(call.fields(), "action") not in ("sync", "cancel_sync"):
            raise BadRequest("unknown action")

    async def take(self, call: Call) -> list[dict[str, Any]]:
        """Messages, put back or settled as the caller wants."""
        queue, body = self._find(call), call.fields()
        call.caller.check(queue.namespace, "read", queue.name)
        if queue.properties.kind == "stream":
            raise BadRequest(f"540 basic.get not supported by stream queues queue '{queue.name}'")
        count, mode = fields.number(body, "count"), fields.text(body, "ackmode")
        encoding = fields.text(body, "encoding", AUTO)
        truncate = fields.number(body, "truncate", 1 << 40)
        if not 0 <= count <= GET_MESSAGES_MAX:
            raise BadRequest(f"count is at most {GET_MESSAGES_MAX}")
        if mode not in ACKMODES or encoding not in (AUTO, BASE64) or truncate < 0:
            raise BadRequest("ackmode, encoding or truncate cannot be")
        dialect = dialect_of(self._broker)
        taken: list[Message] = []
        rows: list[dict[str, Any]] = []
        try:
            while len(taken) < count:
                message = await take(queue)
                if message is None:
                    break
                taken.append(message)
                rows.append(_message_row(message, queue, dialect, encoding, truncate))
        finally:
            if mode.endswith("requeue_true"):
                self._queues.settling.requeue(taken, failed=mode.startswith("reject"))
            elif mode.startswith("reject"):
                self._queues.settling.reject(taken)
            else:
                self._queues.settling.settle(taken)
        await self._queues.outbox.wait_durable()
        return rows

    def _find(self, call: Call) -> Queue:
        namespace = call.caller.enter(call.steps[0])
        queue = self._queues.find(namespace, call.steps[1])
        if queue is None:
            raise UnknownQueue(call.steps[1])
        queue.open()
        return queue


async def declare_queue(broker: Broker, caller: Caller, namespace: str, name: str, body: dict[str, Any]) -> bool:
    """Declare a queue; answers whether it is new. Raises ManagementError and kinds of MainstemError."""
    if not name:
        raise BadRequest("a queue has a name")
    fields.short("queue", name)
    arguments = fields.table(body, "arguments")
    durable, auto_delete = fields.flag(body, "durable"), fields.flag(body, "auto_delete")
    kind = body.get("type")
    if not kind and durable and not auto_delete:  # else it could only be a classic one
        kind = broker.namespaces.get(namespace).default_queue_kind
    if kind and "x-queue-type" not in arguments and kind not in ("default", "undefined"):
        arguments["x-queue-type"] = kind
    caller.check(namespace, "configure", name)
    dialect = dialect_of(broker)
    wanted = dialect.queue_properties(name, arguments, durable=durable, auto_delete=auto_delete)
    known = broker.queues.find(namespace, name)
    if known is not None:
        dialect.check_same(name, known.properties, wanted)
        return False
    if name.startswith(RESERVED_PREFIX):
        raise BadRequest(f"queue name '{name}' contains reserved prefix 'amq.*'")
    limit = broker.namespaces.get(namespace).limits.get("max-queues", -1)
    if 0 <= limit <= len(list(broker.queues.all(namespace))):
        raise BadRequest(
            f"cannot declare queue '{name}': queue limit in vhost '{host_of(namespace)}' ({limit}) is reached"
        )
    await broker.queues.declare(namespace, name, wanted)
    return True


def _message_row(message: Message, queue: Queue, dialect: Dialect, encoding: str, truncate: int) -> dict[str, Any]:
    opened = dialect.open(message)
    content = bytes(message.value[:truncate])
    shown, how = base64.b64encode(content).decode(), BASE64
    if encoding == AUTO:
        try:
            shown, how = content.decode(), "string"
        except UnicodeDecodeError:
            pass
    return {
        "payload_bytes": len(message.value),
        "redelivered": message.deliveries > 0,
        "exchange": opened.address.exchange,
        "routing_key": opened.address.key,
        "message_count": queue.ready_count,
        "properties": dict(opened.properties),
        "payload": shown,
        "payload_encoding": how,
    }
