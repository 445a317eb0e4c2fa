"""Which topics records come to, and how fast: counted when groups become durable, not by asking every topic.

A topic that is silent costs nothing. Of the others the busiest have a history; the rest is in the total.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem.broker.live.rings import Ring
from mainstem.storage.contract import Engine, LogEnd

if TYPE_CHECKING:
    from mainstem.broker.catalog.topics import Topic, Topics

BUSIEST = 200
"""Topics with a history."""
FOLLOWED_AT_ONCE = 2_000
"""Logs taken in at one second, so that a start with many topics does not hold the loop up."""
SILENT_TICKS_MAX = 900


class TopicRates:
    """Of all topics."""

    def __init__(self, engine: Engine, topics: Topics, busiest: int = BUSIEST) -> None:
        self._topics = topics
        self._busiest = busiest
        self._watch = engine.watch(self._moved)
        self._ends: dict[int, int] = {}
        self._moved_ends: dict[int, int] = {}
        self._seen: dict[uuid.UUID, Topic] = {}
        self.rings: dict[str, Ring] = {}
        self.rates: dict[str, float] = {}
        """Records in the last second, of topics that had any."""
        self._last_active: dict[str, int] = {}
        self.total = 0.0

    def _moved(self, ends: Mapping[int, LogEnd]) -> None:
        moved = self._moved_ends
        for log, end in ends.items():
            moved[log] = end.end

    def sample(self, tick: int) -> None:
        """Once a second."""
        self._follow()
        moved, self._moved_ends = self._moved_ends, {}
        rates: dict[str, float] = {}
        for log, end in moved.items():
            before = self._ends.get(log)
            if end < 0:
                self._ends.pop(log, None)
                continue
            self._ends[log] = end
            origin = self._topics.origin(log)
            if before is not None and origin is not None and end > before:
                name = origin[0].name
                rates[name] = rates.get(name, 0.0) + end - before
        self.rates = rates
        self.total = sum(rates.values())
        self._note(tick, rates)

    def _note(self, tick: int, rates: Mapping[str, float]) -> None:
        for name in rates:
            self._last_active[name] = tick
        if len(self._last_active) > self._busiest:
            line = sorted(
                self._last_active, key=lambda name: (self._last_active[name], rates.get(name, 0.0)), reverse=True
            )
            self._last_active = {name: self._last_active[name] for name in line[: self._busiest]}
        for name in [name for name, last in self._last_active.items() if tick - last > SILENT_TICKS_MAX]:
            del self._last_active[name]
        for name in self.rings.keys() - self._last_active.keys():
            del self.rings[name]
        for name in self._last_active:
            self.rings.setdefault(name, Ring()).put(tick, rates.get(name, 0.0))

    def _follow(self) -> None:
        """Topics that are new or have more partitions, some at a time."""
        known = self._topics.by_id
        if self._seen == known:
            return
        room = FOLLOWED_AT_ONCE
        for topic_id, topic in list(known.items()):
            if self._seen.get(topic_id) is topic:
                continue
            if room <= 0:
                return
            room -= len(topic.logs)
            for log in topic.logs:
                if log not in self._ends:
                    end = self._watch.add(log)
                    if end is not None:  # else its first report is what later ones are compared with
                        self._ends[log] = end.end
            self._seen[topic_id] = topic
        for topic_id in self._seen.keys() - known.keys():
            del self._seen[topic_id]
