"""How the lag of consumers has moved in the last minutes: whether it grows, who stands still, whom retention will overtake."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Hashable
from typing import Literal, NamedTuple, TypeAlias

CONSUMERS_MAX = 1_000
"""With a history; of others only the present is known."""
SAMPLES_MAX = 61
"""Of a consumer: a quarter of an hour, at four in a minute."""
WINDOW_MS = 300_000
"""A trend is taken over this time."""
WINDOW_MS_MIN = 10_000
STUCK_MS = 60_000
"""A consumer with lag that has not moved for this long stands still."""
STEADY_SHARE = 0.02
"""A smaller change of the lag is none."""
SLOPE_MIN = 0.01
"""Seconds of lag in a second; below it, retention does not come nearer."""

Direction: TypeAlias = Literal["growing", "shrinking", "steady", "unknown"]


class LagSample(NamedTuple):
    """Where a consumer was."""

    time_ms: int
    position: int
    """The sum over all partitions."""
    messages: int
    seconds: float | None
    moved_ms: int | None = None
    """When it last moved, where that is stored."""


class Trend(NamedTuple):
    """Where it is going."""

    direction: Direction = "unknown"
    messages_per_second: float | None = None
    """By which the lag grows, or shrinks where it is negative."""
    stuck_since_ms: int | None = None
    overtaken_in_ms: int | None = None
    """When retention deletes what it has not read, should all go on like this."""


UNKNOWN = Trend()


class _History:
    __slots__ = ("moved_ms", "samples")

    def __init__(self, first: LagSample) -> None:
        self.samples: deque[LagSample] = deque(maxlen=SAMPLES_MAX)
        self.moved_ms = first.time_ms if first.moved_ms is None else first.moved_ms

    def add(self, sample: LagSample) -> None:
        if not sample.messages or (self.samples and self.samples[-1].position != sample.position):
            self.moved_ms = sample.time_ms
        self.samples.append(sample)


class LagHistory:
    """Of many consumers, by whatever names them."""

    def __init__(self, consumers_max: int = CONSUMERS_MAX) -> None:
        self._consumers_max = consumers_max
        self._histories: dict[Hashable, _History] = {}

    def note(self, consumer: Hashable, sample: LagSample) -> None:
        """One more sample."""
        history = self._histories.get(consumer)
        if history is None:
            if len(self._histories) >= self._consumers_max:
                return
            history = self._histories[consumer] = _History(sample)
        history.add(sample)

    def keep(self, consumers: Container[Hashable]) -> None:
        """Forget all others."""
        for consumer in [one for one in self._histories if one not in consumers]:
            del self._histories[consumer]

    def messages(self, consumer: Hashable) -> list[tuple[int, int]]:
        """Times and lags, the newest last."""
        history = self._histories.get(consumer)
        return [] if history is None else [(sample.time_ms, sample.messages) for sample in history.samples]

    def trend(self, consumer: Hashable, now: LagSample, retention_ms: int | None) -> Trend:
        """From its history and what it is now; `retention_ms` None: nothing is deleted."""
        history = self._histories.get(consumer)
        if history is None:
            return UNKNOWN
        is_moved = not now.messages or now.position != history.samples[-1].position
        is_stuck = not is_moved and now.time_ms - history.moved_ms >= STUCK_MS
        stuck_since_ms = history.moved_ms if is_stuck else None
        since_ms = now.time_ms - WINDOW_MS
        base = next((sample for sample in history.samples if sample.time_ms >= since_ms), history.samples[-1])
        elapsed_ms = now.time_ms - base.time_ms
        if elapsed_ms < WINDOW_MS_MIN:
            return Trend("unknown", None, stuck_since_ms, None)
        change = now.messages - base.messages
        direction: Direction = "growing" if change > 0 else "shrinking"
        if abs(change) <= STEADY_SHARE * max(now.messages, base.messages):
            direction = "steady"
        overtaken_in_ms = _overtaken_in_ms(base, now, retention_ms)
        return Trend(direction, change * 1000 / elapsed_ms, stuck_since_ms, overtaken_in_ms)


def _overtaken_in_ms(base: LagSample, now: LagSample, retention_ms: int | None) -> int | None:
    """A record is deleted when it is as old as retention says: when the lag in seconds gets there."""
    if retention_ms is None or not now.messages or now.seconds is None or base.seconds is None:
        return None
    slope = (now.seconds - base.seconds) * 1000 / (now.time_ms - base.time_ms)
    if slope < SLOPE_MIN:
        return None
    return max(0, int((retention_ms - now.seconds * 1000) / slope))
