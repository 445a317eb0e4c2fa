"""Destinations that share keys: each key always goes to the same one, as long as the destinations stay the same.

Every destination has as many buckets as its weight says, in the order in which they were bound; jump consistent hash
(Lamping and Veach, 2014) chooses the bucket, so that a destination bound later takes only its share from the others.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Generic, TypeVar

T = TypeVar("T")

WEIGHT_MAX = 1 << 20
_MULTIPLIER = 2862933555777941757
_MASK = (1 << 64) - 1


class HashRing(Generic[T]):
    """Destinations with weights, in order. Made anew when they change."""

    def __init__(self, shares: Iterable[tuple[T, int]]) -> None:
        pairs = list(shares)
        self._members = [member for member, _ in pairs]
        self._ends = list(accumulate(weight for _, weight in pairs))

    def choose(self, key: bytes) -> T | None:
        """Where the key belongs; None when there is nobody."""
        if not self._ends:
            return None
        bucket = jump(int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()), self._ends[-1])
        return self._members[bisect_right(self._ends, bucket)]


def jump(key: int, buckets: int) -> int:
    """The bucket of a 64-bit key."""
    bucket, following = -1, 0
    while following < buckets:
        bucket = following
        key = (key * _MULTIPLIER + 1) & _MASK
        following = int((bucket + 1) * ((1 << 31) / ((key >> 33) + 1)))
    return bucket
