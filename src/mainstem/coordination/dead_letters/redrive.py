"""Redrives as they are stored: what was wished, and how far it is. One scope for all, a key for each. Pure."""

from __future__ import annotations

import struct
from typing import Literal, TypeAlias

import msgspec

from mainstem.storage.contract import Mutation

SCOPE = "redrives"
RedriveState: TypeAlias = Literal["running", "done", "cancelled", "failed"]
_NUMBER = struct.Struct(">Q")


class RedriveWish(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be sent back, and how."""

    to_queue: str | None = None
    """None: the queue in which each one died."""
    rate: float = 100.0
    """Messages in a second, at most."""
    limit: int | None = None
    """Messages in all."""
    times_max: int = 3
    """One that was sent back so often stays."""
    reason: str | None = None
    """Only those that died of this."""
    origin: str | None = None
    """Only those that died in this queue."""
    where: str | None = None
    """Only those whose headers fit this SQL92 expression."""


class RedriveEntry(msgspec.Struct, frozen=True, array_like=True):
    """One of them."""

    namespace: str
    queue: str
    wish: RedriveWish
    state: RedriveState = "running"
    moved: int = 0
    left: int = 0
    error: str = ""


_encode = msgspec.msgpack.Encoder().encode
decode_redrive = msgspec.msgpack.Decoder(RedriveEntry).decode


def put_redrive(number: int, entry: RedriveEntry | None) -> Mutation:
    """Store how far it is; None: nobody remembers it."""
    return Mutation(SCOPE, _NUMBER.pack(number), None if entry is None else _encode(entry))


def decode_number(key: bytes) -> int:
    """Which one a key is about."""
    return int(_NUMBER.unpack(key)[0])
