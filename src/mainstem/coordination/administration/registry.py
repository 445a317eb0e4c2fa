"""What is set, by kind and key: `decide_*` answers changes, `replay` applies them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

import msgspec

from mainstem.coordination.administration.entries import KINDS, Entry, Key
from mainstem.coordination.administration.errors import InvalidEntry
from mainstem.storage.contract import Mutation

SCOPE = "administration"
ENTRIES_MAX = 100_000
"""Of one kind."""

E = TypeVar("E", bound=Entry)

_encode = msgspec.msgpack.Encoder().encode
_decode_key = msgspec.msgpack.Decoder(tuple[str, tuple[str, ...]]).decode
_decoders = {kind: msgspec.msgpack.Decoder(entry).decode for kind, entry in KINDS.items()}


class Registry:
    """All that is set. Only `replay` changes it."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[Key, Entry]] = {kind: {} for kind in KINDS}

    def all(self, kind: type[E]) -> Mapping[Key, E]:
        """Everything of a kind; stays current."""
        return cast("Mapping[Key, E]", self._entries[kind.kind])

    def decide_put(self, entry: Entry) -> Mutation:
        """Set it. Raises InvalidEntry."""
        entry.check()
        known = self._entries[entry.kind]
        if entry.key() not in known and len(known) >= ENTRIES_MAX:
            raise InvalidEntry(f"there are {ENTRIES_MAX} already")
        return Mutation(SCOPE, _encode((entry.kind, entry.key())), _encode(entry))

    def decide_remove(self, entries: Iterable[Entry]) -> list[Mutation]:
        """They are not set any more."""
        return [Mutation(SCOPE, _encode((entry.kind, entry.key())), None) for entry in entries]

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one change."""
        kind, parts = _decode_key(key)
        if value is None:
            self._entries[kind].pop(parts, None)
        else:
            self._entries[kind][parts] = _decoders[kind](value)
