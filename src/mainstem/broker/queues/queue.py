"""A queue: lanes with messages, consumers that are given them, and the rules between the two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from mainstem.broker.queues.delivery.consumers import Consumer, Rota, bytes_of
from mainstem.broker.queues.delivery.dispatch_rules import DispatchRule, KeyedDispatch, SelectiveDispatch, Wants
from mainstem.broker.queues.delivery.priority_lane import URGENT_FROM, take_by_turns
from mainstem.broker.queues.delivery.sieve import Sieve
from mainstem.broker.queues.publishing.outcome import HOLD, REFUSED, TAKEN
from mainstem.coordination.catalog.partitioning import partition_of
from mainstem.coordination.errors import QueueBusy
from mainstem.coordination.queues.entries import SCOPE
from mainstem.coordination.queues.lane import Lane
from mainstem.coordination.queues.properties import Ordering, QueueProperties
from mainstem.coordination.queues.window import AT_ONCE
from mainstem.wire.messages.header_block import ttl_of
from mainstem.wire.messages.message import Message

if TYPE_CHECKING:
    from mainstem.broker.queues.delivery.streams import StreamReader
    from mainstem.broker.queues.parts import QueueParts
    from mainstem.broker.queues.stored import StoredLogs
    from mainstem.coordination.queues.entries import QueueEntry

QueueLane: TypeAlias = "Lane[Queue]"

EXPIRED_AT_ONCE = 256
"""Messages that expire in one turn: the first dead letters are on their way while others are still being made."""
NO_LIMIT = 1 << 62


class Queue:
    """One queue. Made by `Queues`."""

    __slots__ = (
        "_expired",
        "_getters",
        "_is_arriving",
        "_is_dispatching",
        "_lookers",
        "_parts",
        "_rule",
        "_turn",
        "acknowledged",
        "consumers",
        "delivered",
        "dropped",
        "expired",
        "got",
        "had_consumers",
        "has_levels",
        "has_ttl",
        "incoming",
        "is_borrowed",
        "is_gone",
        "is_limited",
        "is_paused",
        "is_plain",
        "lanes",
        "logs",
        "lost",
        "may_expire",
        "name",
        "namespace",
        "ordering",
        "owner",
        "policy",
        "properties",
        "readers",
        "redelivered",
        "refused",
        "rules",
        "sieve",
        "spare_log",
        "stored",
        "topic_name",
        "used_ms",
        "window_max",
    )  # fmt: skip

    def __init__(
        self,
        parts: QueueParts,
        entry: QueueEntry,
        rules: QueueProperties,
        stored: StoredLogs,
        owner: object | None = None,
    ) -> None:
        self._parts = parts
        self.stored = stored
        """What is stored of its logs, and nobody asked for yet."""
        self.namespace = entry.namespace
        self.name = entry.name
        properties = self.properties = entry.properties
        """As declared."""
        self.rules = rules
        """In force: what was declared, and what policies add to it."""
        self.logs = entry.logs
        self.topic_name = entry.topic_name
        """As clients that know topics see it; None: they do not."""
        self.is_borrowed = entry.is_borrowed
        """Whether the logs are a topic's that was there before the queue, and stays after it."""
        self.owner = owner
        """Who alone may use an exclusive queue."""
        self.spare_log = entry.spare_log
        """Of a quorum queue: the number of the log for urgent messages, while there was none."""
        self.has_levels = properties.priority_max > 0 or (properties.kind == "quorum" and not entry.is_borrowed)
        """Whether priorities count, and lanes are levels."""
        self.lanes: list[QueueLane] = []
        """One for each log; none until the queue is first used."""
        self.is_plain = False
        """Whether it has one lane, and is open."""
        self.consumers = Rota(properties.single_active)
        self.ordering: Ordering = "shared"
        """Who may work at the same time, now: other rules for that wait until nobody is attached."""
        self.had_consumers = self.is_gone = self.is_paused = False
        self.window_max = 0 if properties.kind == "stream" else parts.limits.window_messages_idle
        self.has_ttl = self.may_expire = False
        """Whether there was ever a message that expires."""
        self.is_limited = False
        self.incoming = self.lost = 0
        """Of a limited queue: messages that are being published. Of a borrowed one: what retention took unsettled."""
        self.delivered = self.got = self.acknowledged = self.redelivered = self.expired = self.dropped = (
            self.refused
        ) = 0
        """Messages since the start: given to consumers, taken one by one, settled, given back; and let go of: too old, too many,
        not taken at all."""
        self.used_ms = parts.now_ms()
        self._turn = 0
        self._is_dispatching = self._is_arriving = False
        """Whether something has come just now: what does not wait is given out only while it is arriving."""
        self._getters: list[Callable[[Message | None], None]] = []
        self._expired: list[Message] = []
        self._lookers: tuple[Callable[[], None], ...] = ()
        self.readers: dict[Consumer, StreamReader] | None = {} if properties.kind == "stream" else None
        """Of a stream: how far each consumer is."""
        self._rule: DispatchRule | None = None
        """Where not every message is for every consumer: by key, by unit, or while a consumer does not want all."""
        self.sieve: Sieve | None = None
        """What of the log is for it, and when. None: all, at once."""
        self._apply(rules)

    def __repr__(self) -> str:
        return f"<queue {self.name} of {self.namespace}>"

    # Questions

    @property
    def is_beside(self) -> bool:
        """Whether it is one of perhaps many subscriptions of a topic."""
        return self.stored.scope != SCOPE

    @property
    def is_stored(self) -> bool:
        """Whether what is settled is stored."""
        return self.properties.is_lasting or (self.is_borrowed and not self.is_beside)

    @property
    def ready_count(self) -> int:
        """Messages that wait, as far as the engine has said: `Queues.know` waits for that.

        To ask this of a queue that nobody uses does not make it one that takes memory.
        """
        if not self.lanes and self.readers is None:
            count = self._parts.lanes.count_unopened(self)
            if count is not None:
                return count
        self.open()
        if self.readers is not None:
            return self._parts.streams.count(self)
        return sum([lane.ready_count for lane in self.lanes])

    @property
    def is_opening(self) -> bool:
        """Whether the engine has not said yet what there is."""
        return self._parts.lanes.is_opening(self)

    @property
    def published(self) -> int:
        """Messages that came since it was first used."""
        return sum([lane.end - lane.opened_at for lane in self.lanes])

    @property
    def unsettled_count(self) -> int:
        """Messages that were given out and not settled."""
        return sum([len(lane.unsettled) + lane.cursor.acquired_count for lane in self.lanes])

    @property
    def consumer_count(self) -> int:
        """How many are attached."""
        return len(self.consumers.all)

    # Lanes

    def when_known(self, callback: Callable[[], None]) -> None:
        """Call back when the engine has said what there is: now, if it has."""
        self._parts.lanes.when_known(self, callback)

    def open(self) -> None:
        """Make the lanes, if they are not there."""
        if not self.lanes and not self.is_gone:
            self.lanes = self._parts.lanes.open_all(self)
            self.is_plain = len(self.lanes) == 1

    def lane_of(self, priority: int, key: bytes | None = None) -> QueueLane:
        """Where a message goes: by its priority; in a borrowed topic by its key, as Kafka's producers choose, or in turn."""
        self.open()
        if self.has_levels:
            if self.properties.priority_max:
                return self.lanes[min(max(priority, 0), self.properties.priority_max)]
            if priority < URGENT_FROM:
                return self.lanes[0]
            return self._parts.priority_lanes.make(self) if self.spare_log else self.lanes[-1]
        if len(self.lanes) == 1:
            return self.lanes[0]
        if key is not None:
            return self.lanes[partition_of(key, len(self.lanes))]
        self._turn += 1
        return self.lanes[self._turn % len(self.lanes)]

    def expiry(self, now_ms: int, ttl_ms: int) -> int:
        """When a message of this age expires: by its own time to live (-1: none) or the queue's, whichever is shorter."""
        mine = self.rules.message_ttl_ms
        if mine is not None and (ttl_ms < 0 or mine < ttl_ms):
            ttl_ms = mine
        if ttl_ms < 0:
            return 0
        self.may_expire = True
        return min(now_ms + ttl_ms, NO_LIMIT) if ttl_ms else AT_ONCE

    # Rules

    def apply_rules(self, rules: QueueProperties) -> bool:
        """Take other rules, for ready messages too; answers whether they differ. Callers use `Queues.set_rules`."""
        if rules == self.rules:
            return False
        self._apply(rules)
        for lane in self.lanes:
            for message in lane.ready:
                message.expires_ms = self.expiry(message.timestamp_ms, ttl_of(message.headers))
        return True

    def _apply(self, rules: QueueProperties) -> None:
        self.rules = rules
        self._take_ordering()
        self.policy = rules.policy
        self.has_ttl = rules.message_ttl_ms is not None
        self.may_expire = self.may_expire or self.has_ttl
        has_limit = rules.length_max is not None or rules.bytes_max is not None
        self.is_limited = has_limit and self.properties.kind != "stream"

    def _take_ordering(self) -> None:
        if self.consumers.all or self.rules.ordering == self.ordering:
            return
        self.ordering = self.rules.ordering
        self.consumers.is_single = self.properties.single_active or self.ordering in ("failover", "exclusive")
        self._rule = KeyedDispatch() if self.ordering == "key" else None

    # Limits

    def judge_publish(self, headers: bytes, value: bytes | memoryview, key: bytes | None) -> int:
        """Whether a limited queue takes one more message."""
        if self.rules.overflow != "drop-head" and self.is_opening:
            # It may be full: one that publishes waits until that is known, with what it has published already.
            self.incoming += 1
            self._parts.outbox.full_queues.add(self)
            return HOLD
        if self.rules.overflow != "drop-head" and self.is_over(self.incoming, 1):
            if self.rules.overflow == "back-pressure":
                self.incoming += 1
                self._parts.outbox.full_queues.add(self)
                return HOLD
            self.refused += 1
            if self.rules.overflow == "reject-publish-dlx":
                self._parts.settling.bury_refused(self, headers, value, key)
            return REFUSED
        self.incoming += 1
        return TAKEN

    def refuses(self) -> bool:
        """Whether it takes no more messages now, and says so to publishers."""
        refuses = self.is_limited and self.rules.overflow in ("reject-publish", "reject-publish-dlx")
        return refuses and self.is_over(self.incoming, 1)

    def came(self, count: int) -> None:
        """`count` messages that were being published are here, or will never be."""
        if self.is_limited:
            self.incoming = max(self.incoming - count, 0)

    def returned(self) -> None:
        """Messages were given back."""
        if self.is_limited and self.rules.overflow == "drop-head" and self.is_over():
            self._parts.dispatcher.arrived(self)

    def is_over(self, incoming: int = 0, more: int = 0) -> bool:
        """Whether there are more messages than allowed, counting these."""
        rules = self.rules
        if rules.length_max is not None and self.ready_count + incoming + more > rules.length_max:
            return True
        return rules.bytes_max is not None and self.ready_bytes + more > rules.bytes_max

    @property
    def ready_bytes(self) -> int:
        """Bytes of the messages that wait; of what is not in memory, as many as its share of the others."""
        total = 0
        for lane in self.lanes:
            total += lane.ready_bytes
            rest = lane.ready_count - len(lane.ready)
            if rest > 0:
                total += rest * lane.bytes_average
        return total

    # Consumers

    def attach(self, consumer: Consumer, wants: Wants | None = None) -> None:
        """Begin to serve, with all messages or those that it wants; not before the end of this turn. Raises QueueBusy."""
        assert wants is None or self.readers is None, "a stream is read whole"
        if self.ordering == "exclusive" and self.consumers.all:
            raise QueueBusy(f"queue {self.name} serves one consumer alone")
        self.consumers.add(consumer)
        if wants is not None:
            rule = self._rule = self._rule or SelectiveDispatch()
            rule.wants[consumer] = wants
        self.had_consumers = True
        self.open()
        if self.readers is not None:
            self.readers[consumer] = self._parts.streams.begin(self, consumer)
        else:
            self.window_max = self._parts.limits.window_messages_max
        self.wake()

    def dispatch_by(self, rule: DispatchRule) -> None:
        """Give out by another rule than the queue's kind has."""
        self._rule = rule

    def prepare(self) -> None:
        """Reserve what comes first before it is there: else consumers get it one write to the disk later than need be."""
        for lane in self.lanes:
            if lane.tail >= lane.reserve_at:
                self._parts.lanes.reserve(lane)

    def detach(self, consumer: Consumer) -> None:
        """Serve no more. What it has not settled stays given out: its holder settles it or gives it back."""
        if self.readers is not None:
            reader = self.readers.pop(consumer, None)
            if reader is not None:
                reader.is_gone = True
        rule = self._rule
        if rule is not None and rule.wants.pop(consumer, None) is not None and isinstance(rule, SelectiveDispatch):
            self._rule = rule if rule.wants else None
        if self.consumers.remove(consumer):
            self.used_ms = self._parts.now_ms()
            if not self.consumers.all:
                self._take_ordering()
                self.window_max = 0 if self.readers is not None else self._parts.limits.window_messages_idle
                self._parts.deletion.last_consumer_left(self)
            self.wake()

    def wake(self) -> None:
        """Somebody has room again: look at the end of this turn."""
        self._parts.dispatcher.wake(self)

    def pause(self) -> None:
        """Give nothing out until `resume`."""
        self.is_paused = True

    def resume(self) -> None:
        """Give out again."""
        self.is_paused = False
        self.wake()

    def get_one(self, callback: Callable[[Message | None], None]) -> None:
        """One message, if there is one: at once if it is in memory, else when it was read."""
        self.open()
        self.used_ms = self._parts.now_ms()
        if self.is_paused or (self.consumers.is_single and self.consumers.active is not None):
            callback(None)
            return
        taken = self._take(1, NO_LIMIT)
        if taken:
            self.got += 1
            callback(taken[0])
        elif self._has_more():
            self._getters.append(callback)
            self.refill()
        else:
            callback(None)
        self._let_go_expired()

    def when_looked(self, callback: Callable[[], None]) -> None:
        """Call back once all was given out that can be now: nothing more is being read, or about to be called given out."""
        self._lookers = (*self._lookers, callback)
        self.wake()

    @property
    def _is_looking_on(self) -> bool:
        return self.is_opening or any(lane.is_reading or lane.is_reserving for lane in self.lanes)

    def take_now(self, count: int, size: int) -> list[Message]:
        """Give out what waits in memory, up to `count` messages and `size` bytes."""
        self.open()
        self.used_ms = self._parts.now_ms()
        if self.is_paused or (self.consumers.is_single and self.consumers.active is not None):
            return []
        taken = self._take(count, size)
        self._let_go_expired()
        return taken

    def give_back(self, messages: Iterable[Message]) -> None:
        """They were given out and are not wanted: as if they had not been."""
        self._parts.settling.requeue(messages, failed=False)

    # Giving out

    def dispatch_arrivals(self) -> None:
        """Give out what can be, with what does not wait."""
        self._is_arriving = True
        try:
            self.dispatch()
        finally:
            self._is_arriving = False

    def dispatch(self) -> None:
        """Give out what can be."""
        if self._is_dispatching or self.is_gone:
            return
        if self.readers is not None:
            for reader in list(self.readers.values()):
                if not self.is_paused:
                    reader.feed()
            return
        self._is_dispatching = True
        try:
            if self._getters:
                self._serve_getters()
            rota = self.consumers
            is_handing_over = rota.is_single and self._hands_over and rota.is_overtaken()
            if is_handing_over and not self.unsettled_count:  # What the active one has, it may finish.
                rota.take_over()
                is_handing_over = False
            if rota.all and not self.is_paused and not is_handing_over:
                while (able := rota.able()) and self._serve(able):
                    pass
            self._let_go_expired()
        finally:
            self._is_dispatching = False
        if rota.all or self._getters:
            self.refill()
        if self._lookers and not self._is_looking_on:
            lookers, self._lookers = self._lookers, ()
            for callback in lookers:
                callback()

    @property
    def _hands_over(self) -> bool:
        """Whether a consumer of a higher priority takes the place of the active one."""
        return self.properties.kind == "quorum" or self.ordering == "failover"

    def _serve(self, able: Sequence[Consumer]) -> bool:
        """One round; answers whether anything was given out."""
        if self._rule is not None:
            return self._rule.dispatch(self, able)
        if len(able) == 1:
            consumer = able[0]
            taken = self._take(consumer.room, bytes_of(consumer))
            if not taken:
                return False
            self.delivered += len(taken)
            self._note(consumer, taken)
            consumer.deliver(self, taken)
            return True
        # As many to each as the one with the least room may have, one by one in turn; for the others there is another round.
        count = len(able)
        taken = self._take(
            count * min([consumer.room for consumer in able]), min([bytes_of(consumer) for consumer in able])
        )
        self.consumers.served(len(taken))
        self.delivered += len(taken)
        for number, consumer in enumerate(able[: len(taken)]):
            given = taken[number::count]
            self._note(consumer, given)
            consumer.deliver(self, given)
        return bool(taken)

    def _note(self, consumer: Consumer, given: list[Message]) -> None:
        """Who is given what, once for each turn."""
        who = self.consumers.parties.get(consumer)
        if who is not None:
            self._parts.chronicle.gave(self.name, given, who)

    def _take(self, count: int, size: int) -> list[Message]:
        """Give out up to `count` messages and `size` bytes, but one at least."""
        if self.is_plain:
            return self.take_from(self.lanes[0], count, size)
        taken: list[Message] = []
        if self.has_levels and not self.properties.priority_max and len(self.lanes) > 1:
            taken, self._turn = take_by_turns(self.lanes, self._turn, count, size, self.take_from)
            return taken
        for lane in self.lanes_in_turn():
            if lane.ready:
                some = self.take_from(lane, count - len(taken), size)
                taken += some
                size -= sum([len(message.value) for message in some])
                if len(taken) >= count or size <= 0:
                    break
            if (lane.ready or lane.is_behind) and self.properties.priority_max:
                break  # What is more urgent is given out first, once it is read and reserved.
        return taken

    def lanes_in_turn(self) -> list[QueueLane]:
        """The most urgent first, where lanes are levels; else each is the first in turn."""
        if self.has_levels or len(self.lanes) < 2:
            return self.lanes[::-1]
        turn = self._turn % len(self.lanes)
        self._turn += 1
        return self.lanes[turn:] + self.lanes[:turn]

    def take_from(self, lane: QueueLane, count: int, size: int) -> list[Message]:
        """Give out messages of one lane, up to `count` and `size` bytes, but one at least."""
        ready = lane.ready
        if ready and ready[-1].offset >= lane.reserve_at:
            self._parts.lanes.reserve(lane)
            if ready[-1].offset >= lane.reserved:
                count = min(count, sum([message.offset < lane.reserved for message in ready]))
        now_ms = self._parts.now_ms() if self.may_expire else 0
        taken = lane.take(count, size, now_ms, self._expired)
        if self.may_expire and not self._is_arriving:
            while late := [message for message in taken if message.expires_ms == AT_ONCE]:
                self._expired += late
                taken = [message for message in taken if message.expires_ms != AT_ONCE]
                taken = taken or lane.take(count, size, now_ms, self._expired)
        if self.policy.lease_ms is not None:
            self._parts.settling.lease(lane, taken, self.policy.lease_ms)
        return taken

    def take_first(self, lane: QueueLane) -> Message | None:
        """The first message of a lane that has not expired: given out from now on."""
        taken = self.take_from(lane, 1, NO_LIMIT)
        return taken[0] if taken else None

    def renew(self, messages: Iterable[Message]) -> None:
        """They are worked on for longer: their leases begin anew."""
        lease_ms = self.policy.lease_ms
        if lease_ms is not None:
            messages = list(messages)
            for lane in self.lanes:
                self._parts.settling.lease(lane, [one for one in messages if one.lane is lane], lease_ms)

    def _serve_getters(self) -> None:
        getters, self._getters = self._getters, []
        for number, callback in enumerate(getters):
            taken = self._take(1, NO_LIMIT)
            if not taken and self._has_more():
                self._getters = getters[number:] + self._getters
                return
            self.got += len(taken)
            callback(taken[0] if taken else None)

    def _has_more(self) -> bool:
        """Whether there is something that cannot be given out yet: it is being read, or about to be called given out."""
        return self.is_opening or any(lane.is_behind or lane.ready for lane in self.lanes)

    def end_getters(self) -> None:
        """Nobody gets anything any more."""
        getters, self._getters = self._getters, []
        lookers, self._lookers = self._lookers, ()
        for callback in getters:
            callback(None)
        for looker in lookers:
            looker()

    def refill(self) -> None:
        """Read what follows, if the window runs low."""
        reader, low = self._parts.reader, self._parts.limits.window_messages_low
        for lane in self.lanes:
            if (
                lane.tail < lane.end
                and not lane.is_reading
                and len(lane.ready) < low
                and (not lane.ready or lane.holds_less(reader.window_bytes_max))
            ):
                reader.read(lane)

    # Expiring and overflowing

    def expire_head(self) -> int:
        """Let go of what has expired at the head; answers when to look again, 0: when something changes."""
        now_ms = self._parts.now_ms()
        due_ms = 0
        for lane in self.lanes:
            ready = lane.ready
            while ready and ready[0].expires_ms and ready[0].expires_ms <= now_ms:
                if len(self._expired) >= EXPIRED_AT_ONCE:
                    self._let_go_expired()
                    return now_ms + 1
                message = ready.popleft()
                lane.ready_bytes -= len(message.value)
                lane.unsettled[message.offset] = message
                self._expired.append(message)
            if ready and ready[0].expires_ms:
                due_ms = min(due_ms or ready[0].expires_ms, ready[0].expires_ms)
            elif not ready and lane.is_behind:
                self._parts.reader.read(lane)
        self._let_go_expired()
        return due_ms

    def _let_go_expired(self) -> None:
        if self._expired:
            expired, self._expired = self._expired, []
            self._parts.settling.reject(expired, "expired")

    def drop_head(self) -> None:
        """Let go of the first messages until no more are left than allowed."""
        dropped: list[Message] = []
        while self.is_over():
            taken = self._take(1, NO_LIMIT)
            if not taken:
                break
            dropped += taken
        if dropped:
            self._parts.settling.reject(dropped, "maxlen")
        self._let_go_expired()
        if self.is_over():
            self.refill()
