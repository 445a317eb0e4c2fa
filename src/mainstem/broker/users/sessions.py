"""Sessions of browsers: begun by a login, kept in the log, ended by a logout, by time, or with the password.

The browser has a secret that its pages cannot read (a cookie). The token that changes need is made from it and told to the page
once: a page of another site has neither. The log has a digest of the secret alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mainstem.broker.administration import Administration
from mainstem.broker.clock import Clock
from mainstem.broker.users.access import Access
from mainstem.broker.users.callers import Caller
from mainstem.coordination.administration.entries import Key, Session, User

LIFETIME_MS = 12 * 3_600_000
SECRET_BYTES = 32
SESSIONS_OF_USER_MAX = 100
"""Of one user; one more ends the oldest."""


class Begun(NamedTuple):
    """A new session."""

    secret: str
    """For the browser alone."""
    token: str
    """For its pages, which say it with every change."""
    expires_ms: int


class Sessions:
    """Those that there are."""

    def __init__(
        self, administration: Administration, access: Access, clock: Clock, random: Callable[[int], bytes] = os.urandom
    ) -> None:
        self._administration = administration
        self._access = access
        self._clock = clock
        self._random = random
        self._sessions: Mapping[Key, Session] = administration.registry.all(Session)
        self._changes_lock = asyncio.Lock()

    async def begin(self, caller: Caller) -> Begun:
        """For somebody who has just proven to be this user."""
        secret = self._random(SECRET_BYTES).hex()
        now = self._clock.now_ms()
        expires_ms = min(now + LIFETIME_MS, caller.expires_ms or now + LIFETIME_MS)
        begun = Session(
            _digest(secret), caller.name, now, expires_ms, _fingerprint(self._access.find(caller.name)), caller.roles
        )
        async with self._changes_lock:
            over = [session for session in self._sessions.values() if session.expires_ms <= now]
            own = [
                session for session in self._sessions.values() if session.user == caller.name and session not in over
            ]
            own.sort(key=lambda session: session.created_ms)
            await self._administration.replace([*over, *own[: len(own) + 1 - SESSIONS_OF_USER_MAX]], [begun])
        return Begun(secret, token_of(secret), expires_ms)

    def find(self, secret: str) -> Session | None:
        """The session of a browser, while it holds."""
        found = self._sessions.get((_digest(secret),))
        if found is None or found.expires_ms <= self._clock.now_ms():
            return None
        user = self._access.find(found.user)
        if user is not None and user.is_disabled:
            return None
        return found if hmac.compare_digest(found.fingerprint, _fingerprint(user)) else None

    def admit(self, session: Session, host: str) -> Caller:
        """Who asks within it."""
        caller = self._access.admit(session.user, host)
        caller.roles = session.roles
        caller.expires_ms = session.expires_ms
        return caller

    def all(self, user: str) -> list[Session]:
        """Those of a user that hold."""
        now = self._clock.now_ms()
        return [one for one in self._sessions.values() if one.user == user and one.expires_ms > now]

    async def end(self, ended: Iterable[Session]) -> None:
        """They hold no more."""
        async with self._changes_lock:
            gone = [session for session in ended if session.key() in self._sessions]
            if gone:
                await self._administration.remove(gone)


def token_of(secret: str) -> str:
    """What a page says with every change."""
    return hmac.digest(secret.encode(), b"token", "sha256").hex()


def is_token(secret: str, token: str) -> bool:
    """Whether a page has said the right one."""
    return secrets.compare_digest(token_of(secret).encode(), token.encode())


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _fingerprint(user: User | None) -> bytes:
    if user is None:
        return b""
    kept = user.password_hash.encode() or b"".join(one.stored_key for _, one in sorted(user.verifiers.items()))
    return hashlib.sha256(kept).digest()
