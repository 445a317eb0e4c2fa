"""Dead letters: what a subscription gave up on, written to a topic with where it came from and why.

The headers are those of KIP-1191, so that one set of tools reads the dead letters of both.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from mainstem.broker.catalog.topics import NewTopic, Topic, Topics
from mainstem.broker.clock import Clock
from mainstem.broker.heavy_work import HeavyWork
from mainstem.coordination.groups.group_config import ShareRules
from mainstem.coordination.queues.deaths import Origin, Reason, encode_facts
from mainstem.coordination.subscriptions.leased_cursor import Counts, LeasedCursor, Spent
from mainstem.model.errors import MainstemError
from mainstem.model.header_names import ORIGIN_HEADER
from mainstem.storage.contract import Append, Engine
from mainstem.wire.errors import DecompressedTooLarge
from mainstem.wire.record_batch import Record, batches_in, decode_records, encode_batch, read_header
from mainstem.wire.record_batch.survey import APART

log = logging.getLogger(__name__)

MESSAGES = {
    Spent.REJECTED: "Offset rejected by client.",
    Spent.EXHAUSTED: "Offset delivery count exceeded the threshold.",
}
Rules: TypeAlias = Callable[[str], ShareRules]
ENABLED = "errors.deadletterqueue.group.enable"
"""The setting by which a topic says that groups may write to it."""
INTERNAL_PREFIX = "__"


class LetterRules(NamedTuple):
    """Which topics may get dead letters."""

    prefix: str = "dlq."
    """What their names begin with; empty: any."""
    creates: bool = False
    """Whether one that is missing is created."""
    partitions: int = 1
    """Of one that is created."""


class Condemned(NamedTuple):
    """A record that is given up, and what is known of it."""

    offset: int
    why: Spent
    deliveries: int
    failures: int
    error: str


class _Refused(Exception):
    """The topic must not get dead letters."""


class DeadLetters:
    """Writes them for all subscriptions."""

    def __init__(self, engine: Engine, clock: Clock, topics: Topics, rules: Rules, heavy_work: HeavyWork) -> None:
        self._engine = engine
        self._clock = clock
        self._topics = topics
        self._rules = rules
        self._heavy_work = heavy_work
        self._letter_rules = LetterRules()

    def govern(self, rules: LetterRules) -> None:
        """Set the rules."""
        self._letter_rules = rules

    async def write(self, name: str, cursor: LeasedCursor, spent: Mapping[int, Spent]) -> list[Append]:
        """One batch for each, to be committed with the settling of it; none where no topic was named, or it may not be."""
        condemned = [
            Condemned(offset, why, *cursor.counts.get(offset, Counts()), MESSAGES[why])
            for offset, why in sorted(spent.items())
        ]
        return await self.write_condemned(name, cursor.log, condemned)

    async def write_condemned(self, name: str, number: int, condemned: Sequence[Condemned]) -> list[Append]:
        """The same, of records of a log."""
        rules = self._rules(name)
        if not rules.dead_letters or not condemned:
            return []
        try:
            target = await self._target(rules.dead_letters)
        except (_Refused, MainstemError) as error:
            log.warning("group %s: %d dead letters are lost: %s", name, len(condemned), error)
            return []
        origin = self._topics.origin(number)
        source, partition = ("", 0) if origin is None else (origin[0].name, origin[1])
        destination = target.logs[partition % len(target.logs)]
        appends = []
        for one in condemned:
            facts = {
                "topic": source,
                "partition": str(partition),
                "offset": str(one.offset),
                "group": name,
                "delivery.count": str(one.deliveries),
                "message": one.error,
            }
            headers = [(f"__dlq.errors.{fact}", value.encode()) for fact, value in facts.items()]
            headers.append((ORIGIN_HEADER, encode_facts(self._origin_of(name, (source, partition), one))))
            key, value = await self._content(number, one.offset) if rules.copies_dead else (None, None)
            record = Record(0, self._clock.now_ms(), key, value, headers)
            appends.append(Append(destination, encode_batch([record])))
        return appends

    async def _target(self, name: str) -> Topic:
        """The topic, if it may be one for dead letters; looked at each time, so that a change counts at once."""
        rules = self._letter_rules
        if not name.startswith(rules.prefix):
            raise _Refused(f"the name of {name} does not begin with {rules.prefix}")
        if name.startswith(INTERNAL_PREFIX):
            raise _Refused(f"{name} is an internal topic")
        topic = self._topics.named().get(name)
        if topic is None:
            if not rules.creates:
                raise _Refused(f"there is no topic {name}")
            topic = await self._topics.ensure(NewTopic(name, rules.partitions, {ENABLED: "true"}))
        if topic.configs.get(ENABLED) != "true":
            raise _Refused(f"{ENABLED} of {name} is not true")
        return topic

    def _origin_of(self, name: str, place: tuple[str, int], one: Condemned) -> Origin:
        """The facts that every dead letter has; of a record that was not read its own time is not known."""
        topic, partition = place
        reason: Reason = "rejected" if one.why is Spent.REJECTED else "delivery_limit"
        now_ms = self._clock.now_ms()
        return Origin(
            reason, "default", name, topic, partition, one.offset, -1, now_ms, one.deliveries, one.failures, one.error
        )

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


def _find(batch: memoryview, offset: int) -> Record | None:
    """The record at an offset. Raises InvalidBatch."""
    if read_header(batch).record_count > APART.records_max:
        raise DecompressedTooLarge(f"its batch has more than {APART.records_max} records")
    return next((record for record in decode_records(batch) if record.offset == offset), None)
