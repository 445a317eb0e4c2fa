"""Topic patterns as a tree of words: `*` stands for one word, `#` for any number of them, none included.

A key leads to each place of the tree at most once, with the set of all positions in the key at which the place can be
reached, as the bits of one number. So a key costs at most as much as the patterns have words, however long it is and
however many `#` they have. Words that belong to a single pattern are kept in one place: most patterns have such an end,
and following it needs neither memory nor time for places.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

ONE = "*"
MANY = "#"
WILDCARDS = frozenset({ONE, MANY})


class _Place(Generic[T]):
    __slots__ = ("here", "literals", "many", "next", "one", "rest")

    def __init__(self) -> None:
        self.next: dict[str, _Place[T]] = {}
        """By word, wildcards included."""
        self.one: _Place[T] | None = None
        self.many: _Place[T] | None = None
        self.here: list[T] = []
        """What is kept for the pattern that ends at this place, or behind it with the rest."""
        self.rest: tuple[str, ...] = ()
        """The words of the only pattern that goes on from here; then nothing is next."""
        self.literals: frozenset[str] = frozenset()
        """Those of the rest that a key must have."""

    def end_with(self, rest: tuple[str, ...]) -> None:
        """Let the pattern of this place go on with these words."""
        self.rest = rest
        self.literals = frozenset(rest) - WILDCARDS

    def add(self, word: str) -> _Place[T]:
        """The place that a word leads to, new if there is none."""
        place = self.next.get(word)
        if place is None:
            place = self.next[word] = _Place()
            if word == ONE:
                self.one = place
            elif word == MANY:
                self.many = place
        return place

    def branch(self) -> None:
        """Give the first word of the rest a place of its own: another pattern goes on from here too."""
        below = self.add(self.rest[0])
        below.here, self.here = self.here, []
        below.end_with(self.rest[1:])
        self.end_with(())

    def remove(self, word: str) -> None:
        """Forget where a word led to."""
        del self.next[word]
        if word == ONE:
            self.one = None
        elif word == MANY:
            self.many = None


class TopicTrie(Generic[T]):
    """Values by pattern."""

    def __init__(self) -> None:
        self._root: _Place[T] = _Place()

    def add(self, pattern: str, value: T) -> None:
        """Keep a value for a pattern."""
        words = words_of(pattern)
        place = self._root
        for depth, word in enumerate(words):
            if place.rest:
                if place.rest == tuple(words[depth:]):
                    break
                place.branch()
            elif not place.here and not place.next and place is not self._root:
                place.end_with(tuple(words[depth:]))
                break
            place = place.add(word)
        else:
            if place.rest:
                place.branch()
        place.here.append(value)

    def remove(self, pattern: str, value: T) -> None:
        """Let a value go, and the places that only it needed."""
        place, path = self._root, []
        for word in words_of(pattern):
            if place.rest:
                break
            path.append((place, word))
            place = place.next[word]
        place.here.remove(value)
        for above, word in reversed(path):
            below = above.next[word]
            if below.here or below.next:
                break
            above.remove(word)

    def match(self, key: str) -> Iterator[T]:
        """The values of all patterns that the key matches, each once."""
        found = _Key(words_of(key))
        end = found.end
        waiting = [(self._root, 1)]
        while waiting:
            place, reached = waiting.pop()
            if place.rest:
                if place.literals <= found.present and found.reach(place.rest, reached) & end:
                    yield from place.here
                continue
            if reached & end:
                yield from place.here
            if place.next:
                found.follow(place, reached, waiting)


class _Key:
    """The words of a key, and how they lead from place to place. Positions are bits; the highest is the end of the key."""

    __slots__ = ("_positions", "_words", "end", "present")

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self.present = frozenset(words)
        self.end = 1 << len(words)
        self._positions: dict[str, int] = {}
        """Where each word stands. A wildcard in a key is none: what that leads to is followed for all words."""
        for position, word in enumerate(words):
            if word not in WILDCARDS:
                self._positions[word] = self._positions.get(word, 0) | 1 << position

    def follow(self, place: _Place[T], reached: int, waiting: list[tuple[_Place[T], int]]) -> None:
        """Add the places that come next, with where they are reached."""
        end = self.end
        if place.many is not None:
            # From the first position on, every one can be reached.
            waiting.append((place.many, (end << 1) - (reached & -reached)))
        reached &= end - 1
        if not reached:
            return
        if place.one is not None:
            waiting.append((place.one, reached << 1))
        following, positions = place.next, self._positions
        if not reached & (reached - 1):
            word = self._words[reached.bit_length() - 1]
            if word in positions and word in following:
                waiting.append((following[word], reached << 1))
        elif len(following) <= len(positions):
            for word, after in following.items():
                if stands := positions.get(word, 0) & reached:
                    waiting.append((after, stands << 1))
        else:
            for word, stands in positions.items():
                if stands & reached and word in following:
                    waiting.append((following[word], (stands & reached) << 1))

    def reach(self, rest: tuple[str, ...], reached: int) -> int:
        """Where these words lead to. All that are no wildcards are in the key."""
        end, positions = self.end, self._positions
        for word in rest:
            if word == MANY:
                reached = (end << 1) - (reached & -reached)
            elif word == ONE:
                reached = (reached & (end - 1)) << 1
            else:
                reached = (reached & positions[word]) << 1
            if not reached:
                break
        return reached


def words_of(text: str) -> list[str]:
    """Words between dots. A text without characters has none."""
    return text.split(".") if text else []
