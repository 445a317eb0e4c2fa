"""Where records go when their time has come: through an exchange to queues, or straight to a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import msgspec

from mainstem.broker.clock import Clock
from mainstem.broker.envelopes import Envelopes
from mainstem.broker.publication import Put
from mainstem.coordination.catalog.catalog import Topic
from mainstem.coordination.catalog.partitioning import partition_of
from mainstem.coordination.commit_addition import CommitAddition, SealedAddition
from mainstem.coordination.routes.errors import UnknownExchange
from mainstem.coordination.schedules.scheduled_record import Letter
from mainstem.model.errors import MainstemError, StorageFull
from mainstem.storage.contract import Append
from mainstem.wire.messages.header_block import decode_headers
from mainstem.wire.messages.message import Message
from mainstem.wire.record_batch import encode_batch, stamp_log_append_time

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue
    from mainstem.broker.routes import Routes

_NO_LANE: Any = None
"""Of a message that is in no queue yet."""


Again: TypeAlias = Callable[[Letter, int], object]
"""Takes a record that is due at another time, as part of the addition."""


class Delivery(Protocol):
    """Publishes, as far as there is somewhere to."""

    async def deliver(self, letters: Sequence[Letter], addition: CommitAddition, again: Again) -> None:
        """All of them and the addition in one commit, or nothing: then it raises why.

        What has no target any more is left out; what is to wait once more is put in `again`.
        """


class Outbox(Protocol):
    """Where commits to queues are made."""

    is_full: bool
    """Whether the disk is, so that nothing is taken."""

    def add(self, addition: CommitAddition) -> None:
        """Commit this with what is published in this turn."""

    def grow(self, size: int) -> None:
        """An addition has become larger."""

    async def commit_transaction(
        self, puts: Sequence[Put], settle: Callable[[], None] = ..., addition: CommitAddition | None = None
    ) -> list[int]:
        """All of it in one commit."""


class Sharing:
    """An Extra: another one, and batches for the logs of topics."""

    def __init__(self, addition: CommitAddition, batches: Sequence[Append]) -> None:
        self._addition = addition
        self._batches = batches

    def seal(self) -> SealedAddition:
        """Both."""
        sealed = self._addition.seal()
        return SealedAddition([*sealed.appends, *self._batches], sealed.state)

    def resolved(self, outcome: Sequence[int] | MainstemError) -> None:
        """Tell the other one what is its own."""
        own = outcome[: len(outcome) - len(self._batches)] if isinstance(outcome, Sequence) else outcome
        self._addition.resolved(own)


class _Arriving(NamedTuple):
    """What goes to one log of a topic."""

    topic: Topic
    letters: list[Letter]

    def encode(self, now_ms: int) -> bytearray:
        """As one batch."""
        batch = encode_batch(
            (
                offset,
                now_ms if letter.timestamp_ms < 0 else letter.timestamp_ms,
                letter.key,
                letter.value,
                decode_headers(letter.headers),
            )
            for offset, letter in enumerate(self.letters)
        )
        if self.topic.is_stamped:
            stamp_log_append_time(batch, now_ms)
        return batch


class BrokerDelivery:
    """To the queues and topics of a broker."""

    def __init__(
        self,
        clock: Clock,
        routes: Routes,
        topic_of: Callable[[str, str], Topic | None],
        queue_of: Callable[[str, str], Queue | None],
        outbox: Outbox,
        envelopes: Envelopes,
    ) -> None:
        self._clock = clock
        self._routes = routes
        self._topic_of = topic_of
        self._queue_of = queue_of
        self._outbox = outbox
        self._envelopes = envelopes
        self._turn = 0
        self.unroutable_total = 0

    async def deliver(self, letters: Sequence[Letter], addition: CommitAddition, again: Again) -> None:
        """Publish in one commit. Raises its refusal."""
        puts: list[Put] = []
        by_log: dict[int, _Arriving] = {}
        for letter in letters:
            queues = self._queues(letter, again)
            if queues:
                put = Put(queues, letter.headers, letter.value or b"", letter.key, letter.ttl_ms, letter.priority)
                puts.append(put)
            elif letter.target.exchange is None and (place := self._place_of(letter)) is not None:
                topic, log_id = place
                by_log.setdefault(log_id, _Arriving(topic, [])).letters.append(letter)
            else:
                self.unroutable_total += 1
        if self._outbox.is_full:
            refusal = StorageFull("the disk is full")
            addition.seal()
            addition.resolved(refusal)
            raise refusal
        if by_log:
            addition = Sharing(addition, self._batches(by_log))
        await self._outbox.commit_transaction(puts, addition=addition)

    def _queues(self, letter: Letter, again: Again) -> list[Queue]:
        target = letter.target
        if target.exchange is None:
            names: Iterable[str] = (target.topic,) if target.partition < 0 else ()
        else:
            names = self._route(letter, target.exchange, again)
        found = (self._queue_of(target.namespace, name) for name in names)
        return [queue for queue in found if queue is not None]

    def _route(self, letter: Letter, exchange: str, again: Again) -> Iterable[str]:
        target = letter.target
        message = Message(_NO_LANE, -1, letter.created_ms, letter.key, letter.headers, letter.value or b"", 0)
        try:
            routed = self._routes.of(target.namespace).route_all(
                exchange,
                target.routing_keys,
                lambda: self._envelopes.headers_of(message),
                lambda: self._envelopes.properties_of(message),
                due=True,
            )
        except UnknownExchange:
            return ()
        for further in routed.delayed:
            there = msgspec.structs.replace(target, exchange=further.exchange)
            again(msgspec.structs.replace(letter, target=there), self._clock.now_ms() + further.delay_ms)
        return routed.queues

    def _place_of(self, letter: Letter) -> tuple[Topic, int] | None:
        topic = self._topic_of(letter.target.namespace, letter.target.topic)
        if topic is None:
            return None
        partition = letter.target.partition
        if partition < 0:
            self._turn += 1
            partition = (
                self._turn % len(topic.logs) if letter.key is None else partition_of(letter.key, len(topic.logs))
            )
        return (topic, topic.logs[partition]) if partition < len(topic.logs) else None

    def _batches(self, by_log: Mapping[int, _Arriving]) -> list[Append]:
        now_ms = self._clock.now_ms()
        return [Append(log_id, arriving.encode(now_ms)) for log_id, arriving in by_log.items()]
