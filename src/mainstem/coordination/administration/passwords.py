"""Passwords as RabbitMQ stores them: base64 of four bytes of salt and the digest of salt and password."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable

SALT_BYTES = 4
SHA256 = "rabbit_password_hashing_sha256"
_DIGESTS: dict[str, Callable[[bytes], bytes]] = {
    SHA256: lambda data: hashlib.sha256(data).digest(),
    "rabbit_password_hashing_sha512": lambda data: hashlib.sha512(data).digest(),
    "rabbit_password_hashing_md5": lambda data: hashlib.md5(data, usedforsecurity=False).digest(),
}
HASHINGS = frozenset(_DIGESTS)


def hash_password(password: bytes, salt: bytes, hashing: str = SHA256) -> str:
    """To be stored."""
    assert len(salt) == SALT_BYTES, "four bytes"
    return base64.b64encode(salt + _DIGESTS[hashing](salt + password)).decode()


def is_password(password: bytes, stored: str, hashing: str) -> bool:
    """Whether it is the one that was stored."""
    digest = _DIGESTS.get(hashing)
    if digest is None or not stored:
        return False
    try:
        raw = base64.b64decode(stored, validate=True)
    except binascii.Error:
        return False
    salt, wanted = raw[:SALT_BYTES], raw[SALT_BYTES:]
    return bool(wanted) and hmac.compare_digest(digest(salt + password), wanted)


def hashing_of(stored: str) -> str:
    """Which algorithm made a hash, by its length; the usual one, if none can have."""
    return next((hashing for hashing in _DIGESTS if is_password_hash(stored, hashing)), SHA256)


def is_password_hash(stored: str, hashing: str) -> bool:
    """Whether it can be one."""
    digest = _DIGESTS.get(hashing)
    if digest is None:
        return False
    try:
        raw = base64.b64decode(stored, validate=True)
    except binascii.Error:
        return False
    return not stored or len(raw) == SALT_BYTES + len(digest(b""))
