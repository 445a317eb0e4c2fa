"""Publications that are made once however often a client asks: each is known by a key of the client's.

The key is stored by the commit that publishes, so that both survive or neither does. Where the records went is stored shortly
after: a repetition that comes after a crash in between is told that they are there, but not where.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from mainstem.model.errors import PeerError
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Engine, Mutation

SCOPE = "once"
LIFE_MS = 86_400_000
KEYS_MAX = 100_000
"""The oldest are forgotten first."""
FORGOTTEN_AT_ONCE = 16
"""By one commit."""


class KeyReused(PeerError):
    """The key belongs to a publication of other content."""


class Position(msgspec.Struct, frozen=True, array_like=True):
    """Where a record went: to an offset, or into the schedule until it is due."""

    partition: int
    offset: int
    """-1: not known, or not published yet."""
    scheduled: str = ""
    """The id of a record that waits for its time."""


class OnceEntry(msgspec.Struct, frozen=True, array_like=True):
    """A publication that was made, as it is stored."""

    made_ms: int
    digest: bytes
    positions: list[Position] | None = None


class OnceKey(NamedTuple):
    """What a client calls a publication, and the content that it stands for."""

    key: bytes
    digest: bytes


def once_key(namespace: str, topic: str, text: str, content: bytes) -> OnceKey:
    """The key of a publication to a topic."""
    name = "\0".join((namespace, topic, text)).encode()
    return OnceKey(hashlib.sha256(name).digest()[:16], hashlib.sha256(content).digest()[:16])


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OnceEntry).decode


class Once:
    """All keys that are known."""

    def __init__(self, engine: Engine, keys_max: int = KEYS_MAX) -> None:
        self._engine = engine
        self._keys_max = keys_max
        self._known: dict[bytes, OnceEntry] = {}
        """In the order of their making."""
        self._under_way: dict[bytes, tuple[bytes, Answer[list[Position]]]] = {}

    async def load(self) -> None:
        """Take in what is stored."""
        entries = [(key, _decode(value)) for key, value in (await self._engine.load(SCOPE)).entries.items()]
        self._known = dict(sorted(entries, key=lambda entry: entry[1].made_ms))

    def find(self, once: OnceKey, now_ms: int) -> OnceEntry | Answer[list[Position]] | None:
        """The publication of this key: made, under way, or neither. Raises KeyReused."""
        known = self._known.get(once.key)
        if known is not None and known.made_ms + LIFE_MS <= now_ms:
            known = None
        under_way = self._under_way.get(once.key)
        digest = known.digest if known is not None else under_way[0] if under_way is not None else once.digest
        if digest != once.digest:
            raise KeyReused("the key was used for other content")
        return known or (None if under_way is None else under_way[1])

    def begin(self, once: OnceKey, now_ms: int) -> list[Mutation]:
        """A publication is about to be committed, with this."""
        self._under_way[once.key] = (once.digest, Answer())
        forgotten = list(self._old(now_ms))
        entry = OnceEntry(now_ms, once.digest)
        return [Mutation(SCOPE, once.key, _encode(entry)), *(Mutation(SCOPE, key, None) for key in forgotten)]

    def _old(self, now_ms: int) -> Iterator[bytes]:
        surplus = len(self._known) - self._keys_max
        for number, (key, entry) in enumerate(self._known.items()):
            if number >= FORGOTTEN_AT_ONCE or (number >= surplus and entry.made_ms + LIFE_MS > now_ms):
                return
            if key not in self._under_way:
                yield key

    def made(self, once: OnceKey, now_ms: int, state: list[Mutation], positions: list[Position]) -> None:
        """It is durable."""
        for mutation in state:
            self._known.pop(mutation.key, None)
        entry = self._known[once.key] = OnceEntry(now_ms, once.digest, positions)
        self._under_way.pop(once.key)[1].resolve(positions)
        self._engine.alter((), [Mutation(SCOPE, once.key, _encode(entry))])

    def failed(self, once: OnceKey, error: BaseException) -> None:
        """Nothing was published: the key is free again."""
        self._under_way.pop(once.key)[1].fail(error)
