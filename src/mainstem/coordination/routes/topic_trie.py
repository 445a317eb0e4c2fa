"""Topic patterns as a tree of words: `*` stands for one word, `#` for any number of them, none included.

All patterns are followed at once, word by word, as a set of places in the tree. So a key costs at most its words times
the places, however many `#` a pattern has; following each pattern by itself could take forever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

ONE = "*"
MANY = "#"


class _Place(Generic[T]):
    __slots__ = ("here", "is_many", "next")

    def __init__(self, *, is_many: bool = False) -> None:
        self.next: dict[str, _Place[T]] = {}
        self.here: list[T] = []
        """What is kept for the pattern that ends at this place."""
        self.is_many = is_many


class TopicTrie(Generic[T]):
    """Values by pattern."""

    def __init__(self) -> None:
        self._root: _Place[T] = _Place()

    def add(self, pattern: str, value: T) -> None:
        """Keep a value for a pattern."""
        place = self._root
        for word in words_of(pattern):
            after = place.next.get(word)
            if after is None:
                after = place.next[word] = _Place(is_many=word == MANY)
            place = after
        place.here.append(value)

    def remove(self, pattern: str, value: T) -> None:
        """Let a value go, and the places that only it needed."""
        place, path = self._root, []
        for word in words_of(pattern):
            path.append((place, word))
            place = place.next[word]
        place.here.remove(value)
        for above, word in reversed(path):
            below = above.next[word]
            if below.here or below.next:
                break
            del above.next[word]

    def match(self, key: str) -> Iterator[T]:
        """The values of all patterns that the key matches, each once."""
        places = _with_none(self._root, {})
        for word in words_of(key):
            after: dict[int, _Place[T]] = {}
            for place in places.values():
                if place.is_many:
                    _with_none(place, after)
                for branch in (word, ONE):
                    found = place.next.get(branch)
                    if found is not None:
                        _with_none(found, after)
            places = after
        for place in places.values():
            yield from place.here


def words_of(text: str) -> list[str]:
    """Words between dots. A text without characters has none."""
    return text.split(".") if text else []


def _with_none(place: _Place[T] | None, places: dict[int, _Place[T]]) -> dict[int, _Place[T]]:
    """Add a place, and those that follow on it without a word."""
    while place is not None and id(place) not in places:
        places[id(place)] = place
        place = place.next.get(MANY)
    return places
