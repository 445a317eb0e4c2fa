"""Signatures of tokens, and where the keys for them are from: all that needs joserfc and cryptography."""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from mainstem.broker.users.callers import LoginRefused
from mainstem.broker.users.tokens import LEEWAY_S, REFUSED, UnknownKey

log = logging.getLogger(__name__)

KEYS_BYTES_MAX = 1 << 20
FETCH_TIMEOUT_S = 10.0
LIFETIME_S_MAX = 366 * 86_400
"""A token that claims to hold longer holds as long as this."""


def claims_of(
    token: str, keys: KeySet, algorithms: Collection[str], issuer: str, audience: str, now_s: int
) -> dict[str, Any]:
    """What a token says that is right now. Raises LoginRefused, UnknownKey."""
    registry = jwt.JWTClaimsRegistry(
        now=now_s,
        leeway=LEEWAY_S,
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "value": audience},
        exp={"essential": True},
    )
    try:
        claims: dict[str, Any] = jwt.decode(token, keys, algorithms=algorithms).claims
        registry.validate(claims)
        claims["exp"] = min(int(claims["exp"]), now_s + LIFETIME_S_MAX)
    except (InvalidKeyIdError, BadSignatureError):
        raise UnknownKey from None
    except (JoseError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        log.debug("a token is refused: %s", error)
        raise LoginRefused(REFUSED) from None
    return claims


class _NoDetours(urllib.request.HTTPRedirectHandler):
    """A redirect could lead away from https, or from this machine."""

    def redirect_request(self, *arguments: Any, **options: Any) -> None:
        return None


_open: Callable[..., Any] = urllib.request.build_opener(_NoDetours).open


def read_keys(place: str) -> KeySet:
    """Keys from a file or an address. Raises ValueError."""
    try:
        if "://" in place:
            with _open(place, timeout=FETCH_TIMEOUT_S) as answer:
                text = answer.read(KEYS_BYTES_MAX + 1)
        else:
            with Path(place).open("rb") as file:
                text = file.read(KEYS_BYTES_MAX + 1)
    except (OSError, urllib.error.URLError) as error:
        raise ValueError(f"tokens.keys cannot be read: {error}") from None
    if len(text) > KEYS_BYTES_MAX:
        raise ValueError(f"tokens.keys has more than {KEYS_BYTES_MAX} bytes")
    try:
        found = json.loads(text)
        # A secret that is shared has no business here: only who signs may have it.
        public = [key for key in found["keys"] if isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP")]
        keys = KeySet.import_key_set({"keys": public})
    except (ValueError, TypeError, KeyError, JoseError, RecursionError) as error:
        raise ValueError(f"tokens.keys is not a JWK set: {error}") from None
    if not keys.keys:
        raise ValueError("tokens.keys has no public key")
    return keys
