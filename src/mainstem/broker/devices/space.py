"""Devices of one namespace: their rules, sessions, subscriptions and retained messages."""

from __future__ import annotations

import asyncio
import functools
import heapq
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.devices.following import Following
from mainstem.broker.devices.messages import CLIENT, DeviceMessage, FactBook, Publication
from mainstem.broker.devices.publishing import Publishing
from mainstem.broker.devices.retained import TOPIC as RETAINED_TOPIC
from mainstem.broker.devices.retained import Retained
from mainstem.broker.devices.sessions import Audience, DeviceSession, Group, Receiver, Subscription
from mainstem.broker.queues.publishing.outcome import REFUSED
from mainstem.coordination.devices.entries import NEVER, SubscriptionEntry, WillEntry, put_session, put_will
from mainstem.coordination.devices.errors import TooManySessions
from mainstem.coordination.devices.filter_trie import FilterTrie
from mainstem.coordination.devices.topic_filters import check_filter, check_name
from mainstem.coordination.devices.topic_rules import TopicRules
from mainstem.coordination.queues.properties import QueueProperties
from mainstem.model.errors import MainstemError
from mainstem.wire.record_batch import encode_headers

if TYPE_CHECKING:
    from mainstem.broker.devices.devices import Devices
    from mainstem.broker.devices.limits import DeviceLimits
    from mainstem.broker.queues.queue import Queue
    from mainstem.coordination.catalog.catalog import Topic
    from mainstem.storage.contract import Mutation
    from mainstem.wire.record_batch import Record

log = logging.getLogger(__name__)

T = TypeVar("T")
AUDIENCES_MAX = 50_000
TARGETS_CACHED_MAX = 200_000
"""Sessions that the remembered audiences name, each time counted: some 50 MB."""
QUEUE = QueueProperties(hidden=True)
SHARED_QUEUE_PREFIX = "mqtt-share/"


class DeviceSpace:
    """All of it. Made by `Devices`."""

    def __init__(self, devices: Devices, namespace: str, rules: TopicRules) -> None:
        self.namespace = namespace
        self.limits = devices.limits
        self.now_ms = devices.clock.now_ms
        self.clock = devices.clock
        self.queues = devices.queues
        self.router = devices.routes.of(namespace)
        self.topics: Mapping[str, Topic] = devices.topics.named(namespace)
        self.rules = rules
        self.facts = FactBook()
        self.retained = Retained(self.limits, self.facts)
        self.sessions: dict[str, DeviceSession] = {}
        self.counts: Counter[str] = Counter()
        """Messages by what became of them: received, sent, dropped, unaddressed."""
        self.is_open = False
        """Whether its topics are there and followed."""
        self._devices = devices
        self._trie: FilterTrie[Subscription | Group] = FilterTrie()
        self._groups: dict[tuple[str, str], Group] = {}
        self._audiences: dict[str, Audience] = {}
        self._audiences_of = -1
        self._targets_cached = 0
        self._expiring: list[tuple[int, str, int]] = []
        self._underway: dict[str, asyncio.Lock] = {}
        self._topics_lock = asyncio.Lock()
        self.following = Following(
            devices.engine, devices.clock, self._take_records, self._is_wanted, devices.spawn, devices.queues.outbox
        )
        self.publishing = Publishing(self)

    def govern(self, limits: DeviceLimits) -> None:
        """These hold from now on."""
        self.limits = self.retained.limits = limits

    @property
    def subscription_count(self) -> int:
        """Subscriptions, the members of a shared one each."""
        return self._trie.count + sum([len(group.members) - 1 for group in self._groups.values()])

    @property
    def has_kept_sessions(self) -> bool:
        """Whether any session outlives its connection."""
        return any(session.is_kept for session in self.sessions.values())

    # Topics

    def catalog_version(self) -> int:
        """Changes when topics do."""
        return self._devices.topics.version

    async def make_topics(self, positions: Mapping[int, int] = {}) -> None:
        """Make the topics that the rules name, and follow them. Raises kinds of MainstemError."""
        async with self._topics_lock:
            configs = {"max.message.bytes": str(self.limits.message_bytes_max)}
            for name in sorted(self.rules.topics):
                topic = await self._devices.topics.ensure(
                    NewTopic(name, self.limits.partitions, configs, self.namespace)
                )
                for number in topic.logs:
                    await self.following.add(name, number, positions.get(number))
            topic = await self._devices.topics.ensure(
                NewTopic(RETAINED_TOPIC, 1, {**configs, "cleanup.policy": "compact"}, self.namespace)
            )
            if not self.following.follows(topic.logs[0]):
                at = await self.retained.load(self._devices.engine, topic.logs[0])
                await self.following.add(RETAINED_TOPIC, topic.logs[0], at)
            self.is_open = True

    def make_topics_soon(self) -> None:
        """The same, later."""
        self._devices.spawn(self.make_topics())

    async def set_rules(self, rules: TopicRules) -> None:
        """Other rules hold from now on; they are stored."""
        self.rules = rules
        self.publishing.forget_places()
        await self.make_topics()

    def close(self) -> None:
        """Follow nothing more."""
        self.following.close()

    # Messages

    def publish(self, publication: Publication) -> int:
        """TAKEN, HOLD or REFUSED. Raises RetainedFull, BatchTooLarge, UnknownLog."""
        outcome = self.publishing.publish(publication)
        if outcome != REFUSED:
            self.counts["received"] += 1
        return outcome

    def audience_of(self, name: str) -> Audience:
        """Who gets messages of this topic."""
        if (
            self._audiences_of != self._trie.generation
            or len(self._audiences) > AUDIENCES_MAX
            or self._targets_cached > TARGETS_CACHED_MAX
        ):
            self._audiences_of, self._targets_cached = self._trie.generation, 0
            self._audiences.clear()
        known = self._audiences.get(name)
        if known is None:
            known = self._audiences[name] = Audience(self._trie.match(name))
            self._targets_cached += len(known.targets)
        return known

    def has_audience(self, name: str) -> bool:
        """Whether anybody subscribes to it."""
        audience = self.audience_of(name)
        return bool(audience.targets or audience.groups)

    def with_room(self, queues: tuple[Queue, ...]) -> tuple[Queue, ...]:
        """Those that take one message more; what the others miss is counted."""
        most = self.limits.waiting_messages_max
        full = [queue for queue in queues if queue.lanes and queue.ready_count >= most]
        if not full:
            return queues
        self.counts["dropped"] += len(full)
        return tuple([queue for queue in queues if queue not in full])

    def give_out(self, message: DeviceMessage) -> None:
        """To all that are connected and have no queue for it."""
        audience = self.audience_of(message.topic)
        for target in audience.targets:
            session = target.session
            receiver = session.receiver
            if receiver is None or (session.is_kept and message.qos and target.qos and session.queue is not None):
                continue
            if target.has_no_local:
                narrowed = target.for_publisher(message.publisher)
                if narrowed is None:
                    continue
                target = narrowed
            receiver.push(
                message,
                min(message.qos, target.qos),
                message.retain and target.retain_as_published,
                target.identifiers,
            )
        for group in audience.groups:
            if message.qos and group.queue is not None:
                continue
            member = group.next_connected()
            if member is not None and member.session.receiver is not None:
                entry = member.entry
                member.session.receiver.push(
                    message,
                    min(message.qos, entry.qos),
                    message.retain and entry.retain_as_published,
                    member.identifiers,
                )

    def give_out_live(self, message: DeviceMessage) -> None:
        """A message of the broker's own, which nothing keeps."""
        if self.has_audience(message.topic):
            self.give_out(message)

    def _is_wanted(self, topic: str) -> bool:
        return topic == RETAINED_TOPIC or self._trie.count > 0

    def _take_records(self, topic: str, records: Sequence[Record], is_from_before: bool, state: list[Mutation]) -> None:
        """Records that others have written, and those that devices wrote just before the last run ended."""
        if topic == RETAINED_TOPIC:
            for record in records:
                self.retained.put_record(record)
            return
        found: list[tuple[DeviceMessage, int]] = []
        now_ms = self.now_ms()
        for record in records:
            if is_from_before and any(name == CLIENT for name, _ in record.headers):
                continue
            message = self._message_of(topic, record)
            if message is None:
                self.counts["unaddressed"] += 1
            elif not 0 < message.expires_ms <= now_ms:
                found.append((message, message.expires_ms - now_ms if message.expires_ms else -1))
        self.publishing.from_records(found, state)

    def _message_of(self, topic: str, record: Record) -> DeviceMessage | None:
        headers = encode_headers(record.headers)
        facts = self.facts.of(headers)
        name = facts.topic
        if name is None:
            try:
                name = self.rules.name_of(topic, (record.key or b"").decode())
            except UnicodeDecodeError:
                name = None
        if not name or name.startswith("$"):
            return None
        try:
            check_name(name)
        except MainstemError:
            return None
        if facts.topic is None:
            headers = encode_headers([*record.headers, ("mqtt.topic", name.encode())])
        expires_ms = record.timestamp_ms + facts.ttl_ms if facts.ttl_ms >= 0 else 0
        return DeviceMessage(name, bytes(record.value or b""), facts.qos, facts.retain, headers, expires_ms)

    # Sessions

    def load_session(
        self, session: DeviceSession, subscriptions: Sequence[SubscriptionEntry], *, has_queue: bool
    ) -> None:
        """One that is stored."""
        self.sessions[session.client_id] = session
        if has_queue:
            session.queue = self.queues.find(self.namespace, session.queue_name)
        for entry in subscriptions:
            self._add(session, entry)

    def resume_groups(self) -> None:
        """Find the queues of shared subscriptions again, and let those go that nobody shares any more."""
        for queue in self.queues.all(self.namespace):
            if queue.name.startswith(SHARED_QUEUE_PREFIX):
                key = queue.name[len(SHARED_QUEUE_PREFIX) :].partition("/")
                group = self._groups.get((key[0], key[2]))
                if group is None:
                    self._devices.spawn(self._delete(queue))
                else:
                    group.queue = queue

    def expire_later(self, session: DeviceSession) -> None:
        """It has no connection: its time runs."""
        expiry_s = min(session.expiry_s, self.limits.session_expiry_s_max)
        heapq.heappush(self._expiring, (session.ended_ms + expiry_s * 1000, session.client_id, session.number))

    def expire(self, now_ms: int) -> None:
        """End sessions whose time has passed; publish wills that are due."""
        while self._expiring and self._expiring[0][0] <= now_ms:
            due_ms, client_id, number = heapq.heappop(self._expiring)
            session = self.sessions.get(client_id)
            if session is None or session.number != number or session.receiver is not None:
                continue
            expiry_s = min(session.expiry_s, self.limits.session_expiry_s_max)
            if session.ended_ms + expiry_s * 1000 == due_ms:
                self._devices.spawn(self._locked(client_id, functools.partial(self._end_if_left, session)))

    async def begin(
        self, client_id: str, receiver: Receiver, user: str, *, clean: bool, expiry_s: int, will: WillEntry | None
    ) -> tuple[DeviceSession, bool]:
        """The session of a client that has connected, and whether it was there before; durable when answered.

        Another connection of the same client loses it. Raises TooManySessions, and kinds of MainstemError.
        """
        return await self._locked(client_id, lambda: self._begin(client_id, receiver, user, clean, expiry_s, will))

    async def _begin(
        self, client_id: str, receiver: Receiver, user: str, clean: bool, expiry_s: int, will: WillEntry | None
    ) -> tuple[DeviceSession, bool]:
        session = self.sessions.get(client_id)
        if session is not None and session.receiver is not None:
            session.receiver.taken_over()
            session = self.sessions.get(client_id)
        if session is not None and (clean or not session.is_kept):
            await self.end(session)
            session = None
        is_present = session is not None
        state: list[Mutation] = []
        if session is None:
            if len(self.sessions) >= self.limits.sessions_max:
                raise TooManySessions(f"there are {self.limits.sessions_max} sessions")
            session = self.sessions[client_id] = DeviceSession(
                self.namespace, client_id, self._devices.next_number(), expiry_s, user
            )
        elif will is None:
            state += session.forget_will()
        session.expiry_s, session.ended_ms, session.user = expiry_s, 0, user
        session.receiver = receiver
        session.will = will
        if session.queue is not None and session.queue.is_gone:  # deleted by an administrator
            session.queue = await self.queues.declare(self.namespace, session.queue_name, QUEUE)
            self._trie.generation += 1
        if will is not None:
            state.append(put_will(will))
        if session.is_kept:
            state.append(put_session(session.entry()))
        if state:
            self.queues.outbox.mutate(state)
            await self.queues.outbox.wait_durable()
        return session, is_present

    def resume(self, session: DeviceSession) -> None:
        """The client knows that it is connected: attach what waits for it."""
        receiver = session.receiver
        if receiver is None:
            return
        if session.queue is not None:
            receiver.attach(session.queue, None)
        for subscription in session.subscriptions.values():
            if subscription.group is not None and subscription.group.queue is not None:
                receiver.attach(subscription.group.queue, subscription.group)

    def leave(self, session: DeviceSession, receiver: Receiver, *, with_will: bool) -> None:
        """A connection has ended."""
        if session.receiver is not receiver:
            return
        session.receiver = None
        now_ms = session.ended_ms = self.now_ms()
        state: list[Mutation] = []
        if session.will is not None:
            if with_will:
                state += self._will_of(session, now_ms)
            else:
                state += session.forget_will()
        if session.is_kept and session.expiry_s:
            state.append(put_session(session.entry()))
            self.expire_later(session)
        else:
            self._devices.spawn(self._locked(session.client_id, lambda: self._end_if_left(session)))
        if state:
            self.queues.outbox.mutate(state)

    async def _end_if_left(self, session: DeviceSession) -> None:
        if session.receiver is None and not session.is_gone:
            await self.end(session)

    async def end(self, session: DeviceSession) -> None:
        """Nothing is left of a session."""
        if session.is_gone:
            return
        session.is_gone = True
        if self.sessions.get(session.client_id) is session:
            del self.sessions[session.client_id]
        if session.will is not None and session.will.due_ms:
            self._publish_will(session)
        for text in list(session.subscriptions):
            await self._remove(session, text)
        if session.queue is not None:
            queue, session.queue = session.queue, None
            await self._delete(queue)
        if session.is_kept:
            self.queues.outbox.mutate(session.forget())
            await self.queues.outbox.wait_durable()

    async def _delete(self, queue: Queue) -> None:
        if not queue.is_gone:
            try:
                await self.queues.delete(queue)
            except MainstemError as error:
                log.warning("queue %s of a session that has ended stays: %s", queue.name, error)

    async def _locked(self, client_id: str, work: Callable[[], Awaitable[T]]) -> T:
        """One change of a client's session after the other."""
        lock = self._underway.get(client_id)
        if lock is None:
            lock = self._underway[client_id] = asyncio.Lock()
        try:
            async with lock:
                return await work()
        finally:
            if not lock.locked() and not lock._waiters and self._underway.get(client_id) is lock:
                del self._underway[client_id]

    # Wills

    def _will_of(self, session: DeviceSession, now_ms: int) -> list[Mutation]:
        """The client has vanished: its will is published now, or when its delay is over, or its session."""
        will = session.will
        assert will is not None
        delay_s = min(will.delay_s, session.expiry_s if session.expiry_s != NEVER else will.delay_s)
        if not delay_s:
            self._publish_will(session)
            return []
        will = session.vanished(will, now_ms + delay_s * 1000)
        self.wait_for_will(session, will)
        return [put_will(will)]

    def wait_for_will(self, session: DeviceSession, will: WillEntry) -> None:
        """Publish it when it is due, unless its client comes back."""
        delay_s = max(will.due_ms - self.now_ms(), 0) / 1000

        def due() -> None:
            if session.will is will:
                self._publish_will(session)

        self.clock.call_later(delay_s, due)

    def _publish_will(self, session: DeviceSession) -> None:
        will = session.will
        if will is None:
            return
        state = tuple(session.forget_will())
        headers = encode_headers(will.headers)
        publication = Publication(
            will.topic, will.payload, will.qos, will.retain, headers, will.expiry_s, session, state
        )
        try:
            outcome = self.publish(publication)
        except MainstemError as error:
            log.warning("the will of client %r cannot be published: %s", session.client_id, error)
            self.queues.outbox.mutate(state)
            return
        if outcome == REFUSED:  # the disk is full: it stays stored, and is tried again
            session.will = msgspec.structs.replace(will, due_ms=self.now_ms() + 1000)
            self.wait_for_will(session, session.will)

    # Subscriptions

    async def subscribe(self, session: DeviceSession, entries: Sequence[SubscriptionEntry]) -> list[bool]:
        """Each of them, durable when answered; answers which of them are new. Raises kinds of MainstemError."""
        return await self._locked(session.client_id, lambda: self._subscribe(session, entries))

    async def _subscribe(self, session: DeviceSession, entries: Sequence[SubscriptionEntry]) -> list[bool]:
        new = [entry.filter not in session.subscriptions for entry in entries]
        if len(session.subscriptions) + sum(new) > self.limits.subscriptions_max:
            raise TooManySessions(f"a session has at most {self.limits.subscriptions_max} subscriptions")
        needs_queue = any(entry.qos and not check_filter(entry.filter).group for entry in entries)
        if session.is_kept and needs_queue and session.queue is None:
            session.queue = await self.queues.declare(self.namespace, session.queue_name, QUEUE)
            if session.receiver is not None:
                session.receiver.attach(session.queue, None)
        for entry in entries:
            self._remove_now(session, entry.filter, keeps_group=True)
            subscription = self._add(session, entry)
            if subscription.group is not None:
                await self._share(subscription, subscription.group)
        if session.is_kept:
            self.queues.outbox.mutate([put_session(session.entry()), *self.following.positions(all_of_them=True)])
            await self.queues.outbox.wait_durable()
        return new

    def _add(self, session: DeviceSession, entry: SubscriptionEntry) -> Subscription:
        shared = check_filter(entry.filter)
        group: Group | None = None
        if shared.group:
            group = self._groups.get(shared)
            if group is None:
                group = self._groups[shared] = Group(shared.group, shared.filter)
                self._trie.add(shared.filter, group)
        subscription = Subscription(session, entry, shared.filter, group)
        session.subscriptions[entry.filter] = subscription
        if group is None:
            self._trie.add(shared.filter, subscription)
        else:
            group.members.append(subscription)
        return subscription

    async def _share(self, subscription: Subscription, group: Group) -> None:
        if subscription.entry.qos and group.queue is None:
            name = f"{SHARED_QUEUE_PREFIX}{group.name}/{group.filter}"
            group.queue = await self.queues.declare(self.namespace, name, QUEUE)
            self._trie.generation += 1  # who asks for queues learns of it
            for member in group.members:
                if member.session.receiver is not None:
                    member.session.receiver.attach(group.queue, group)
        elif group.queue is not None and subscription.session.receiver is not None:
            subscription.session.receiver.attach(group.queue, group)

    async def unsubscribe(self, session: DeviceSession, filters: Sequence[str]) -> list[bool]:
        """Answers which of them were there; durable when answered."""
        return await self._locked(session.client_id, lambda: self._unsubscribe(session, filters))

    async def _unsubscribe(self, session: DeviceSession, filters: Sequence[str]) -> list[bool]:
        found = [await self._remove(session, text) for text in filters]
        if session.is_kept and any(found):
            self.queues.outbox.mutate([put_session(session.entry())])
            await self.queues.outbox.wait_durable()
        return found

    async def _remove(self, session: DeviceSession, text: str) -> bool:
        group = self._remove_now(session, text)
        if group is None:
            return False
        if isinstance(group, Group) and not group.members and group.queue is not None:
            queue, group.queue = group.queue, None
            await self._delete(queue)
        return True

    def _remove_now(self, session: DeviceSession, text: str, *, keeps_group: bool = False) -> Group | bool | None:
        subscription = session.subscriptions.pop(text, None)
        if subscription is None:
            return None
        group = subscription.group
        if group is None:
            self._trie.remove(subscription.filter, subscription)
            return True
        group.members.remove(subscription)
        if group.queue is not None and session.receiver is not None and not keeps_group:
            session.receiver.detach(group.queue)
        if not group.members and not keeps_group:
            self._trie.remove(group.filter, group)
            del self._groups[group.name, group.filter]
        return group
