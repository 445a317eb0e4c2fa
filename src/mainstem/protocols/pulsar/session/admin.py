"""The state machine of one HTTP connection is shared; here is how the administration words what is no request."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mainstem.protocols.pulsar.session.settings import AdminSettings
from mainstem.wire.http.errors import HttpError
from mainstem.wire.http.messages import Response
from mainstem.wire.http.session import Handle, HttpConnection


def encode_refusal(error: HttpError) -> Response:
    """Of bytes that are no request."""
    return Response(error.status, msgspec.json.encode({"reason": str(error)}))


class AdminSession(HttpConnection):
    """One connection."""

    def __init__(
        self, wake: Callable[[], None], settings: AdminSettings, handle: Handle, date: Callable[[], str]
    ) -> None:
        super().__init__(wake, settings, handle, date, encode_refusal)
