"""What the server registers for HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import formatdate

from mainstem.protocols.http.handlers.operations import Operations, OperationsHandlers
from mainstem.protocols.http.handlers.routes import Routes
from mainstem.protocols.http.session import HttpSession, HttpSettings

NAME = "http"
DEFAULT_PORT = 8282


class HttpAdapter:
    """Opens a session per connection."""

    def __init__(self, settings: HttpSettings, operations: Operations) -> None:
        handlers = OperationsHandlers(operations)
        self._settings = settings
        self._routes = Routes(
            {
                "/health": {"GET": handlers.health},
                "/ready": {"GET": handlers.ready},
                "/metrics": {"GET": handlers.metrics},
            }
        )
        self._date = HttpDate()

    def open_session(self, wake: Callable[[], None]) -> HttpSession:
        """For a new connection."""
        return HttpSession(wake, self._settings, self._routes.handle, self._date)


class HttpDate:
    """The Date header (RFC 9110, 6.6.1), made anew once a second."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def __call__(self) -> str:
        """Now, as HTTP writes it."""
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._text = formatdate(second, usegmt=True)
        return self._text
