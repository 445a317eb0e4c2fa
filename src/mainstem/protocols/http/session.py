"""The state machine of one HTTP connection is shared; here is how this adapter sets and words it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mainstem.model.bounds import NotNegative, Positive
from mainstem.protocols.http.codec import encode_error
from mainstem.wire.http.session import Handle, HttpConnection, Respond

__all__ = ["Handle", "HttpSession", "HttpSettings", "Respond"]


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one HTTP connection may cost."""

    head_bytes_max: Positive = 16 << 10
    """Request line and headers."""
    body_bytes_max: Positive = 1 << 20
    """Content of one request."""
    request_timeout_ms: Positive = 30_000
    """From the first byte of a request to its last."""
    topic_series_max: NotNegative = 0
    """Topics that /metrics shows one by one, the busiest first; 0: none."""
    alarm_webhook: str = ""
    """An http or https address to which changes of alarms are posted; empty: none."""
    console: bool = True
    """Serve the console at `/` to browsers."""
    anybody_from_anywhere: bool = False
    """Let in who does not log in from beyond this machine, too, with every right."""


class HttpSession(HttpConnection):
    """One connection. `date` gives the text of the Date header, because a session has no clock."""

    def __init__(
        self, wake: Callable[[], None], settings: HttpSettings, handle: Handle, date: Callable[[], str]
    ) -> None:
        super().__init__(wake, settings, handle, date, encode_error)
