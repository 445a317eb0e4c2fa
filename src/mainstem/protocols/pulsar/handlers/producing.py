"""Producers, and what they send: what lay ready on a connection is handed to the log together, a commit for each entry."""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mainstem.broker.log import Answer, Append, Buffer, Commit, CommitResult, Committed
from mainstem.model.errors import MainstemError
from mainstem.protocols.pulsar.codec.frames import Entry, WrongChecksum, decode_entry, encode_command
from mainstem.protocols.pulsar.codec.schema import UINT64_MAX, Kind
from mainstem.protocols.pulsar.errors import CommandRefused, MalformedFrame, ServerError, code_of
from mainstem.protocols.pulsar.handlers.calls import Handler, Speaker
from mainstem.protocols.pulsar.handlers.schemas import schema_of
from mainstem.protocols.pulsar.handlers.topics import Log
from mainstem.protocols.pulsar.mapping.messages import records_of
from mainstem.protocols.pulsar.mapping.names import TopicName, topic_name
from mainstem.wire.record_batch import encode_batch, stamp_log_append_time

if TYPE_CHECKING:
    from mainstem.protocols.pulsar.handlers.parts import PulsarParts

SHARED, EXCLUSIVE, WAIT_FOR_EXCLUSIVE, EXCLUSIVE_WITH_FENCING = range(4)
"""Access modes."""
NAME_CHARACTERS_MAX = 1_024
CLOSED_IDS_MAX = 10_000
EPOCH = "epoch"
"""The fact how often a topic had a producer for itself."""
DEDUPLICATION = "deduplicationEnabled"
"""The policy that what a producer sends again is not stored again."""
REASON_CHARACTERS_MAX = 1_000
TERMINATED = "terminated"
"""The fact that nothing more is published to a topic."""


class Rules(NamedTuple):
    """What holds for a topic."""

    version: int
    """Of the book."""
    is_terminated: bool
    is_deduplicated: bool


class Producer:
    """One of a connection."""

    __slots__ = (
        "chunk", "connection", "epoch", "id", "is_exclusive", "log", "name", "rules", "schema_version", "sent",
        "since_ms", "topic_name",
    )  # fmt: skip

    def __init__(self, connection: Speaker, number: int, name: str, topic: TopicName, log: Log, epoch: int) -> None:
        self.connection = connection
        self.id = number
        self.name = name
        self.topic_name = topic
        self.log = log
        self.epoch = epoch
        self.is_exclusive = False
        self.rules: Rules | None = None
        self.schema_version = b""
        self.chunk = ""
        """The message whose chunks are being published."""
        self.since_ms = 0
        self.sent = 0
        """Messages so far."""


class Waiting(NamedTuple):
    """A producer that waits until it can have its topic for itself."""

    producer: Producer
    said: Any


class Attached:
    """The producers of one log."""

    def __init__(self) -> None:
        self.by_name: dict[str, Producer] = {}
        self.waiting: deque[Waiting] = deque()

    @property
    def owner(self) -> Producer | None:
        """Who has it for itself."""
        return next((one for one in self.by_name.values() if one.is_exclusive), None)


class Sent(NamedTuple):
    """An entry on its way to the log."""

    producer: Producer
    sequence: int
    highest: int
    whole: bytes | None
    """As it was sent; None: it was stored before."""
    before: int | None = None
    """The highest sequence before it, where that is kept."""


class Refused(NamedTuple):
    """An entry that is not taken."""

    producer: Producer
    sequence: int
    refusal: CommandRefused


class Pass:
    """What one connection sent while its frames were handed on."""

    __slots__ = ("commits", "sent")

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.sent: list[Sent | Refused] = []


class Producing:
    """Of all connections."""

    def __init__(self, parts: PulsarParts) -> None:
        self._parts = parts
        self._broker = parts.broker
        self._topics = parts.topics
        self._now_ms = parts.broker.clock.now_ms
        self._sequences = parts.broker.sequences
        self.attached: dict[int, Attached] = {}
        """By log."""
        self._names = 0
        self._run = os.urandom(4).hex()

    def handlers(self) -> dict[int, Handler]:
        """By type."""
        return {Kind.PRODUCER: self.produce, Kind.CLOSE_PRODUCER: self.close}

    # Coming and going

    async def produce(self, connection: Speaker, said: Any) -> None:
        """A producer of a topic, which may come with it."""
        number = said.producer_id
        if number in connection.producers or (Kind.PRODUCER, number) in connection.reserved:
            raise CommandRefused(ServerError.SERVICE_NOT_READY, f"Producer {number} is already present")
        if len(connection.producers) >= self._parts.settings.producers_per_connection_max:
            raise CommandRefused(ServerError.TOO_MANY_REQUESTS, "the connection has too many producers")
        name = topic_name(said.topic)
        connection.check(name, "write")
        if len(said.producer_name) > NAME_CHARACTERS_MAX:
            raise CommandRefused(ServerError.NOT_ALLOWED, "the name of the producer is too long")
        connection.reserved.add((Kind.PRODUCER, number))
        try:
            log = await self._topics.open(name)
            if self.rules(log).is_terminated:
                raise CommandRefused(ServerError.TOPIC_TERMINATED, "Topic was already terminated")
            await self._sequences.open(log.number)
            schema = schema_of(said.schema) if said.HasField("schema") else None
            version = await self._parts.schemas.register(log.topic, schema)
            if said.initial_subscription_name:
                await self._parts.subscribing.prepare(log, said.initial_subscription_name)
            producer = Producer(connection, number, said.producer_name or self._new_name(), name, log, said.epoch)
            producer.schema_version = version
            is_ready = await self._admit(producer, said)
        finally:
            connection.reserved.discard((Kind.PRODUCER, number))
        if connection.is_closed:
            self.leave(producer)
            return
        if is_ready:
            connection.producers[number] = producer
            connection.closed_ids.discard(number)
        self._succeed(producer, said, is_ready=is_ready)

    def _new_name(self) -> str:
        self._names += 1
        return f"{self._parts.settings.cluster_name}-{self._run}-{self._names}"

    async def _admit(self, producer: Producer, said: Any) -> bool:
        """Whether it may send now; else it waits. Raises CommandRefused."""
        attached = self.attached.setdefault(producer.log.number, Attached())
        mode = said.producer_access_mode
        epoch = int(self._topics.book.facts(producer.log.topic).get(EPOCH, 0))
        if said.HasField("topic_epoch") and said.topic_epoch < epoch:
            raise CommandRefused(ServerError.PRODUCER_FENCED, f"Topic epoch {said.topic_epoch} is behind {epoch}")
        self._check_name(attached, producer, mode)
        if mode == SHARED and (attached.owner is not None or attached.waiting):
            raise CommandRefused(ServerError.PRODUCER_BUSY, "Topic has an existing exclusive producer")
        if mode == WAIT_FOR_EXCLUSIVE and (attached.by_name or attached.waiting):
            attached.waiting.append(Waiting(producer, said))
            return False
        if mode == EXCLUSIVE and attached.by_name:
            raise CommandRefused(ServerError.PRODUCER_FENCED, "Topic has an existing producer")
        if mode == EXCLUSIVE_WITH_FENCING:
            self._fence_all(attached)
        attached.by_name[producer.name] = producer
        producer.since_ms = self._now_ms()
        if mode != SHARED:
            producer.is_exclusive = True
            try:
                await self._topics.book.put_fact(producer.log.topic, EPOCH, epoch + 1)
            except MainstemError:
                self._drop(producer)
                raise
        return True

    def _check_name(self, attached: Attached, producer: Producer, mode: int) -> None:
        """No two have one name, but for one that its own connection replaces. Raises CommandRefused."""
        known = attached.by_name.get(producer.name)
        if known is None:
            return
        if known.connection is producer.connection and known.epoch < producer.epoch:
            self._drop(known)
        elif mode in (SHARED, EXCLUSIVE):
            raise CommandRefused(
                ServerError.PRODUCER_BUSY, f"Producer with name '{producer.name}' is already connected to topic"
            )

    def _fence_all(self, attached: Attached) -> None:
        for waiting in attached.waiting:
            self._fence(waiting)
        attached.waiting.clear()
        for other in list(attached.by_name.values()):
            self._disconnect(other)

    def _fence(self, waiting: Waiting) -> None:
        waiting.producer.connection.say(
            Kind.ERROR,
            request_id=waiting.said.request_id,
            error=ServerError.PRODUCER_FENCED,
            message="Fenced out by another producer",
        )

    def _disconnect(self, producer: Producer) -> None:
        """Another has the topic from now on: its client is told, and asks again."""
        self._drop(producer)
        connection = producer.connection
        if connection.producers.pop(producer.id, None) is producer:
            self._note_closed(connection, producer.id)
            connection.say(Kind.CLOSE_PRODUCER, producer_id=producer.id, request_id=UINT64_MAX)

    def _succeed(self, producer: Producer, said: Any, *, is_ready: bool) -> None:
        facts = self._topics.book.facts(producer.log.topic)
        fields = {"topic_epoch": int(facts.get(EPOCH, 0))} if producer.is_exclusive else {}
        producer.connection.say(
            Kind.PRODUCER_SUCCESS,
            request_id=said.request_id,
            producer_name=producer.name,
            last_sequence_id=self._last_sequence(producer),
            schema_version=producer.schema_version,
            producer_ready=is_ready,
            **fields,
        )

    def _last_sequence(self, producer: Producer) -> int:
        if not self.rules(producer.log).is_deduplicated:
            return -1
        return self._sequences.last(producer.log.number, producer.name)

    def _note_closed(self, connection: Speaker, number: int) -> None:
        if len(connection.closed_ids) >= CLOSED_IDS_MAX:
            connection.closed_ids.clear()
        connection.closed_ids.add(number)

    def close(self, connection: Speaker, said: Any) -> None:
        """The client has no use for it any more."""
        producer = connection.producers.pop(said.producer_id, None)
        if producer is not None:
            self._note_closed(connection, said.producer_id)
            self._flush(connection)
            self.leave(producer)
        else:
            self._stop_waiting(connection, said.producer_id)
        connection.when_sent(lambda: connection.succeed(said))  # What it has sent is answered first.

    def _flush(self, connection: Speaker) -> None:
        if connection.passing is not None:
            passing, connection.passing = connection.passing, None
            self.commit(connection, passing)

    def _stop_waiting(self, connection: Speaker, number: int) -> None:
        for attached in self.attached.values():
            gone = [one for one in attached.waiting if one.producer.connection is connection]
            for waiting in gone:
                if waiting.producer.id == number:
                    attached.waiting.remove(waiting)

    def leave(self, producer: Producer) -> None:
        """It is gone: who waits for the topic may have it."""
        self._drop(producer)
        attached = self.attached.get(producer.log.number)
        if attached is None:
            return
        attached.waiting = deque(one for one in attached.waiting if not one.producer.connection.is_closed)
        if attached.waiting and not attached.by_name:
            waiting = attached.waiting.popleft()
            attached.by_name[waiting.producer.name] = waiting.producer
            waiting.producer.is_exclusive = True
            self._parts.spawn(self._take_over(waiting))
        elif not attached.by_name and not attached.waiting:
            del self.attached[producer.log.number]

    async def _take_over(self, waiting: Waiting) -> None:
        producer = waiting.producer
        epoch = int(self._topics.book.facts(producer.log.topic).get(EPOCH, 0))
        await self._topics.book.put_fact(producer.log.topic, EPOCH, epoch + 1)
        if producer.connection.is_closed:
            self.leave(producer)
            return
        producer.since_ms = self._now_ms()
        producer.connection.producers[producer.id] = producer
        self._succeed(producer, waiting.said, is_ready=True)

    def _drop(self, producer: Producer) -> None:
        attached = self.attached.get(producer.log.number)
        if attached is not None and attached.by_name.get(producer.name) is producer:
            del attached.by_name[producer.name]

    def topic_ended(self, logs: Sequence[int], error: ServerError | None = None) -> None:
        """The topic was deleted or terminated: its producers are closed."""
        for number in logs:
            for producer in list(self.attached.get(number, Attached()).by_name.values()):
                self._disconnect(producer)

    # Sending

    def send(self, connection: Speaker, said: Any, rest: memoryview) -> None:
        """An entry. Raises MalformedFrame: from a producer that never was, too."""
        producer = connection.producers.get(said.producer_id)
        if producer is None:
            if said.producer_id in connection.closed_ids:
                return
            raise MalformedFrame(f"no producer {said.producer_id}")
        try:
            entry = decode_entry(rest)
            self._put(connection, producer, said, entry)
        except WrongChecksum:
            self._refuse(
                connection, producer, said, CommandRefused(ServerError.CHECKSUM, "Checksum failed on the broker")
            )
        except (CommandRefused, MainstemError) as error:
            self._refuse(connection, producer, said, error)

    def _refuse(self, connection: Speaker, producer: Producer, said: Any, error: Exception) -> None:
        """In its turn: a client takes answers to come in the order of its messages."""
        refused = CommandRefused(code_of(error), str(error))
        self._pass(connection).sent.append(Refused(producer, said.sequence_id, refused))

    def _pass(self, connection: Speaker) -> Pass:
        if connection.passing is None:
            connection.passing = Pass()
        return connection.passing

    def _put(self, connection: Speaker, producer: Producer, said: Any, entry: Entry) -> None:
        topic = producer.log.topic
        current = self._broker.topics.by_id.get(topic.id)
        if current is None:
            raise CommandRefused(ServerError.TOPIC_NOT_FOUND, f"Topic {producer.topic_name} is gone")
        rules = producer.rules
        if rules is None or rules.version != self._topics.book.version:
            rules = producer.rules = self.rules(producer.log)
        if rules.is_terminated:
            raise CommandRefused(ServerError.TOPIC_TERMINATED, "Topic was already terminated")
        metadata = entry.metadata
        passing = self._pass(connection)
        sequence = said.sequence_id
        highest = max(said.highest_sequence_id, metadata.highest_sequence_id, sequence)
        before = self._sequences.last(producer.log.number, producer.name) if rules.is_deduplicated else None
        if before is not None and sequence <= before and not self._goes_on(producer, metadata):
            passing.sent.append(Sent(producer, sequence, highest, None))
            return
        if metadata.num_chunks_from_msg > 1:
            producer.chunk = metadata.uuid
        records = records_of(entry, current.batch_bytes_max)
        batch = encode_batch(
            (
                (offset, record.timestamp_ms, record.key, record.value, record.headers)
                for offset, record in enumerate(records)
            ),
            compression=current.codec or 0,
        )
        if current.is_stamped:
            stamp_log_append_time(batch, self._now_ms())
        state = () if before is None else self._sequences.decide(producer.log.number, producer.name, highest)
        passing.commits.append(Commit([Append(producer.log.number, batch)], state=state))
        passing.sent.append(Sent(producer, sequence, highest, bytes(entry.whole), before))
        producer.sent += len(records)

    def _goes_on(self, producer: Producer, metadata: Any) -> bool:
        """Whether it is a chunk behind others of its message: all have the sequence of the message."""
        return bool(metadata.num_chunks_from_msg > 1 and metadata.chunk_id and metadata.uuid == producer.chunk)

    def rules(self, log: Log) -> Rules:
        """What holds now."""
        book = self._topics.book
        return Rules(
            book.version,
            bool(book.facts(log.topic).get(TERMINATED)),
            bool(book.policy(log.topic, DEDUPLICATION)),
        )

    def commit(self, connection: Speaker, passing: Pass) -> None:
        """Hand a pass to the log; answer when it is durable."""
        if passing.sent:
            connection.session.owe()
            connection.flights.append([])
            self._broker.publish(passing.commits).on_done(functools.partial(self._committed, connection, passing))

    def _committed(self, connection: Speaker, passing: Pass, answer: Answer[list[CommitResult]]) -> None:
        failure = answer.error
        results = iter([] if failure is not None else answer.result())
        frames: list[Buffer] = []
        for sent in passing.sent:
            if isinstance(sent, Sent) and sent.whole is not None:
                result = next(results, failure)
                frames += self._answer(sent, result)
            elif isinstance(sent, Sent):
                frames += _receipt(sent, UINT64_MAX, UINT64_MAX)
            else:
                frames += _error(sent)
        connection.session.say(frames)
        connection.session.settle()
        for call in connection.flights.popleft():
            call()

    def _answer(self, sent: Sent, result: CommitResult | BaseException | None) -> list[Buffer]:
        producer = sent.producer
        if isinstance(result, Committed):
            base = result.bases[0]
            assert sent.whole is not None
            self._parts.entries.put(producer.log.number, base, sent.whole)
            return _receipt(sent, producer.log.number, base)
        error = result if isinstance(result, BaseException) else CommandRefused(ServerError.PERSISTENCE, "not written")
        if sent.before is not None and self._sequences.last(producer.log.number, producer.name) == sent.highest:
            self._sequences.restore(producer.log.number, producer.name, sent.before)
        return _error(Refused(producer, sent.sequence, CommandRefused(code_of(error), str(error))))


def _receipt(sent: Sent, ledger: int, entry: int) -> list[Buffer]:
    identity: dict[str, int] = {"ledgerId": ledger, "entryId": entry}
    if sent.producer.log.partition >= 0:
        identity["partition"] = sent.producer.log.partition
    return encode_command(
        Kind.SEND_RECEIPT,
        producer_id=sent.producer.id,
        sequence_id=sent.sequence,
        highest_sequence_id=sent.highest,
        message_id=identity,
    )


def _error(refused: Refused) -> list[Buffer]:
    return encode_command(
        Kind.SEND_ERROR,
        producer_id=refused.producer.id,
        sequence_id=refused.sequence,
        error=refused.refusal.error,
        message=str(refused.refusal)[:REASON_CHARACTERS_MAX],
    )
