"""Filters by levels: what of them fits a name is found in a walk along the name's levels."""

from __future__ import annotations

from typing import Generic, TypeVar

from mainstem.coordination.devices.topic_filters import MANY, ONE, SEPARATOR

T = TypeVar("T")


class _Place(Generic[T]):
    __slots__ = ("here", "next")

    def __init__(self) -> None:
        self.next: dict[str, _Place[T]] = {}
        self.here: list[T] = []


class FilterTrie(Generic[T]):
    """Values by filter."""

    def __init__(self) -> None:
        self._root: _Place[T] = _Place()
        self.generation = 0
        """Grows with every change."""
        self.count = 0

    def add(self, text: str, value: T) -> None:
        """Keep a value for a filter."""
        place = self._root
        for level in text.split(SEPARATOR):
            following = place.next.get(level)
            if following is None:
                following = place.next[level] = _Place()
            place = following
        place.here.append(value)
        self.count += 1
        self.generation += 1

    def remove(self, text: str, value: T) -> None:
        """Let it go, and the places that only it needed."""
        place, path = self._root, []
        for level in text.split(SEPARATOR):
            path.append((place, level))
            place = place.next[level]
        place.here.remove(value)
        self.count -= 1
        self.generation += 1
        for above, level in reversed(path):
            below = above.next[level]
            if below.here or below.next:
                break
            del above.next[level]

    def match(self, name: str) -> list[T]:
        """The values of all filters that the name fits. Wildcards do not stand for a first level that begins with $."""
        found: list[T] = []
        reached = [self._root]
        takes_wildcards = not name.startswith("$")
        for level in name.split(SEPARATOR):
            following: list[_Place[T]] = []
            for place in reached:
                below = place.next
                if takes_wildcards:
                    if (many := below.get(MANY)) is not None:
                        found += many.here
                    if (one := below.get(ONE)) is not None:
                        following.append(one)
                if (literal := below.get(level)) is not None:
                    following.append(literal)
            takes_wildcards = True
            reached = following
            if not reached:
                return found
        for place in reached:
            found += place.here
            if (many := place.next.get(MANY)) is not None:  # a/# fits a, too
                found += many.here
        return found


class _Name(Generic[T]):
    __slots__ = ("next", "value")

    def __init__(self) -> None:
        self.next: dict[str, _Name[T]] = {}
        self.value: T | None = None


class NameTrie(Generic[T]):
    """The other way round: values by name, found by a filter."""

    def __init__(self) -> None:
        self._root: _Name[T] = _Name()

    def put(self, name: str, value: T) -> None:
        """One value for a name."""
        place = self._root
        for level in name.split(SEPARATOR):
            following = place.next.get(level)
            if following is None:
                following = place.next[level] = _Name()
            place = following
        place.value = value

    def remove(self, name: str) -> None:
        """Nothing for this name any more."""
        place, path = self._root, []
        for level in name.split(SEPARATOR):
            following = place.next.get(level)
            if following is None:
                return
            path.append((place, level))
            place = following
        place.value = None
        for above, level in reversed(path):
            below = above.next[level]
            if below.value is not None or below.next:
                break
            del above.next[level]

    def match(self, text: str) -> list[T]:
        """The values of all names that fit the filter."""
        reached = [self._root]
        levels = text.split(SEPARATOR)
        for number, level in enumerate(levels):
            if level == MANY:
                return self._all_below(reached, hides_system=number == 0)
            following: list[_Name[T]] = []
            for place in reached:
                if level == ONE:
                    following += [below for name, below in place.next.items() if number or not name.startswith("$")]
                elif (below_it := place.next.get(level)) is not None:
                    following.append(below_it)
            reached = following
        return [place.value for place in reached if place.value is not None]

    def _all_below(self, reached: list[_Name[T]], *, hides_system: bool) -> list[T]:
        found: list[T] = []
        waiting: list[_Name[T]] = []
        for place in reversed(reached):
            if hides_system:
                waiting += [below for name, below in place.next.items() if not name.startswith("$")]
            else:
                waiting.append(place)
        while waiting:
            place = waiting.pop()
            if place.value is not None:
                found.append(place.value)
            waiting += place.next.values()
        return found
