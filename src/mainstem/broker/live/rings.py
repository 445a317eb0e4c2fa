"""History of a number in constant memory: every second for 15 minutes, every minute for a day."""

from __future__ import annotations

import math
from array import array

SECONDS = 900
MINUTES = 1_440
SECONDS_IN_MINUTE = 60


class Ring:
    """The last values of one series. A slot without a value is NaN, which JSON shows as null."""

    __slots__ = ("_minute_count", "_minute_sum", "_minutes", "_seconds")

    def __init__(self) -> None:
        self._seconds = array("f", [math.nan]) * SECONDS
        self._minutes = array("f", [math.nan]) * MINUTES
        self._minute_sum = 0.0
        self._minute_count = 0

    def put(self, tick: int, value: float) -> None:
        """The value of a second, by its number; each number once, and rising."""
        self._seconds[tick % SECONDS] = value
        self._minute_sum += value
        self._minute_count += 1
        if tick % SECONDS_IN_MINUTE == SECONDS_IN_MINUTE - 1:
            self._minutes[tick // SECONDS_IN_MINUTE % MINUTES] = self._minute_sum / self._minute_count
            self._minute_sum, self._minute_count = 0.0, 0

    def seconds(self, after: int, last: int) -> list[float]:
        """Values of the seconds behind `after` up to `last`, at most as many as are kept."""
        return _between(self._seconds, max(after + 1, last - SECONDS + 1, 0), last + 1)

    def minutes(self, last: int, count: int = MINUTES) -> list[float]:
        """Averages of the last whole minutes, the newest last."""
        end = (last + 1) // SECONDS_IN_MINUTE
        return _between(self._minutes, max(end - min(count, MINUTES), 0), end)


def _between(ring: array[float], first: int, end: int) -> list[float]:
    """The slots of these numbers: at most two stretches, copied at once, because whole histories are asked for."""
    if first >= end:
        return []
    start, stop = first % len(ring), (end - 1) % len(ring) + 1
    return ring[start:stop].tolist() if start < stop else ring[start:].tolist() + ring[:stop].tolist()
