"""Bindings of a headers exchange, found by the headers of a message.

A binding asks for pairs of a name and a value, or for a name with any value. A message is turned into the set of what it
offers once; then only those bindings are looked at that ask for something it has. Bindings that ask for the same are one
condition, so that a thousand queues with equal arguments cost one test.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TypeAlias

from mainstem.coordination.routes.binding import Binding

X_MATCH = "x-match"

Demand: TypeAlias = Hashable
"""A name, or a name with a value: what a binding asks for and a message offers. Equal where `is_same` says so."""


class _Condition:
    """What some bindings ask for, and these bindings."""

    __slots__ = ("bindings", "demands", "home")

    def __init__(self, demands: frozenset[Demand]) -> None:
        self.demands = demands
        self.bindings: dict[int, Binding] = {}
        self.home: Demand = None
        """Under which of its demands a condition that needs all of them is found."""


class HeadersIndex:
    """Bindings by what they ask for."""

    def __init__(self) -> None:
        self._alls: dict[frozenset[Demand], _Condition] = {}
        self._anys: dict[frozenset[Demand], _Condition] = {}
        self._alls_by_home: dict[Demand, dict[_Condition, None]] = {}
        self._anys_by_demand: dict[Demand, dict[_Condition, None]] = {}
        self._names: dict[str, int] = {}
        """How many conditions ask for a name: other headers of a message are not looked at."""

    def add(self, binding: Binding) -> None:
        """Take a binding in."""
        wanted = wanted_headers(binding.arguments)
        demands = frozenset(demand_of(name, value) for name, value in wanted.items())
        needs_any = is_any(binding.arguments)
        conditions = self._anys if needs_any else self._alls
        condition = conditions.get(demands)
        if condition is None:
            condition = conditions[demands] = _Condition(demands)
            if needs_any:
                for demand in demands:
                    self._anys_by_demand.setdefault(demand, {})[condition] = None
            else:
                condition.home = self._rarest(demands)
                self._alls_by_home.setdefault(condition.home, {})[condition] = None
            for name in wanted:
                self._names[name] = self._names.get(name, 0) + 1
        condition.bindings[binding.serial] = binding

    def remove(self, binding: Binding) -> None:
        """Let a binding go."""
        wanted = wanted_headers(binding.arguments)
        demands = frozenset(demand_of(name, value) for name, value in wanted.items())
        needs_any = is_any(binding.arguments)
        conditions = self._anys if needs_any else self._alls
        condition = conditions[demands]
        del condition.bindings[binding.serial]
        if condition.bindings:
            return
        del conditions[demands]
        if needs_any:
            for demand in demands:
                _discard(self._anys_by_demand, demand, condition)
        else:
            _discard(self._alls_by_home, condition.home, condition)
        for name in wanted:
            self._names[name] -= 1
            if not self._names[name]:
                del self._names[name]

    def match(self, headers: Mapping[str, object]) -> Iterator[Binding]:
        """The bindings that take a message with these headers, each once."""
        offered = self._offered(headers)
        found: dict[_Condition, None] = {}
        for demand in offered:
            if (conditions := self._anys_by_demand.get(demand)) is not None:
                found |= conditions
        for demand in (None, *offered):
            if (conditions := self._alls_by_home.get(demand)) is not None:
                found |= dict.fromkeys(condition for condition in conditions if condition.demands <= offered)
        for condition in found:
            yield from condition.bindings.values()

    def is_empty(self) -> bool:
        """Whether there is no binding."""
        return not self._alls and not self._anys

    def _offered(self, headers: Mapping[str, object]) -> set[Demand]:
        """What bindings may ask for and the message has."""
        offered: set[Demand] = set()
        names = self._names
        for name in names if len(names) < len(headers) else headers:
            if name in names and name in headers:
                offered.add(name)
                offered.add(demand_of(name, headers[name]))
        return offered

    def _rarest(self, demands: frozenset[Demand]) -> Demand:
        """Under which the fewest conditions are found: a pair that all bindings share would tell none of them apart."""
        return min(demands, key=lambda demand: len(self._alls_by_home.get(demand, ())), default=None)


def headers_match(arguments: Mapping[str, object], headers: Mapping[str, object]) -> bool:
    """Whether all, or any, of the arguments are among the headers. Those that begin with `x-` count only if asked for."""
    matches = (name in headers and is_same(value, headers[name]) for name, value in wanted_headers(arguments).items())
    return any(matches) if is_any(arguments) else all(matches)


def is_same(wanted: object, present: object) -> bool:
    """Wanting nothing in particular is content with anything. True is not 1, though Python thinks so."""
    if wanted is None:
        return True
    return isinstance(wanted, bool) is isinstance(present, bool) and wanted == present


def is_any(arguments: Mapping[str, object]) -> bool:
    """Whether one of the arguments is enough."""
    word = arguments.get(X_MATCH)
    return isinstance(word, str) and word.startswith("any")


def wanted_headers(arguments: Mapping[str, object]) -> dict[str, object]:
    """Those of the arguments that are compared with headers."""
    word = arguments.get(X_MATCH)
    with_x = isinstance(word, str) and word.endswith("-with-x")
    return {
        name: value for name, value in arguments.items() if name != X_MATCH and (with_x or not name.startswith("x-"))
    }


def demand_of(name: str, value: object) -> Demand:
    """The name alone where there is no value, else both."""
    return name if value is None else (name, isinstance(value, bool), _hashable(value))


def _hashable(value: object) -> Hashable:
    """Equal for equal values, also of kinds that Python does not hash."""
    if isinstance(value, Mapping):
        return Mapping, frozenset((name, _hashable(content)) for name, content in value.items())
    if isinstance(value, list | tuple):
        return list, tuple(_hashable(content) for content in value)
    assert isinstance(value, Hashable)
    return value


def _discard(index: dict[Demand, dict[_Condition, None]], demand: Demand, condition: _Condition) -> None:
    conditions = index[demand]
    del conditions[condition]
    if not conditions:
        del index[demand]
