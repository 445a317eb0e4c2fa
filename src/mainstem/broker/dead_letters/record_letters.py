"""Dead letters of records, written to a topic. The commit that settles a record holds its letter."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mainstem.broker.catalog.topics import Topics
from mainstem.broker.clock import Clock
from mainstem.broker.dead_letters.facts import MESSAGES, Condemned, LetterSource, message_origin, record_headers
from mainstem.broker.dead_letters.topics import LetterRules, LetterTopicRefused, LetterTopics
from mainstem.broker.heavy_work import HeavyWork
from mainstem.coordination.commit_addition import CommitAddition, SealedAddition
from mainstem.coordination.dead_letters.deaths import Reason, encode_facts
from mainstem.coordination.dead_letters.targets import DeadLetterTarget, LetterTarget, LetterTopic
from mainstem.coordination.subscriptions.cursor import NEVER
from mainstem.coordination.subscriptions.subscribed_log import Spent, SubscribedLog
from mainstem.model.errors import MainstemError
from mainstem.model.header_names import ORIGIN_HEADER
from mainstem.storage.contract import Append, Engine
from mainstem.wire.errors import DecompressedTooLarge
from mainstem.wire.messages.header_block import decode_headers
from mainstem.wire.messages.message import Message
from mainstem.wire.record_batch import Record, batches_in, decode_records, encode_batch, read_header
from mainstem.wire.record_batch.survey import APART

log = logging.getLogger(__name__)

__all__ = ["Condemned", "LetterRules", "RecordLetters", "condemn"]


def condemn(cursor: SubscribedLog, spent: Mapping[int, Spent]) -> list[Condemned]:
    """What is known of records that are spent, lowest offset first."""
    return [
        Condemned(
            offset,
            why.reason,
            *cursor.counts.get(offset, NEVER),
            why.error or MESSAGES.get(why.reason, why.reason),
            cursor.attempts.get(offset, []),
        )
        for offset, why in sorted(spent.items())
    ]


class RecordLetters:
    """Of records that are in their logs, of all subscriptions."""

    def __init__(self, engine: Engine, clock: Clock, topics: Topics, heavy_work: HeavyWork) -> None:
        self._engine = engine
        self._clock = clock
        self._heavy_work = heavy_work
        self._topics = LetterTopics(topics)

    def govern(self, rules: LetterRules) -> None:
        """Set which topics may get dead letters."""
        self._topics.rules = rules

    async def of_records(
        self, name: str, number: int, target: LetterTarget | None, condemned: Sequence[Condemned]
    ) -> list[Append]:
        """One batch for each record of a log; none where the subscription names no topic, or that must not get any."""
        if target is None or not condemned:
            return []
        assert not isinstance(target, DeadLetterTarget), "records that are not in memory are not published anew"
        namespace, topic, partition = self._topics.place_of(number)
        try:
            letters = await self._topics.find(namespace, target.name)
        except (LetterTopicRefused, MainstemError) as error:
            log.warning("subscription %s: %d dead letters are lost: %s", name, len(condemned), error)
            return []
        source = LetterSource(namespace, name, topic, partition)
        destination = letters.logs[partition % len(letters.logs)]
        appends = []
        for one in condemned:
            now_ms = self._clock.now_ms()
            key, value = await self._content(number, one.offset) if target.copies else (None, None)
            record = Record(0, now_ms, key, value, record_headers(source, one, now_ms))
            appends.append(Append(destination, encode_batch([record])))
        return appends

    def of_message(self, message: Message, reason: Reason, error: str) -> CommitAddition | None:
        """The letter of a message that is in memory, on the topic that its subscription names; None: it has none."""
        target = message.lane.queue.policy.dead_letter
        if not isinstance(target, LetterTopic):
            return None
        now_ms = self._clock.now_ms()
        origin = message_origin(message, reason, error, now_ms)
        topic = self._topics.named(origin.namespace).get(target.name)
        if topic is None:
            log.warning("subscription %s: a dead letter is lost: there is no topic %s", origin.queue, target.name)
            return None
        kept = [header for header in decode_headers(message.headers) if header[0] != ORIGIN_HEADER]
        headers = [*kept, (ORIGIN_HEADER, encode_facts(origin))]
        record = Record(0, now_ms, message.key, bytes(message.value), headers)
        return _Letter(Append(topic.logs[origin.partition % len(topic.logs)], encode_batch([record])))

    async def _content(self, number: int, offset: int) -> tuple[bytes | None, bytes | None]:
        """Key and value; nothing of what is gone or cannot be read."""
        try:
            result = await self._engine.read(number, offset, 1)
            for buffer in result.batches:
                for position, size in batches_in(buffer):
                    header = read_header(buffer, position)
                    if not header.base_offset <= offset < header.next_offset:
                        continue
                    find = functools.partial(_find, memoryview(buffer)[position : position + size], offset)
                    # A compressed batch may be far larger than it looks.
                    record = await self._heavy_work.run(find) if header.compression else find()
                    if record is not None:
                        return record.key, record.value
        except MainstemError as error:
            log.warning("log %d, offset %d: its dead letter is without content: %s", number, offset, error)
        return None, None


class _Letter(NamedTuple):
    """A letter that is committed with the settling of its message."""

    append: Append

    def seal(self) -> SealedAddition:
        """The letter."""
        return SealedAddition([self.append])

    def resolved(self, outcome: Sequence[int] | MainstemError) -> None:
        """Who settles the message hears of it too."""


def _find(batch: memoryview, offset: int) -> Record | None:
    """The record at an offset. Raises InvalidBatch."""
    if read_header(batch).record_count > APART.records_max:
        raise DecompressedTooLarge(f"its batch has more than {APART.records_max} records")
    return next((record for record in decode_records(batch) if record.offset == offset), None)
