"""Records of topics, held under a subscription: share groups of the same name compete for them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from mainstem.broker.acquisitions.holds import AcquisitionRequest, SettledStretches, Tried, add
from mainstem.broker.catalog.topics import Topics
from mainstem.broker.dead_letters.facts import MESSAGES, Condemned
from mainstem.broker.dead_letters.record_letters import RecordLetters
from mainstem.broker.groups.share_groups import ShareGroups
from mainstem.broker.queues import Put
from mainstem.broker.subscriptions.changes_underway import ChangesUnderway
from mainstem.coordination.acquisitions.acquisition import Acquisition, RecordVerdict, Source, Stretch, Stretches
from mainstem.coordination.acquisitions.acquisitions import STRETCHES_MAX
from mainstem.coordination.dead_letters.deaths import Reason
from mainstem.coordination.errors import UnknownGroup, UnknownTopic, UnsuitableSource
from mainstem.coordination.subscriptions.cursor import NEVER, Counts
from mainstem.coordination.subscriptions.delivery_policy import DeliveryPolicy
from mainstem.coordination.subscriptions.leased_cursor import LeasedCursor
from mainstem.storage.contract import Append, Edge, Engine, Mutation


class TopicHolds:
    """Of all subscriptions."""

    def __init__(self, engine: Engine, topics: Topics, groups: ShareGroups, letters: RecordLetters) -> None:
        self._engine = engine
        self._topics = topics
        self._groups = groups
        self._subscriptions = groups.subscriptions
        self._letters = letters

    def _logs(self, names: Sequence[str]) -> list[int]:
        known = self._topics.named()
        for name in names:
            if name not in known:
                raise UnknownTopic(f"topic {name}")
        return [log for name in sorted(names) for log in known[name].logs]

    def _check_group(self, name: str) -> None:
        try:
            self._groups.check_kind(name)
        except UnknownGroup:
            raise UnsuitableSource(
                f"{name} is a consumer group, which has its own offsets: choose another name"
            ) from None

    async def take(self, source: Source, wish: AcquisitionRequest) -> Stretches:
        """Each partition has its share of what is wanted; what one does not have, others may give."""
        logs = self._logs(wish.topics)
        self._check_group(source.name)
        await self._groups.ensure(source.name)
        place = {"earliest": Edge.START, "latest": Edge.END, None: None}[wish.starting]
        for log in logs:
            await self._groups.open(source.name, log, place)
        taken: dict[int, list[Stretch]] = {}
        left = wish.records_max
        try:
            before = -1
            while left not in (0, before):
                before = left
                for at, log in enumerate(logs):
                    share = -(-left // (len(logs) - at))
                    if share > 0 and _count(taken) < STRETCHES_MAX:
                        left -= await self._take(source, log, share, wish, taken)
        except BaseException:
            self.free(source, taken)
            raise
        return {log: sorted(held) for log, held in taken.items()}

    async def _take(
        self, source: Source, log: int, records: int, wish: AcquisitionRequest, taken: dict[int, list[Stretch]]
    ) -> int:
        until = None if wish.until is None else wish.until.get(log, 0)
        given = [Stretch(*one) for one in await self._subscriptions.hold(source.name, log, records, until)]
        room = STRETCHES_MAX - _count(taken)
        self.free(source, {log: given[room:]})
        for stretch in given[:room]:
            add(taken, log, stretch)
        return sum(last - first + 1 for first, last, _ in given[:room])

    async def ends(self, source: Source, topics: Sequence[str]) -> Mapping[int, int]:
        """The last stable offset of each partition."""
        self._check_group(source.name)
        return {log: (await self._engine.offset_at(log, Edge.STABLE)).offset for log in self._logs(topics)}

    def free(self, source: Source, stretches: Stretches) -> None:
        """Back, as if nothing had been."""
        cursors = self._subscriptions.cursors(source.name)
        for log, held in stretches.items():
            if log in cursors:
                for first, last, _ in held:
                    cursors[log].free(first, last)
        if any(stretches.values()):
            self._subscriptions.wake(source.name)

    def hold_again(self, one: Acquisition) -> None:
        """Not free, whatever was stored of the subscription."""
        cursors = self._subscriptions.cursors(one.source.name)
        for log, (first, last, _) in one.held():
            if log in cursors:
                cursors[log].hold_again(first, last)

    async def judge(
        self, one: Acquisition, judged: Iterable[tuple[int, Stretch, RecordVerdict]], now_ms: int
    ) -> TopicPart:
        """By the group's limit of deliveries; dead letters go where the group's settings say."""
        name = one.source.name
        policy = self._groups.configs.rules(name).policy
        cursors = self._subscriptions.cursors(name)
        part = TopicPart(self, one.source)
        condemned: dict[int, list[Condemned]] = {}
        for log, stretch, verdict in judged:
            if log not in cursors:
                continue  # the topic is gone
            delay_ms = _delay(policy, stretch, verdict)
            if verdict.kind == "accept":
                add(part.settled, log, stretch)
            elif verdict.kind == "reject" or delay_ms is None:
                why: Reason = "rejected" if verdict.kind == "reject" else "delivery_limit"
                error = verdict.reason or MESSAGES[why]
                condemned.setdefault(log, []).extend(_condemned(cursors[log], stretch, why, error))
                add(part.settled, log, stretch)
            else:
                if delay_ms:
                    due = dict.fromkeys(range(stretch.first, stretch.last + 1), now_ms + delay_ms)
                    part.rests.setdefault(log, {}).update(due)
                else:
                    add(part.returned, log, stretch)
                part.tried.setdefault(log, []).append(Tried(stretch, verdict.failed))
        for log, of_log in condemned.items():
            part.dead += await self._letters.of_records(name, log, policy.dead_letter, of_log)
        return part

    def cursors(self, source: Source) -> Mapping[int, LeasedCursor]:
        """As they are now."""
        return self._subscriptions.cursors(source.name)

    def watch(self, source: Source) -> None:
        """Something rests, and is to be free again in time."""
        self._subscriptions.watch(source.name)

    def take_changes(self, source: Source, cursors: Sequence[LeasedCursor]) -> ChangesUnderway:
        """To be stored with a commit."""
        return self._subscriptions.take_changes(source.name, cursors)


class TopicPart:
    """What becomes of one acquisition."""

    def __init__(self, holds: TopicHolds, source: Source) -> None:
        self._holds = holds
        self._source = source
        self.settled: dict[int, list[Stretch]] = {}
        self.tried: dict[int, list[Tried]] = {}
        self.returned: dict[int, list[Stretch]] = {}
        self.rests: dict[int, dict[int, int]] = {}
        self.dead: list[Append] = []
        self._applied: list[SettledStretches] = []
        self._cursors: Mapping[int, LeasedCursor] = {}
        self._underway: ChangesUnderway | None = None

    def letters(self) -> Sequence[Put]:
        """Not to queues."""
        return ()

    def apply(self) -> None:
        """Settle, and count what is tried again."""
        self._cursors = cursors = dict(self._holds.cursors(self._source))
        self._applied = [SettledStretches(cursors[log], held) for log, held in self.settled.items() if log in cursors]
        for settled in self._applied:
            settled.apply()
            for first, last, _ in settled.stretches:
                settled.cursor.unacquire(first, last)
        for log, tried in self._tried():
            tried.note(cursors[log])
        for cursor, offset, due_ms in self._resting():
            cursor.rest(offset, due_ms)

    def _resting(self) -> list[tuple[LeasedCursor, int, int]]:
        return [
            (self._cursors[log], offset, due_ms)
            for log, rests in self.rests.items()
            if log in self._cursors
            for offset, due_ms in rests.items()
            if offset >= self._cursors[log].floor
        ]

    def _tried(self) -> list[tuple[int, Tried]]:
        return [(log, tried) for log, of_log in self.tried.items() if log in self._cursors for tried in of_log]

    def appends(self) -> Sequence[Append]:
        """Dead letters. The engine owns what it was given: another attempt needs buffers of its own."""
        return [Append(append.log, bytearray(append.batch)) for append in self.dead]

    def state(self) -> Sequence[Mutation]:
        """Of all cursors that were touched."""
        touched = [cursor for log, cursor in self._cursors.items() if log in self.settled or log in self.tried]
        self._underway = self._holds.take_changes(self._source, touched)
        return self._underway.changes

    def revert(self) -> None:
        """Nothing was settled, and nothing tried."""
        for settled in self._applied:
            settled.revert()
            for first, last, _ in settled.stretches:
                settled.cursor.acquire(first, last)
        for log, tried in self._tried():
            tried.revert(self._cursors[log])
        for cursor, offset, _ in self._resting():
            cursor.end_rest(offset)
        if self._underway is not None:
            self._underway.put_back()
            self._underway = None

    def done(self) -> None:
        """What is tried again at once is free."""
        if self._underway is not None:
            self._underway.stored()
            self._underway = None
        for cursor, offset, _ in self._resting():
            cursor.free_resting(offset)
        self._holds.free(self._source, self.returned)
        if self.rests:
            self._holds.watch(self._source)


def _delay(policy: DeliveryPolicy, stretch: Stretch, verdict: RecordVerdict) -> int | None:
    """How long records that are given back rest; None: they were given out too often."""
    if verdict.kind not in ("retry", "return"):
        return verdict.delay_ms
    counts = Counts(stretch.deliveries, 0)
    return policy.delay_ms(counts, failed=verdict.failed, delay_ms=verdict.delay_ms, random=random.random)


def _condemned(cursor: LeasedCursor, stretch: Stretch, why: Reason, error: str) -> Iterable[Condemned]:
    for offset in range(max(stretch.first, cursor.floor), stretch.last + 1):
        failures = cursor.counts.get(offset, NEVER).failures + 1
        yield Condemned(offset, why, stretch.deliveries, failures, error)


def _count(stretches: Stretches) -> int:
    return sum(map(len, stretches.values()))
