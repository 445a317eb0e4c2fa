"""Which handler deals with a request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from mainstem.protocols.http.codec import Request, Response, encode_error
from mainstem.protocols.http.errors import HttpError, InternalError, MethodNotAllowed, UnknownPath

log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Request], Response]


class Routes:
    """Handlers by path and method. GET serves HEAD too; the codec leaves the content out."""

    def __init__(self, handlers: Mapping[str, Mapping[str, Handler]]) -> None:
        self._handlers = handlers

    def handle(self, request: Request, respond: Callable[[Response], None]) -> None:
        """Answer the request, in any case."""
        try:
            response = self._find(request)(request)
        except HttpError as error:
            response = encode_error(error)
        except Exception:
            log.exception("handler failed: %s %s", request.method, request.path)
            response = encode_error(InternalError("the request failed; the broker's log has the reason"))
        respond(response)

    def _find(self, request: Request) -> Handler:
        methods = self._handlers.get(request.path)
        if methods is None:
            raise UnknownPath(f"nothing is at {request.path}")
        handler = methods.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            allowed = sorted({*methods, "HEAD"} if "GET" in methods else methods)
            raise MethodNotAllowed(request.method, allowed)
        return handler
