"""Requests that wait for their reply: a record with `reply-to` and `correlation-id`, and its answer.

Replies come to one queue of the broker's, which is a topic as well: a client of any protocol can answer. It ends with the
broker, and so does a request that waits.
"""

from __future__ import annotations

import asyncio
import os
from typing import NamedTuple

from mainstem.broker.catalog.topics import Topic
from mainstem.broker.dialect import Dialects
from mainstem.broker.envelopes import Address
from mainstem.broker.queues import Message, Queue, QueueProperties, Queues, decode_headers
from mainstem.broker.records.publication import NewRecord, Publications
from mainstem.model.errors import Overloaded

WAITING_MAX = 1_000
"""Requests that wait at the same time."""
QUEUE_PREFIX = "mainstem.replies."
REPLY_TO, CORRELATION = "reply-to", "correlation-id"
CORRELATIONS = (CORRELATION, "amqp.correlation-id")
"""Headers in which a reply says what it answers: a record's own, and the readable copy of AMQP's property."""
AMQP = "amqp"
ROOM = 1_000


class NoReply(Exception):
    """Nobody answered in time."""


class Reply(NamedTuple):
    """What was answered."""

    correlation: str
    message: Message


class Requests:
    """All that wait; itself the consumer of their replies."""

    priority, room, room_bytes, is_exclusive = 0, ROOM, -1, True

    def __init__(self, queues: Queues, publications: Publications, dialects: Dialects) -> None:
        self._queues = queues
        self._publications = publications
        self._dialects = dialects
        self._opened: dict[str, Queue] = {}
        self._lock = asyncio.Lock()
        self._waiting: dict[str, asyncio.Future[Reply]] = {}

    async def ask(self, topic: Topic, record: NewRecord, timeout_s: float) -> Reply:
        """Publish a record, and wait for the first reply to it. Raises NoReply, Overloaded, and kinds of MainstemError."""
        if len(self._waiting) >= WAITING_MAX:
            raise Overloaded(f"{WAITING_MAX} requests wait for their replies")
        queue = await self._queue(topic.namespace)
        correlation = os.urandom(16).hex()
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[correlation] = reply
        try:
            async with asyncio.timeout(timeout_s):
                await self._publications.publish(topic, [self._addressed(topic, record, queue.name, correlation)], None)
                return await reply
        except TimeoutError:
            raise NoReply(f"nobody has answered a request to {topic.name} within {timeout_s:g} s") from None
        finally:
            self._waiting.pop(correlation, None)

    async def _queue(self, namespace: str) -> Queue:
        async with self._lock:
            queue = self._opened.get(namespace)
            if queue is None:
                name = QUEUE_PREFIX + os.urandom(8).hex()
                queue = await self._queues.declare(namespace, name, QueueProperties(durable=False))
                queue.attach(self)
                self._opened[namespace] = queue
            return queue

    def _addressed(self, topic: Topic, record: NewRecord, reply_to: str, correlation: str) -> NewRecord:
        own = [(name, content) for name, content in record.headers if name not in (REPLY_TO, CORRELATION)]
        added = [(REPLY_TO, reply_to.encode()), (CORRELATION, correlation.encode())]
        dialect = self._dialects.get(AMQP)
        if dialect is None:
            return record._replace(headers=[*own, *added])
        texts = {name: None if content is None else bytes(content).decode("utf-8", "replace") for name, content in own}
        properties = {"reply_to": reply_to, "correlation_id": correlation, "headers": texts}
        sealed = dialect.seal(Address("", (topic.name,)), properties)
        # Besides, what AMQP's own clients look at; the headers among it are there already.
        known = {name for name, _ in own}
        readable = [(name, content) for name, content in decode_headers(sealed.headers) if name not in known]
        return record._replace(headers=[*own, *added, *readable])

    # What the queue calls

    def deliver(self, queue: Queue, messages: list[Message]) -> None:
        """Hand replies to those who wait for them; one that nobody waits for is dropped."""
        for message in messages:
            headers = {name: content for name, content in decode_headers(message.headers) if name in CORRELATIONS}
            found = next((headers[name] for name in CORRELATIONS if headers.get(name)), None)
            correlation = (found or b"").decode("utf-8", "replace")
            waiting = self._waiting.get(correlation)
            if waiting is not None and not waiting.done():
                waiting.set_result(Reply(correlation, message))
        self._queues.settling.settle(messages)

    def cancelled(self) -> None:
        """Somebody deleted the queue: the next request makes another."""
        self._opened.clear()

    def activated(self, is_active: bool) -> None:
        """It is alone."""
