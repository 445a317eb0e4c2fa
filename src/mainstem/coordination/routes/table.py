"""The exchanges and bindings of one namespace: `decide_*` answers changes, `replay` applies them, `route` uses them.

What is transient (an exchange or a queue that ends with the broker, and every binding of it) is changed in the same way
and never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from mainstem.coordination.routes.binding import Binding, Destination, DestinationKind, binding_identity
from mainstem.coordination.routes.errors import (
    DefaultExchange,
    ExchangeInUse,
    ReservedExchange,
    UnknownExchange,
)
from mainstem.coordination.routes.exchange import (
    PREDECLARED,
    RESERVED_PREFIX,
    Exchange,
    NewExchange,
    check_exchange,
    check_same,
)
from mainstem.coordination.routes.matchers import Matcher, matcher_for
from mainstem.storage.contract import Mutation

SCOPE = "routes"
"""Of all namespaces: the key begins with the namespace."""

_EXCHANGE, _BINDING = "exchange", "binding"

_encode = msgspec.msgpack.Encoder().encode
_decode_key = msgspec.msgpack.Decoder(tuple[str, str, bytes]).decode
_decode_exchange = msgspec.msgpack.Decoder(NewExchange).decode
_decode_binding = msgspec.msgpack.Decoder(Binding).decode


class RouteChanges(NamedTuple):
    """What a decision comes to."""

    state: list[Mutation]
    """To be committed."""
    transient: list[Mutation]
    """Not to be committed; applied like the others."""

    def applied(self) -> list[Mutation]:
        """All, in the order in which they are applied: a durable exchange goes after the transient bindings it has."""
        return [*self.transient, *self.state]

    def is_empty(self) -> bool:
        """Whether nothing is to be done."""
        return not self.state and not self.transient


class _ExchangeEntry(NamedTuple):
    exchange: Exchange
    matcher: Matcher
    outgoing: dict[bytes, Binding]


class RouteTable:
    """What is known of one namespace. Only `replay` changes it."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.generation = 0
        """Grows with every change."""
        self.alternate_by_policy: Callable[[str], str | None] = lambda name: None
        """Where an exchange sends what it cannot place, unless it was declared with something else."""
        self._entries: dict[str, _ExchangeEntry] = {}
        self._incoming: dict[Destination, dict[bytes, Binding]] = {}
        self._next_serial = 1
        for exchange in PREDECLARED:
            self._add_exchange(exchange)

    # Questions

    def find(self, name: str) -> Exchange | None:
        """The exchange of this name."""
        entry = self._entries.get(name)
        return None if entry is None else entry.exchange

    def matcher(self, name: str) -> Matcher:
        """How the exchange chooses among its bindings."""
        return self._entries[name].matcher

    def exchanges(self) -> list[Exchange]:
        """All there are."""
        return [entry.exchange for entry in self._entries.values()]

    def outgoing(self, name: str) -> list[Binding]:
        """Bindings that begin at an exchange."""
        entry = self._entries.get(name)
        return [] if entry is None else list(entry.outgoing.values())

    def incoming(self, destination: Destination) -> list[Binding]:
        """Bindings that lead there."""
        return list(self._incoming.get(destination, {}).values())

    def bindings(self) -> Iterable[Binding]:
        """All there are."""
        for entry in self._entries.values():
            yield from entry.outgoing.values()

    # Decisions

    def decide_declare(self, wish: NewExchange) -> RouteChanges:
        """An exchange; nothing if it is there already. Raises kinds of RouteError."""
        present = self.find(wish.name)
        if present is not None:
            if not wish.name:
                raise DefaultExchange
            check_same(present, wish)
            return RouteChanges([], [])
        check_exchange(wish)
        return self._changes([(_EXCHANGE, wish.name.encode(), _encode(wish), wish.durable)])

    def decide_delete(self, name: str, *, if_unused: bool = False) -> RouteChanges:
        """An exchange goes with its bindings, and with it those that end with their last binding."""
        if not name:
            raise DefaultExchange
        if name.startswith(RESERVED_PREFIX):
            raise ReservedExchange(name)
        entry = self._entries.get(name)
        if entry is None:
            raise UnknownExchange(name)
        if if_unused and entry.outgoing:
            raise ExchangeInUse(name)
        return self._decide_removal({}, [name])

    def decide_bind(
        self,
        source: str,
        destination: Destination,
        routing_key: str,
        arguments: Mapping[str, object],
        *,
        durable: bool = True,
    ) -> RouteChanges:
        """A binding; nothing if it is there already. `durable` is the queue's; an exchange is asked itself."""
        entry = self._ends(source, destination)
        identity = binding_identity(source, destination, routing_key, arguments)
        if destination.kind is DestinationKind.EXCHANGE:
            durable = self._entries[destination.name].exchange.durable
        durable = durable and entry.exchange.durable
        binding = Binding(source, destination, routing_key, arguments, durable, self._next_serial)
        entry.matcher.check(binding)
        if identity in entry.outgoing:
            return RouteChanges([], [])
        return self._changes([(_BINDING, identity, _encode(binding), durable)])

    def decide_unbind(
        self, source: str, destination: Destination, routing_key: str, arguments: Mapping[str, object]
    ) -> RouteChanges:
        """A binding goes; nothing if there is none."""
        entry = self._ends(source, destination)
        identity = binding_identity(source, destination, routing_key, arguments)
        binding = entry.outgoing.get(identity)
        if binding is None:
            return RouteChanges([], [])
        return self._decide_removal({identity: binding}, [])

    def decide_forget_queue(self, name: str) -> RouteChanges:
        """A queue is deleted: so are its bindings. To be committed together with that."""
        return self._decide_removal(dict(self._incoming.get(Destination(DestinationKind.QUEUE, name), {})), [])

    def decide_forget_all(self) -> RouteChanges:
        """The namespace is deleted."""
        own = [name for name in self._entries if name and not name.startswith(RESERVED_PREFIX)]
        rest = {identity: binding for entry in self._entries.values() for identity, binding in entry.outgoing.items()}
        return self._decide_removal(rest, own)

    def _ends(self, source: str, destination: Destination) -> _ExchangeEntry:
        """The source of a binding, both ends being there. Raises UnknownExchange, DefaultExchange."""
        if not source or (not destination.name and destination.kind is DestinationKind.EXCHANGE):
            raise DefaultExchange
        entry = self._entries.get(source)
        if entry is None:
            raise UnknownExchange(source)
        if destination.kind is DestinationKind.EXCHANGE and destination.name not in self._entries:
            raise UnknownExchange(destination.name)
        return entry

    def _decide_removal(self, bindings: dict[bytes, Binding], exchanges: Sequence[str]) -> RouteChanges:
        """These go, and whatever ends with them: bindings with their exchange, exchanges with their last binding."""
        gone: dict[str, None] = {}
        left: dict[str, int] = {}
        waiting, loose = list(exchanges), list(bindings.values())
        while waiting or loose:
            while loose:
                source = loose.pop().source
                left[source] = left.get(source, len(self._entries[source].outgoing)) - 1
                if not left[source] and self._entries[source].exchange.auto_delete:
                    waiting.append(source)
            if waiting:
                name = waiting.pop()
                if name in gone:
                    continue
                gone[name] = None
                ends = self._incoming.get(Destination(DestinationKind.EXCHANGE, name), {})
                added = {
                    identity: binding
                    for identity, binding in (*ends.items(), *self._entries[name].outgoing.items())
                    if identity not in bindings
                }
                bindings |= added
                loose += added.values()
        changes = [(_BINDING, identity, None, binding.durable) for identity, binding in bindings.items()]
        changes += [(_EXCHANGE, name.encode(), None, self._entries[name].exchange.durable) for name in gone]
        return self._changes(changes)

    def _changes(self, changes: Iterable[tuple[str, bytes, bytes | None, bool]]) -> RouteChanges:
        decided = RouteChanges([], [])
        for kind, identity, value, durable in changes:
            mutation = Mutation(SCOPE, _encode((self.namespace, kind, identity)), value)
            (decided.state if durable else decided.transient).append(mutation)
        return decided

    # Effects

    def replay(self, kind: str, identity: bytes, value: bytes | None) -> None:
        """Apply one change of this namespace."""
        self.generation += 1
        if kind == _EXCHANGE:
            self._replay_exchange(identity.decode(), value)
        elif value is not None:
            self._add_binding(identity, _decode_binding(value))
        else:
            self._remove(identity)

    def _replay_exchange(self, name: str, value: bytes | None) -> None:
        if value is not None:
            self._add_exchange(Exchange(_decode_exchange(value)))
        else:
            self._entries.pop(name, None)

    def _add_exchange(self, exchange: Exchange) -> None:
        self._entries[exchange.name] = _ExchangeEntry(exchange, matcher_for(exchange), {})

    def _add_binding(self, identity: bytes, binding: Binding) -> None:
        entry = self._entries[binding.source]
        entry.outgoing[identity] = binding
        entry.matcher.add(binding)
        self._incoming.setdefault(binding.destination, {})[identity] = binding
        self._next_serial = max(self._next_serial, binding.serial + 1)

    def _remove(self, identity: bytes) -> None:
        entry = self._entries.get(source_of(identity))
        binding = None if entry is None else entry.outgoing.pop(identity, None)
        if entry is None or binding is None:
            return  # Somebody else removed it while the same removal was committed.
        entry.matcher.remove(binding)
        incoming = self._incoming[binding.destination]
        del incoming[identity]
        if not incoming:
            del self._incoming[binding.destination]


_decode_identity = msgspec.msgpack.Decoder(tuple[str, str, str, str, bytes]).decode


def source_of(identity: bytes) -> str:
    """The exchange at which a binding begins."""
    return _decode_identity(identity)[0]


def decode_change(key: bytes) -> tuple[str, str, bytes]:
    """Namespace, kind and identity of a stored key."""
    return _decode_key(key)


def in_order(entries: Mapping[bytes, bytes]) -> list[tuple[tuple[str, str, bytes], bytes]]:
    """Stored entries so that they can be replayed: exchanges first, then bindings as they were made."""
    decoded = [(_decode_key(key), value) for key, value in entries.items()]
    bindings = [(key, value, _decode_binding(value).serial) for key, value in decoded if key[1] == _BINDING]
    bindings.sort(key=lambda entry: entry[2])
    exchanges = [(key, value) for key, value in decoded if key[1] == _EXCHANGE]
    return exchanges + [(key, value) for key, value, _ in bindings]
