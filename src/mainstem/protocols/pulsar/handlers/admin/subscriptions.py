"""Subscriptions: made, removed, moved, looked into."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec

from mainstem.broker.log import Edge
from mainstem.broker.queues import Message, QueueProperties
from mainstem.broker.subscriptions.topic_subscriptions import Subscription, SubscriptionWish
from mainstem.protocols.pulsar.codec.frames import decode_entry
from mainstem.protocols.pulsar.handlers.admin.paths import (
    BAD_REQUEST,
    CONFLICT,
    NOT_FOUND,
    PRECONDITION,
    AdminRefused,
    Call,
    Path,
)
from mainstem.protocols.pulsar.handlers.admin.stats import subscription_properties
from mainstem.protocols.pulsar.handlers.parts import PulsarParts
from mainstem.protocols.pulsar.handlers.subscribing import LATEST
from mainstem.protocols.pulsar.handlers.topics import Log
from mainstem.protocols.pulsar.mapping.messages import entry_of
from mainstem.wire.http.messages import OCTETS, Response

TOPIC = "admin/v2/persistent/{}/{}/{}"
ONE = f"{TOPIC}/subscription/{{}}"
UINT64 = 1 << 64


class SubscriptionPaths:
    """What is asked about subscriptions."""

    def __init__(self, parts: PulsarParts) -> None:
        self._parts = parts
        self._topics = parts.topics
        self._subscriptions = parts.broker.topic_subscriptions

    def paths(self) -> list[Path]:
        """All of them."""
        return [
            Path("GET", f"{TOPIC}/subscriptions", self.list_all),
            Path("PUT", ONE, self.create),
            Path("DELETE", ONE, self.remove),
            Path("POST", f"{ONE}/skip_all", self.skip_all),
            Path("POST", f"{ONE}/skip/{{}}", self.skip),
            Path("POST", f"{ONE}/resetcursor/{{}}", self.reset_to_time),
            Path("POST", f"{ONE}/resetcursor", self.reset_to_message),
            Path("POST", f"{ONE}/expireMessages/{{}}", self.expire),
            Path("POST", f"{TOPIC}/all_subscription/expireMessages/{{}}", self.expire_all),
            Path("GET", f"{ONE}/position/{{}}", self.peek),
            Path("GET", f"{ONE}/properties", self.properties),
        ]

    def _logs(self, call: Call) -> list[Log]:
        """The partitions that a name means."""
        name = call.topic()
        self._topics.check_place(name)
        topic = self._topics.find(name)
        if topic is None or name.partition >= len(topic.logs):
            raise AdminRefused(NOT_FOUND, f"Topic {name} not found")
        if name.partition >= 0 or not self._topics.partitions(topic):
            return [self._topics.log_of(topic, name)]
        return [Log(topic, number, log) for number, log in enumerate(topic.logs)]

    def _all(self, call: Call) -> list[Subscription]:
        """Those of a name, one for each partition. Raises AdminRefused."""
        found = [one for log in self._logs(call) for one in self._parts.subscriptions_of(log)]
        wanted = [one for one in found if one.entry.name == call.steps[3]]
        if not wanted:
            raise AdminRefused(NOT_FOUND, f"Subscription {call.steps[3]} not found")
        return wanted

    def list_all(self, call: Call) -> list[str]:
        """By name."""
        return sorted({one.entry.name for log in self._logs(call) for one in self._parts.subscriptions_of(log)})

    async def create(self, call: Call) -> None:
        """From a message on; without one, from the end."""
        logs, name = self._logs(call), call.steps[3]
        for log in logs:
            if any(one.entry.name == name for one in self._parts.subscriptions_of(log)):
                raise AdminRefused(CONFLICT, "Subscription already exists for topic")
        body = call.body()
        for log in logs:
            start: Any = Edge.END
            arguments = b""
            if isinstance(body, dict):
                if "ledgerId" in body:
                    start = await self._parts.subscribing.place_after(log, identity_of(body))
                if body.get("properties"):
                    arguments = msgspec.msgpack.encode({str(k): str(v) for k, v in body["properties"].items()})
            elif isinstance(body, str):
                start = Edge.START if body == "earliest" else Edge.END
            properties = QueueProperties(ordering="exclusive", arguments=arguments)
            wish = SubscriptionWish(log.topic.namespace, log.topic.name, name, properties, log.part, start)
            await self._parts.subscribing.open(wish)

    async def remove(self, call: Call) -> None:
        """One that nobody uses; by force, any."""
        for subscription in self._all(call):
            queue = subscription.queue
            if queue is not None and queue.consumers.all and not call.is_set("force"):
                raise AdminRefused(PRECONDITION, "Subscription has active connected consumers")
        for subscription in self._all(call):
            await self._subscriptions.remove(subscription)

    async def skip_all(self, call: Call) -> None:
        """To the end."""
        for subscription in self._all(call):
            await self._parts.clear(subscription)

    async def skip(self, call: Call) -> None:
        """Over the next N messages."""
        count = number_of(call.steps[4])
        for subscription in self._all(call):
            await self._parts.load(subscription)
            queue = subscription.queue
            assert queue is not None
            for lane in queue.lanes:
                offset, left = lane.cursor.first_open(), count
                skipped: list[int] = []
                while left and offset < lane.end:
                    skipped.append(offset)
                    offset, left = lane.cursor.first_open(offset + 1), left - 1
                self._parts.broker.queues.settling.settle_offsets(lane, skipped)
        await self._parts.broker.queues.outbox.wait_durable()

    async def reset_to_time(self, call: Call) -> None:
        """Back, or ahead, to a time."""
        time_ms = number_of(call.steps[4])
        for subscription in self._all(call):
            await self._parts.subscribing.move(subscription, time_ms=min(time_ms, LATEST))

    async def reset_to_message(self, call: Call) -> None:
        """To a message."""
        identity = identity_of(call.object())
        for log in self._logs(call):
            for subscription in self._parts.subscriptions_of(log):
                if subscription.entry.name == call.steps[3]:
                    offset = await self._parts.subscribing.place_at(log, identity)
                    await self._parts.subscribing.move(subscription, offset=offset)

    async def expire(self, call: Call) -> None:
        """What is older than N seconds is done with."""
        await self._expire(self._all(call), number_of(call.steps[4]))

    async def expire_all(self, call: Call) -> None:
        """The same for every subscription."""
        found = [one for log in self._logs(call) for one in self._parts.subscriptions_of(log)]
        await self._expire(found, number_of(call.steps[3]))

    async def _expire(self, subscriptions: list[Subscription], age_s: int) -> None:
        now_ms = self._parts.broker.clock.now_ms()
        for subscription in subscriptions:
            await self._parts.load(subscription)
            queue = subscription.queue
            assert queue is not None
            for lane in queue.lanes:
                offset = await self._parts.offset_at_time(lane.log, str(max(now_ms - age_s * 1_000, 0)))
                self._parts.broker.queues.settling.settle_below(lane, offset)
        await self._parts.broker.queues.outbox.wait_durable()

    async def peek(self, call: Call) -> Response:
        """The message at a place of the backlog, the first is 1."""
        (subscription, *_) = self._all(call)
        await self._parts.load(subscription)
        queue = subscription.queue
        assert queue is not None
        lane = queue.lanes[0]
        offset = lane.cursor.first_open()
        for _ in range(min(number_of(call.steps[4]), 1_000_000) - 1):
            offset = lane.cursor.first_open(offset + 1)
        message = await self._topics.message_at(lane.log, offset) if offset < lane.end else None
        if message is None:
            raise AdminRefused(NOT_FOUND, "Message not found")
        return message_response(message, lane.log)

    def properties(self, call: Call) -> dict[str, str]:
        """What its first consumer said of it."""
        return subscription_properties(self._all(call)[0])


def number_of(text: str) -> int:
    """Of a step of a path. Raises AdminRefused."""
    if not text.isdecimal() or len(text) > 19:
        raise AdminRefused(BAD_REQUEST, f"no number: {text[:40]}")
    return int(text)


def identity_of(body: dict[str, Any]) -> Any:
    """A message, as JSON names it. Raises AdminRefused."""
    try:
        ledger, entry, index = int(body["ledgerId"]), int(body["entryId"]), int(body.get("batchIndex", -1))
    except (KeyError, TypeError, ValueError):
        raise AdminRefused(BAD_REQUEST, "ledgerId and entryId are expected") from None
    identity = SimpleNamespace(ledgerId=ledger % UINT64, entryId=entry % UINT64, batch_index=index)
    identity.HasField = lambda name: True
    return identity


def message_response(message: Message, log: int) -> Response:
    """The payload, with what surrounds it as headers."""
    metadata = decode_entry(memoryview(entry_of([message]))).metadata
    headers = [("X-Pulsar-Message-ID", f"{log}:{message.offset}")]
    headers.append(("X-Pulsar-publish-time", str(message.timestamp_ms)))
    for one in metadata.properties:
        if one.key.isascii() and one.value.isascii() and one.key.isprintable() and one.value.isprintable():
            headers.append((f"X-Pulsar-PROPERTY-{one.key.replace(' ', '-')}", one.value))
    return Response(200, bytes(message.value), OCTETS, tuple(headers))
