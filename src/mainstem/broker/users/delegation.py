"""Delegation tokens (KIP-48, KIP-373): a user lets somebody act in its name for a while, without giving the password away.

The secret of a token is made from its name by a key that is in a file outside the log, and is kept nowhere: who reads the log
has no token, and another key ends them all.
"""

from __future__ import annotations

import base64
import functools
import hmac
import os
from collections.abc import Callable, Iterable, Mapping

import msgspec

from mainstem.broker.administration import Administration
from mainstem.broker.clock import Clock
from mainstem.coordination.administration.entries import DelegationToken, Key
from mainstem.wire.scram import SALT_BYTES, TOOLS_ITERATIONS, Verifier, derive

__all__ = ["DelegationToken", "DelegationTokens"]

ID_BYTES = 16
TOKENS_OF_USER_MAX = 1_000
"""Of one owner."""


class DelegationTokens:
    """Those that there are."""

    def __init__(
        self, administration: Administration, clock: Clock, random: Callable[[int], bytes] = os.urandom
    ) -> None:
        self._administration = administration
        self._clock = clock
        self._random = random
        self._tokens: Mapping[Key, DelegationToken] = administration.registry.all(DelegationToken)
        self._key = b""

    def govern(self, key: bytes) -> None:
        """The key from the settings; empty: there are no tokens."""
        self._key = key

    @property
    def are_given(self) -> bool:
        """Whether there are tokens at all."""
        return bool(self._key)

    def find(self, name: str) -> DelegationToken | None:
        """The token of this name, while it holds."""
        found = self._tokens.get((name,)) if self._key else None
        return None if found is None or found.expires_ms <= self._clock.now_ms() else found

    def by_secret(self, secret: bytes) -> DelegationToken | None:
        """The token with this secret, also when it has expired."""
        for token in self._tokens.values() if self._key else ():
            if hmac.compare_digest(self.secret_of(token), secret):
                return token
        return None

    def all(self) -> list[DelegationToken]:
        """Those that hold."""
        now = self._clock.now_ms()
        return [token for token in self._tokens.values() if token.expires_ms > now] if self._key else []

    def secret_of(self, token: DelegationToken) -> bytes:
        """What the client has; in base64 it is the password of SCRAM."""
        return _secret(self._key, token.id)

    def verifier(self, name: str, mechanism: str) -> Verifier | None:
        """What proves that somebody has the token."""
        found = self.find(name)
        return None if found is None else _verifier(self._key, found.id, mechanism)

    def may_issue(self, owner: str) -> bool:
        """Whether the owner has not too many."""
        return sum(token.owner == owner for token in self.all()) < TOKENS_OF_USER_MAX

    async def issue(
        self, owner: str, requester: str, renewers: Iterable[str], lifetime_ms: int, expiry_ms: int
    ) -> DelegationToken:
        """A new one. Raises InvalidEntry."""
        now = self._clock.now_ms()
        name = base64.urlsafe_b64encode(self._random(ID_BYTES)).rstrip(b"=").decode()
        max_ms = now + lifetime_ms
        token = DelegationToken(name, owner, requester, tuple(renewers), now, min(max_ms, now + expiry_ms), max_ms)
        gone = [each for each in self._tokens.values() if each.expires_ms <= now]
        await self._administration.replace(gone, [token])
        return token

    async def renew(self, token: DelegationToken, expires_ms: int) -> DelegationToken:
        """It holds until then, at most as long as it may at all."""
        renewed = msgspec.structs.replace(token, expires_ms=min(token.max_ms, expires_ms))
        await self._administration.put(renewed)
        return renewed

    async def end(self, token: DelegationToken) -> None:
        """It holds no more."""
        await self._administration.remove([token])


@functools.lru_cache(maxsize=100_000)
def _secret(key: bytes, name: str) -> bytes:
    return hmac.digest(key, name.encode(), "sha512")


@functools.lru_cache(maxsize=1_024)
def _verifier(key: bytes, name: str, mechanism: str) -> Verifier:
    """Derived with few iterations: nobody guesses a secret of 64 bytes."""
    salt = hmac.digest(key, f"salt {mechanism} {name}".encode(), "sha256")[:SALT_BYTES]
    return derive(base64.b64encode(_secret(key, name)), mechanism, salt, TOOLS_ITERATIONS)
