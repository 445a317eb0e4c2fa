"""Passwords: what is kept of one, and whether one is right. All of it is slow on purpose, and done by a thread.

Whatever is asked, the work is the same: for who is not here, for who is disabled, and for who has the hash of RabbitMQ alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from mainstem.broker.heavy_work import HeavyWork
from mainstem.coordination.administration.entries import User
from mainstem.coordination.administration.passwords import SALT_BYTES as HASH_SALT_BYTES
from mainstem.coordination.administration.passwords import SHA256, hash_password, is_password
from mainstem.wire import scram
from mainstem.wire.scram import HASHES, SALT_BYTES, SHA_256, Verifier

PASSWORD_BYTES_MAX = 4_096


class Kept(NamedTuple):
    """What is kept of a password."""

    password_hash: str
    verifiers: Mapping[str, Verifier]

    def put_into(self, user: User) -> User:
        """The user, with this password and no other."""
        return msgspec.structs.replace(
            user, password_hash=self.password_hash, hashing=SHA256, verifiers=dict(self.verifiers)
        )


class Passwords:
    """The thread, and how much work a password is."""

    def __init__(self, random: Callable[[int], bytes] = os.urandom) -> None:
        self.work = HeavyWork()
        self.iterations = scram.ITERATIONS
        self._random = random

    def hash(self, password: str) -> str:
        """As RabbitMQ stores it: at once, because it is hardly any work."""
        return hash_password(password.encode(), self._random(HASH_SALT_BYTES))

    async def keep(self, password: str) -> Kept:
        """What is kept of a new password."""
        return await self.work.run(lambda: self._keep(password.encode()))

    def _keep(self, password: bytes) -> Kept:
        verifiers = {
            mechanism: scram.derive(password, mechanism, self._random(SALT_BYTES), self.iterations)
            for mechanism in HASHES
        }
        return Kept(hash_password(password, self._random(HASH_SALT_BYTES)), verifiers)

    def check(self, user: User | None, password: bytes) -> asyncio.Future[bool]:
        """Whether it is the password of this user; None: of nobody."""
        return self.work.run(lambda: is_right(user, password, self.iterations))

    def check_configured(self, wanted: bytes, password: bytes) -> asyncio.Future[bool]:
        """Whether it is the one that the settings name."""
        known = User("", hash_password(wanted, bytes(HASH_SALT_BYTES)))
        return self.work.run(lambda: is_right(known, password, self.iterations))

    def close(self) -> None:
        """Begin nothing more."""
        self.work.close()


def is_right(user: User | None, password: bytes, iterations: int) -> bool:
    """The hash of RabbitMQ decides where there is one: it is dropped when a verifier is set without it."""
    if len(password) > PASSWORD_BYTES_MAX:
        user, password = None, b""
    done = 0
    found = False
    if user is None or user.password_hash:
        found = user is not None and is_password(password, user.password_hash, user.hashing)
    else:
        for mechanism in HASHES:
            verifier = user.verifiers.get(mechanism)
            if verifier is not None:
                made = scram.derive(password, mechanism, verifier.salt, verifier.iterations)
                found = made.stored_key == verifier.stored_key
                done = verifier.iterations
                break
    if done < iterations:
        hashlib.pbkdf2_hmac(HASHES[SHA_256], password, bytes(SALT_BYTES), iterations - done)
    return found and user is not None and not user.is_disabled
