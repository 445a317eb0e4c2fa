"""HTTP at a broker that does not own its shard: how it is, and where the owner is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from mainstem.model.endpoints import UNKNOWN, Endpoints
from mainstem.protocols.http.codec import Request, Response, encode_error, encode_json
from mainstem.protocols.http.codec.exposition import encode_family
from mainstem.protocols.http.errors import Unavailable
from mainstem.protocols.http.mapping.documents import Health, Readiness
from mainstem.protocols.http.session import HttpSession, HttpSettings
from mainstem.wire.http.dates import HttpDate
from mainstem.wire.http.messages import TEXT
from mainstem.wire.http.session import Respond

if TYPE_CHECKING:
    from prometheus_client.core import Metric

TEMPORARY_REDIRECT = 307
"""The method and the content stay as they are."""
UNAVAILABLE = 503


class Facts(Protocol):
    """What the server tells about itself."""

    def version(self) -> str:
        """Of this program."""

    def condition(self) -> str:
        """In one word."""

    def measure(self) -> Iterable[Metric]:
        """All measurements that the server has of itself."""


class StandbyHttp:
    """Opens a session per connection."""

    def __init__(self, settings: HttpSettings, facts: Facts, owner: Callable[[], str | None]) -> None:
        self._settings = settings
        self._facts = facts
        self._owner = owner
        self._date = HttpDate(time.time)

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> HttpSession:
        """For a new connection."""
        return HttpSession(wake, self._settings, self._handle, self._date)

    def _handle(self, request: Request, respond: Respond) -> None:
        if request.path == "/health":
            respond(encode_json(200, Health("alive", self._facts.version())))
        elif request.path == "/ready":
            respond(encode_json(UNAVAILABLE, Readiness(self._facts.condition())))
        elif request.path == "/metrics":
            lines = (line for family in self._facts.measure() for line in encode_family(family))
            respond(Response(200, "".join(lines).encode(), TEXT))
        elif (owner := self._owner()) is None:
            respond(encode_error(Unavailable("no broker owns the shard at present")))
        else:
            query = f"?{request.query}" if request.query else ""
            location = f"http://{owner}{request.path}{query}"
            respond(Response(TEMPORARY_REDIRECT, headers=(("location", location),)))
