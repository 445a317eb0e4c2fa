"""The state machine of one HTTP connection is shared; here is how this adapter sets and words it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mainstem.model.bounds import Positive
from mainstem.protocols.registry.codec import encode_refusal
from mainstem.wire.http.session import Handle, HttpConnection

__all__ = ["Handle", "RegistrySession", "RegistrySettings"]


class RegistrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one connection may cost, and who may come."""

    head_bytes_max: Positive = 16 << 10
    """Request line and headers."""
    body_bytes_max: Positive = 2 << 20
    """Content of one request."""
    request_timeout_ms: Positive = 30_000
    """From the first byte of a request to its last."""
    anybody_from_anywhere: bool = False
    """Listen beyond this machine, although nobody has to say who it is."""


class RegistrySession(HttpConnection):
    """One connection. `date` gives the text of the Date header, because a session has no clock."""

    def __init__(
        self, wake: Callable[[], None], settings: RegistrySettings, handle: Handle, date: Callable[[], str]
    ) -> None:
        super().__init__(wake, settings, handle, date, encode_refusal)
