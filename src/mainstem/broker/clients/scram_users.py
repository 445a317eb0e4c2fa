"""Users that administrators have made, each with what proves his password, never with the password (RFC 5802)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from mainstem.storage.contract import Engine, Mutation

SCOPE = "scram_users"


class ScramSecret(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


Secrets: TypeAlias = Mapping[str, ScramSecret]
"""By mechanism."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, ScramSecret]).decode


class ScramUsers:
    """By name."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._users: dict[str, dict[str, ScramSecret]] = {}

    async def load(self) -> None:
        """Take back what is stored."""
        for key, value in (await self._engine.load(SCOPE)).entries.items():
            self._users[key.decode()] = _decode(value)

    def names(self) -> list[str]:
        """Of all users."""
        return sorted(self._users)

    def get(self, name: str) -> Secrets:
        """What is known of one; nothing of a stranger."""
        return self._users.get(name, {})

    async def alter(self, changed: Mapping[str, Secrets]) -> None:
        """Replace what is kept of these users, by one commit; one of whom nothing is kept is gone."""
        entries = [
            Mutation(SCOPE, name.encode(), _encode(dict(secrets)) if secrets else None)
            for name, secrets in changed.items()
        ]
        await self._engine.alter((), entries)
        for name, secrets in changed.items():
            if secrets:
                self._users[name] = dict(secrets)
            else:
                self._users.pop(name, None)
