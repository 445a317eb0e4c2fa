"""Tokens that others have signed: JWT (RFC 7519), by keys that the issuer publishes.

Which algorithms count is fixed here and by the settings, never by the token; keys are public ones alone. So a token without a
signature, or one that is signed with a public key as if it were a secret, proves nothing.
"""

from __future__ import annotations

import functools
import importlib
import ipaddress
import logging
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from mainstem.broker.clock import Clock
from mainstem.broker.heavy_work import HeavyWork
from mainstem.broker.users.callers import LoginRefused
from mainstem.model.bounds import Positive

log = logging.getLogger(__name__)

ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "Ed25519",
    "EdDSA",
)
"""All of them have a public key."""
LEEWAY_S = 30
"""How much the clocks of the issuer and of the broker may differ."""
TOKEN_BYTES_MAX = 16 << 10
LOOK_AGAIN_S = 10.0
"""A key that is not known makes the broker look for new ones, but not more often than so."""
NAME_BYTES_MAX = 255
ROLES_MAX = 100
REFUSED = "the token is not right"


class UnknownKey(Exception):
    """No key that is known has signed it: there may be new ones."""


class TokenSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whose tokens prove a user. Without keys no token does."""

    keys: str = ""
    """A file, or an https address (http on this machine), with the public keys of the issuer, as a JWK set."""
    issuer: str = ""
    """What `iss` must be."""
    audience: str = ""
    """What must be in `aud`."""
    algorithms: tuple[str, ...] = ("RS256", "PS256", "ES256", "Ed25519", "EdDSA")
    """By which tokens may be signed."""
    user_claim: str = "sub"
    """The claim with the name of the user."""
    roles_claim: str = ""
    """A claim with roles, as a list or with blanks between them; empty: a token brings none."""
    keys_refresh_ms: Positive = 3_600_000
    """How often the keys are looked up again, when tokens come."""

    def __post_init__(self) -> None:
        if not self.keys:
            return
        if not self.issuer or not self.audience:
            raise ValueError("keys needs tokens.issuer and tokens.audience: else tokens for others would be taken")
        unknown = set(self.algorithms) - set(ALGORITHMS)
        if unknown or not self.algorithms:
            raise ValueError(f"algorithms are some of {', '.join(ALGORITHMS)}")
        if "://" in self.keys and not _is_safe(self.keys):
            raise ValueError("keys must come from a file, over https, or over http from this machine")


class Proof(NamedTuple):
    """What a token proves."""

    user: str
    expires_ms: int
    roles: tuple[str, ...]


class Tokens:
    """Checks them."""

    def __init__(self, clock: Clock, work: HeavyWork) -> None:
        self._clock = clock
        self._work = work
        self._settings = TokenSettings()
        self._keys: Any = None
        """A set of keys of joserfc; None: there are none yet."""
        self._looked_at = 0.0

    def govern(self, settings: TokenSettings) -> None:
        """These settings hold. Raises ValueError if the keys are in a file that cannot be used."""
        self._settings = settings
        self._keys = None
        if settings.keys and "://" not in settings.keys:
            self._keys = signed_tokens().read_keys(settings.keys)
            self._looked_at = self._clock.monotonic()

    @property
    def are_taken(self) -> bool:
        """Whether a token can prove anything here."""
        return bool(self._settings.keys)

    async def prove(self, token: str) -> Proof:
        """What a token proves. Raises LoginRefused."""
        if not self.are_taken or len(token) > TOKEN_BYTES_MAX:
            raise LoginRefused(REFUSED)
        age_s = self._clock.monotonic() - self._looked_at
        if self._keys is None or age_s * 1000 >= self._settings.keys_refresh_ms:
            await self._look()
        try:
            return self._check(token)
        except UnknownKey:
            await self._look()
        try:
            return self._check(token)
        except UnknownKey:
            raise LoginRefused(REFUSED) from None

    def _check(self, token: str) -> Proof:
        if self._keys is None:
            raise LoginRefused(REFUSED)
        settings = self._settings
        claims = signed_tokens().claims_of(
            token, self._keys, settings.algorithms, settings.issuer, settings.audience, self._clock.now_ms() // 1000
        )
        user = claims.get(settings.user_claim)
        if not isinstance(user, str) or not 0 < len(user.encode("utf-8", "replace")) <= NAME_BYTES_MAX:
            raise LoginRefused(REFUSED)
        expires_ms = (claims["exp"] + LEEWAY_S) * 1000
        return Proof(user, expires_ms, _roles(claims.get(settings.roles_claim) if settings.roles_claim else None))

    async def _look(self) -> None:
        """Look for keys, if that was not done just now; the last good ones stay until there are others."""
        now = self._clock.monotonic()
        if self._looked_at and now - self._looked_at < LOOK_AGAIN_S:
            return
        self._looked_at = now
        place = self._settings.keys
        try:
            self._keys = await self._work.run(lambda: signed_tokens().read_keys(place))
        except ValueError as error:
            log.warning("the keys for tokens are not had: %s; those from before stay", error)


@functools.cache
def signed_tokens() -> Any:
    """What checks signatures: imported with the first token, because most brokers need it never, and it takes a while."""
    return importlib.import_module("mainstem.broker.users.signed_tokens")


def looks_like_token(text: bytes) -> bool:
    """Whether it may be one, and not a password."""
    return text.startswith(b"ey") and text.count(b".") == 2


def _roles(given: object) -> tuple[str, ...]:
    if isinstance(given, str):
        given = given.split()
    if not isinstance(given, list):
        return ()
    return tuple(role for role in given[:ROLES_MAX] if isinstance(role, str))


def _is_safe(address: str) -> bool:
    parts = urlsplit(address)
    if parts.scheme == "https":
        return bool(parts.hostname)
    if parts.scheme != "http":
        return False
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.hostname == "localhost"
