"""The highest sequence that each named producer has published to a log: what comes again is known by it, after a restart too.

A sequence is stored by the commit of the batch that it is of. Sequences rise, and may leave gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainstem.broker.catalog.topics import Topic, Topics
from mainstem.storage.contract import Engine, Mutation

SCOPE_PREFIX = "producer-sequences/"
NAMES_MAX = 10_000
"""Producers of one log that are known; those that published longest ago are forgotten."""
NONE = -1
SEQUENCE_BYTES = 8


class PublishedSequences:
    """Of all logs that somebody asked for."""

    def __init__(self, engine: Engine, topics: Topics) -> None:
        self._engine = engine
        self._logs: dict[int, dict[str, int]] = {}
        self._ends, topics.on_delete = topics.on_delete, self._topic_deleted

    async def open(self, log: int) -> None:
        """Read what is stored, once. Durable when answered."""
        if log not in self._logs:
            stored = (await self._engine.load(_scope(log))).entries
            known = {key.decode(): int.from_bytes(value, "big") for key, value in stored.items()}
            self._logs.setdefault(log, known)

    def last(self, log: int, name: str) -> int:
        """The highest of a producer; -1: none is known."""
        return self._logs.get(log, {}).get(name, NONE)

    def decide(self, log: int, name: str, highest: int) -> list[Mutation]:
        """A batch up to this sequence is published with these changes. The log was opened."""
        known = self._logs[log]
        known.pop(name, None)
        known[name] = highest
        state = [Mutation(_scope(log), name.encode(), highest.to_bytes(SEQUENCE_BYTES, "big"))]
        while len(known) > NAMES_MAX:
            oldest = next(iter(known))
            del known[oldest]
            state.append(Mutation(_scope(log), oldest.encode(), None))
        return state

    def restore(self, log: int, name: str, before: int) -> None:
        """What was decided was not written."""
        known = self._logs.get(log)
        if known is not None:
            if before == NONE:
                known.pop(name, None)
            else:
                known[name] = before

    def _topic_deleted(self, topic: Topic) -> tuple[Sequence[Mutation], Callable[[], None]]:
        state, finish = self._ends(topic)
        gone = [Mutation(_scope(log), name.encode(), None) for log in topic.logs for name in self._logs.get(log, ())]

        def finish_all() -> None:
            finish()
            for log in topic.logs:
                self._logs.pop(log, None)

        return [*state, *gone], finish_all


def _scope(log: int) -> str:
    return f"{SCOPE_PREFIX}{log}"
