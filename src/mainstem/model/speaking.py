"""Who speaks: the connection whose bytes are being worked on, for those who note who did what.

The transport sets it for each pass of a session; tasks that begin in a pass keep it. Outside of a pass nobody speaks.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from mainstem.model.endpoints import Endpoints
from mainstem.model.peer import Peer


class Speaker(Protocol):
    """A connection that serves a client."""

    @property
    def id(self) -> str:
        """LISTENER-NUMBER."""

    @property
    def protocol(self) -> str:
        """The name of its listener."""

    @property
    def endpoints(self) -> Endpoints:
        """Where its two ends are."""

    @property
    def peer(self) -> Peer | None:
        """Who the client is."""


SPEAKER: ContextVar[Speaker | None] = ContextVar("speaker", default=None)
