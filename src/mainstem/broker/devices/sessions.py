"""Sessions of devices: who they are, what they subscribe to, and what waits for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import msgspec

from mainstem.coordination.devices.entries import (
    RECEIVED,
    RELEASED,
    SessionEntry,
    SubscriptionEntry,
    WillEntry,
    forget_session,
    forget_will,
    put_identifier,
)
from mainstem.storage.contract import Mutation

if TYPE_CHECKING:
    from mainstem.broker.devices.messages import DeviceMessage
    from mainstem.broker.queues.queue import Queue


class Receiver(Protocol):
    """The connection of a session."""

    def push(self, message: DeviceMessage, qos: int, retain: bool, identifiers: tuple[int, ...]) -> None:
        """A message for subscribers that no queue keeps it for. A receiver that has no room drops and counts it."""

    def attach(self, queue: Queue, group: Group | None) -> None:
        """Messages of this queue are for the session: its own, or that of a group it is in."""

    def detach(self, queue: Queue) -> None:
        """The session has no part in it any more."""

    def taken_over(self) -> None:
        """Another connection has the session from now on."""

    def ended_by_administrator(self) -> None:
        """Close the connection."""


class Subscription:
    """One of a session."""

    __slots__ = ("entry", "filter", "group", "identifiers", "session")

    def __init__(self, session: DeviceSession, entry: SubscriptionEntry, text: str, group: Group | None) -> None:
        self.session = session
        self.entry = entry
        self.filter = text
        """Without the name of a group."""
        self.group = group
        self.identifiers = (entry.identifier,) if entry.identifier else ()


class Group:
    """The members of a shared subscription."""

    __slots__ = ("filter", "members", "name", "queue", "turn")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.filter = text
        self.members: list[Subscription] = []
        self.queue: Queue | None = None
        """What waits for any of them; none while all are of QoS 0."""
        self.turn = 0

    def next_connected(self) -> Subscription | None:
        """The member whose turn it is, of those that are connected."""
        count = len(self.members)
        for number in range(count):
            member = self.members[(self.turn + number) % count]
            if member.session.receiver is not None:
                self.turn += number + 1
                return member
        return None


class DeviceSession:
    """One session."""

    __slots__ = (
        "client_id",
        "ended_ms",
        "expiry_s",
        "is_gone",
        "is_kept",
        "namespace",
        "number",
        "queue",
        "received",
        "receiver",
        "released",
        "subscriptions",
        "user",
        "will",
    )

    def __init__(self, namespace: str, client_id: str, number: int, expiry_s: int, user: str = "") -> None:
        self.namespace = namespace
        self.client_id = client_id
        self.number = number
        self.expiry_s = expiry_s
        self.is_kept = expiry_s > 0
        """Whether it outlives its connection and the broker."""
        self.user = user
        self.ended_ms = 0
        self.is_gone = False
        self.receiver: Receiver | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.queue: Queue | None = None
        self.received: set[int] = set()
        """Identifiers of messages of QoS 2 that were taken and are not free yet."""
        self.released: set[int] = set()
        """The same of messages that the client has."""
        self.will: WillEntry | None = None

    @property
    def queue_name(self) -> str:
        """As RabbitMQ calls it."""
        return f"mqtt-subscription-{self.client_id}qos1"

    def entry(self) -> SessionEntry:
        """As it is stored."""
        return SessionEntry(
            self.namespace,
            self.client_id,
            self.number,
            self.expiry_s,
            self.ended_ms,
            tuple([subscription.entry for subscription in self.subscriptions.values()]),
            self.queue is not None,
            self.user,
        )

    def forget(self) -> list[Mutation]:
        """Nothing is left of it."""
        return [
            forget_session(self.namespace, self.client_id),
            *(put_identifier(RECEIVED, self.number, one, is_there=False) for one in self.received),
            *(put_identifier(RELEASED, self.number, one, is_there=False) for one in self.released),
        ]

    def note_received(self, identifier: int, *, is_there: bool) -> list[Mutation]:
        """The identifier of a message that was taken at QoS 2 is in use, or free again; to be stored with what it is about."""
        return self._note(self.received, RECEIVED, identifier, is_there)

    def note_released(self, identifier: int, *, is_there: bool) -> list[Mutation]:
        """The same of a message that the client has."""
        return self._note(self.released, RELEASED, identifier, is_there)

    def _note(self, book: set[int], prefix: bytes, identifier: int, is_there: bool) -> list[Mutation]:
        if is_there:
            book.add(identifier)
        else:
            book.discard(identifier)
        return [put_identifier(prefix, self.number, identifier, is_there=is_there)] if self.is_kept else []

    def vanished(self, will: WillEntry, due_ms: int) -> WillEntry:
        """Its connection ended without a word: the will is due then."""
        self.will = msgspec.structs.replace(will, due_ms=due_ms)
        return self.will

    def forget_will(self) -> list[Mutation]:
        """There is none any more."""
        if self.will is None:
            return []
        self.will = None
        return [forget_will(self.namespace, self.client_id)]


class Target:
    """A session that gets messages of a topic, by all of its subscriptions that fit."""

    __slots__ = ("has_no_local", "identifiers", "qos", "retain_as_published", "session", "subscriptions")

    def __init__(self, session: DeviceSession, subscriptions: Iterable[Subscription]) -> None:
        self.session = session
        self.subscriptions = list(subscriptions)
        entries = [one.entry for one in self.subscriptions]
        self.qos = max(entry.qos for entry in entries)
        self.retain_as_published = any(entry.retain_as_published for entry in entries)
        self.has_no_local = any(entry.no_local for entry in entries)
        self.identifiers = tuple([entry.identifier for entry in entries if entry.identifier])

    def for_publisher(self, publisher: object | None) -> Target | None:
        """What is left for the session if it published the message itself."""
        if not self.has_no_local or publisher is not self.session:
            return self
        others = [one for one in self.subscriptions if not one.entry.no_local]
        return Target(self.session, others) if others else None


class Audience:
    """Who gets messages of one topic."""

    __slots__ = ("by_qos", "by_session", "groups", "targets")

    def __init__(self, subscriptions: Iterable[Subscription | Group]) -> None:
        by_session: dict[DeviceSession, list[Subscription]] = {}
        self.groups: list[Group] = []
        for one in subscriptions:
            if isinstance(one, Group):
                self.groups.append(one)
            else:
                by_session.setdefault(one.session, []).append(one)
        self.targets = [Target(session, its_own) for session, its_own in by_session.items()]
        self.by_session = {target.session: target for target in self.targets}
        self.by_qos: tuple[Queue, ...] | None = None
        """Queues that keep messages of QoS 1 and 2, once somebody has asked."""

    def queues(self) -> tuple[Queue, ...]:
        """Where messages of QoS 1 and 2 wait."""
        if self.by_qos is None:
            found = [
                target.session.queue
                for target in self.targets
                if target.qos and target.session.is_kept and target.session.queue is not None
            ]
            found += [group.queue for group in self.groups if group.queue is not None]
            self.by_qos = tuple(found)
        return self.by_qos
