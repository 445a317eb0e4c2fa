"""How long many requests took, in constant memory: the middle of a bucket is at most one percent off."""

from __future__ import annotations

import math

FIRST_S = 1e-6
GROWTH = 1.02
BUCKETS = 1_200
"""Up to some hours."""


class Latencies:
    """Counts by buckets that grow by two percent."""

    def __init__(self) -> None:
        self._counts = [0] * BUCKETS
        self.count = 0

    def add(self, seconds: float) -> None:
        """One request more."""
        at = int(math.log(max(seconds, FIRST_S) / FIRST_S) / math.log(GROWTH))
        self._counts[min(at, BUCKETS - 1)] += 1
        self.count += 1

    def merge(self, other: Latencies) -> None:
        """Those of another client, too."""
        self._counts = [mine + theirs for mine, theirs in zip(self._counts, other._counts, strict=True)]
        self.count += other.count

    def percentile(self, percent: float) -> float | None:
        """In seconds: this share of the requests took no longer. None without any."""
        wanted = self.count * percent / 100
        seen = 0
        for at, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return FIRST_S * float(GROWTH ** (at + 0.5))
        return None
