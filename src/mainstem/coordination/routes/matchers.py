"""How an exchange chooses among its bindings: one matcher for each kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec

from mainstem.coordination.routes import exchange as kinds
from mainstem.coordination.routes.binding import Binding, Destination
from mainstem.coordination.routes.errors import InvalidBinding
from mainstem.coordination.routes.exchange import Exchange
from mainstem.coordination.routes.hash_ring import WEIGHT_MAX, HashRing
from mainstem.coordination.routes.headers_index import X_MATCH, HeadersIndex
from mainstem.coordination.routes.topic_trie import TopicTrie

Facts = Callable[[], Mapping[str, object]]
"""Headers, or properties, of a message: decoded only when a route asks for them."""

X_MATCHES = frozenset({"all", "any", "all-with-x", "any-with-x"})

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Matcher(Protocol):
    """The bindings that begin at one exchange."""

    by_key_alone: bool
    """Whether the routing key decides, so that the outcome can be kept."""
    uses_key: bool
    """Whether the routing key matters: else a message with many keys is matched once."""

    def check(self, binding: Binding) -> None:
        """Whether there can be such a binding. Raises InvalidBinding."""

    def add(self, binding: Binding) -> None:
        """Take a binding in."""

    def remove(self, binding: Binding) -> None:
        """Let a binding go."""

    def match(self, routing_key: str, headers: Facts, properties: Facts) -> Iterable[Binding]:
        """Those that take the message."""


class DirectMatcher:
    """The key of the message is the key of the binding."""

    by_key_alone = True
    uses_key = True

    def __init__(self) -> None:
        self._by_key: dict[str, list[Binding]] = {}

    def check(self, binding: Binding) -> None:
        """Any."""

    def add(self, binding: Binding) -> None:
        """Take a binding in."""
        self._by_key.setdefault(binding.routing_key, []).append(binding)

    def remove(self, binding: Binding) -> None:
        """Let a binding go."""
        same = self._by_key[binding.routing_key]
        same.remove(binding)
        if not same:
            del self._by_key[binding.routing_key]

    def match(self, routing_key: str, headers: Facts, properties: Facts) -> Iterable[Binding]:
        """Those with this key."""
        return self._by_key.get(routing_key, ())


class FanoutMatcher:
    """Everything goes everywhere."""

    by_key_alone = True
    uses_key = False

    def __init__(self) -> None:
        self._all: dict[int, Binding] = {}

    def check(self, binding: Binding) -> None:
        """Any."""

    def add(self, binding: Binding) -> None:
        """Take a binding in."""
        self._all[binding.serial] = binding

    def remove(self, binding: Binding) -> None:
        """Let a binding go."""
        del self._all[binding.serial]

    def match(self, routing_key: str, headers: Facts, properties: Facts) -> Iterable[Binding]:
        """All."""
        return self._all.values()


class TopicMatcher:
    """The key of the binding is a pattern."""

    by_key_alone = True
    uses_key = True

    def __init__(self) -> None:
        self._trie: TopicTrie[Binding] = TopicTrie()

    def check(self, binding: Binding) -> None:
        """Any text is a pattern."""

    def add(self, binding: Binding) -> None:
        """Take a binding in."""
        self._trie.add(binding.routing_key, binding)

    def remove(self, binding: Binding) -> None:
        """Let a binding go."""
        self._trie.remove(binding.routing_key, binding)

    def match(self, routing_key: str, headers: Facts, properties: Facts) -> Iterable[Binding]:
        """Those whose pattern fits."""
        return self._trie.match(routing_key)


class HeadersMatcher:
    """The arguments of the binding are compared with the headers of the message."""

    by_key_alone = False
    uses_key = False

    def __init__(self) -> None:
        self._index = HeadersIndex()

    def check(self, binding: Binding) -> None:
        """Whether `x-match` is known."""
        word = binding.arguments.get(X_MATCH, "all")
        if not isinstance(word, str) or word not in X_MATCHES:
            raise InvalidBinding(f"Invalid x-match field value {word!r}; expected all, any, all-with-x, or any-with-x")

    def add(self, binding: Binding) -> None:
        """Take a binding in."""
        self._index.add(binding)

    def remove(self, binding: Binding) -> None:
        """Let a binding go."""
        self._index.remove(binding)

    def match(self, routing_key: str, headers: Facts, properties: Facts) -> Iterable[Binding]:
        """Those whose arguments are found among the headers."""
        return () if self._index.is_empty() else self._index.match(headers())


class HashMatcher:
    """Bindings share the keys according to their weights."""

    def __init__(self, header: str | None, named_property: str | None) -> None:
        self.by_key_alone = self.uses_key = header is None and named_property is None
        self._header = header
        self._property = named_property
        self._all: dict[int, Binding] = {}
        self._ring: HashRing[Binding] | None = None

    def check(self, binding: Binding) -> None:
        """Whether the key is a weight."""
        if _INTEGER.fullmatch(binding.routing_key) is None:
            raise InvalidBinding(f"The binding key must be an integer: {binding.routing_key!r}")
        weight = int(binding.routing_key)
        if weight < 1:
            raise InvalidBinding("The binding key must be greater than 0")
        if weight > WEIGHT_MAX:
            raise InvalidBinding(f"The binding key must be at most {WEIGHT_MAX}")

    def add(self, binding: Binding) -> None:
        """Take a binding in."""
        self._all[binding.serial] = binding
        self._ring = None

    def remove(self, binding: Binding) -> None:
        """Let a binding go."""
        del self._all[binding.serial]
        self._ring = None

    def match(self, routing_key: str, headers: Facts, properties: Facts) -> Iterable[Binding]:
        """The one to which the key belongs."""
        if self._ring is None:
            self._ring = HashRing(self._shares().items())
        if self._header is not None:
            key = _hashable(headers().get(self._header))
        elif self._property is not None:
            key = _hashable(properties().get(self._property))
        else:
            key = routing_key.encode()
        chosen = self._ring.choose(key)
        return () if chosen is None else (chosen,)

    def _shares(self) -> dict[Binding, int]:
        """The first binding of each destination counts, in the order in which they were made."""
        first: dict[Destination, Binding] = {}
        for _, binding in sorted(self._all.items()):
            first.setdefault(binding.destination, binding)
        return {binding: int(binding.routing_key) for binding in first.values()}


def matcher_for(exchange: Exchange) -> Matcher:
    """An empty matcher of the kind that the exchange matches by."""
    if exchange.matches_by == kinds.CONSISTENT_HASH:
        return HashMatcher(exchange.hash_header, exchange.hash_property)
    return _SIMPLE[exchange.matches_by]()


_SIMPLE: dict[str, Callable[[], Matcher]] = {
    kinds.DIRECT: DirectMatcher,
    kinds.FANOUT: FanoutMatcher,
    kinds.TOPIC: TopicMatcher,
    kinds.HEADERS: HeadersMatcher,
}


def _hashable(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else _encode(value)
