"""About thirty numbers of the whole broker, sampled once a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from mainstem.broker.clock import Clock, Timer
from mainstem.broker.live.rings import Ring
from mainstem.broker.live.topic_rates import TopicRates

if TYPE_CHECKING:
    from mainstem.broker.catalog.topics import Topics
    from mainstem.storage.contract import Engine

INTERVAL_S = 1.0
SERIES_MAX = 128

Gather: TypeAlias = Callable[[], Mapping[str, float]]
"""Numbers by the name of their series."""


class LiveNumbers:
    """Samples from `start` on."""

    def __init__(self, engine: Engine, clock: Clock, topics: Topics) -> None:
        self._clock = clock
        self.topics = TopicRates(engine, topics)
        self.counters: list[Gather] = []
        """Numbers that only grow: kept as rates."""
        self.gauges: list[Gather] = []
        self.rings: dict[str, Ring] = {}
        self.newest: dict[str, float] = {}
        self.tick = -1
        """The number of the last sample."""
        self.tick_ms = 0
        self.on_sample: list[Callable[[], None]] = []
        self._counts: dict[str, float] = {}
        self._sampled = 0.0
        self._timer: Timer | None = None

    def start(self) -> None:
        """Once."""
        if self._timer is None:
            self._sampled = self._clock.monotonic()
            self._timer = self._clock.call_later(INTERVAL_S, self._beat)

    def stop(self) -> None:
        """No more samples."""
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self._timer = self._clock.call_later(INTERVAL_S, self._beat)
        self.sample()

    def sample(self) -> None:
        """One more."""
        now = self._clock.monotonic()
        elapsed = max(now - self._sampled, 0.001)
        self._sampled, self.tick_ms = now, self._clock.now_ms()
        self.tick += 1
        self.topics.sample(self.tick)
        newest: dict[str, float] = {"records_in": self.topics.total / elapsed}
        for gather in self.counters:
            for name, value in gather().items():
                before = self._counts.get(name)
                self._counts[name] = value
                newest[name] = 0.0 if before is None else max(0.0, value - before) / elapsed
        for gather in self.gauges:
            newest.update(gather())
        self.newest = dict(list(newest.items())[:SERIES_MAX])
        for name, value in self.newest.items():
            self.rings.setdefault(name, Ring()).put(self.tick, value)
        for listener in self.on_sample:
            listener()
