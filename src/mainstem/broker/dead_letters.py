"""Dead letters: what a subscription gave up on, written to a topic with where it came from and why.

The headers are those of KIP-1191, so that one set of tools reads the dead letters of both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from mainstem.broker.clock import Clock
from mainstem.coordination.catalog import Topic
from mainstem.coordination.share_config import ShareRules
from mainstem.coordination.subscription import Counts, Cursor, Spent
from mainstem.model.errors import MainstemError
from mainstem.storage.contract import Append, Engine
from mainstem.wire.record_batch import Record, batches_in, decode_records, encode_batch

log = logging.getLogger(__name__)

MESSAGES = {
    Spent.REJECTED: "Offset rejected by client.",
    Spent.EXHAUSTED: "Offset delivery count exceeded the threshold.",
}
Rules: TypeAlias = Callable[[str], ShareRules]


class DeadLetters:
    """Writes them for all subscriptions."""

    def __init__(self, engine: Engine, clock: Clock, topics: Mapping[str, Topic], rules: Rules) -> None:
        self._engine = engine
        self._clock = clock
        self._topics = topics
        self._rules = rules

    async def write(self, name: str, cursor: Cursor, spent: Mapping[int, Spent]) -> list[Append]:
        """One batch for each, to be committed with the settling of it; none where no topic was named."""
        rules = self._rules(name)
        if not rules.dead_letters:
            return []
        target = self._topics.get(rules.dead_letters)
        if target is None:
            log.warning("group %s: there is no topic %s for dead letters", name, rules.dead_letters)
            return []
        source, partition = self._origin(cursor.log)
        destination = target.logs[partition % len(target.logs)]
        appends = []
        for offset, why in sorted(spent.items()):
            facts = {
                "topic": source,
                "partition": str(partition),
                "offset": str(offset),
                "group": name,
                "delivery.count": str(cursor.counts.get(offset, Counts()).deliveries),
                "message": MESSAGES[why],
            }
            headers = [(f"__dlq.errors.{fact}", value.encode()) for fact, value in facts.items()]
            key, value = await self._content(cursor.log, offset) if rules.copies_dead else (None, None)
            record = Record(0, self._clock.now_ms(), key, value, headers)
            appends.append(Append(destination, encode_batch([record])))
        return appends

    def _origin(self, number: int) -> tuple[str, int]:
        for topic in self._topics.values():
            if number in topic.logs:
                return topic.name, topic.logs.index(number)
        return "", 0

    async def _content(self, number: int, offset: int) -> tuple[bytes | None, bytes | None]:
        """Key and value; nothing of what is gone or cannot be read."""
        try:
            result = await self._engine.read(number, offset, 1)
            for buffer in result.batches:
                for position, size in batches_in(buffer):
                    for record in decode_records(memoryview(buffer)[position : position + size]):
                        if record.offset == offset:
                            return record.key, record.value
        except MainstemError as error:
            log.warning("log %d, offset %d: its dead letter is without content: %s", number, offset, error)
        return None, None
