"""The table of paths, and from a request to its handler and back."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote

from mainstem.broker import errors as broker_errors
from mainstem.broker.dialect import NotInDialect
from mainstem.model import errors as model_errors
from mainstem.model.endpoints import UNKNOWN as UNKNOWN_ENDS
from mainstem.model.endpoints import Endpoints
from mainstem.protocols.management.codec import decode_body, encode_error, encode_json, encode_refusal
from mainstem.protocols.management.errors import (
    BadRequest,
    ManagementError,
    MethodNotAllowed,
    Missing,
    NotAuthorised,
    NotFound,
    Unavailable,
)
from mainstem.protocols.management.handlers.callers import Caller, Callers, credentials_of
from mainstem.wire.http.errors import HttpError
from mainstem.wire.http.messages import Request, Response
from mainstem.wire.http.origins import check_origin

log = logging.getLogger(__name__)

OK, CREATED, NO_CONTENT = 200, 201, 204
CHANGING = ("PUT", "POST")
PARAMETERS_MAX = 32
PREFIX = "/api"


class Call(NamedTuple):
    """One request, taken apart."""

    caller: Caller
    steps: Sequence[str]
    """What stands in the path where it may change, decoded."""
    query: dict[str, str]
    body: Any

    def fields(self) -> dict[str, Any]:
        """The content as an object. Raises BadRequest."""
        if not isinstance(self.body, dict):
            raise BadRequest("an object is expected")
        return self.body


Handler: TypeAlias = "Callable[[Call], Any | Coroutine[Any, Any, Any]]"
"""Answers a value, a Response, or None for no content; at once or later."""


class Meter(Protocol):
    """Counts requests of one kind."""

    requests: int


class Path(NamedTuple):
    """One method of one path; `{}` stands for a step that may change."""

    method: str
    path: str
    handler: Handler

    def counted(self, meter: Meter) -> Path:
        """The same, whose requests are counted."""
        handler = self.handler

        def count(call: Call) -> Any:
            meter.requests += 1
            return handler(call)

        return self._replace(handler=count)


class _Step:
    def __init__(self) -> None:
        self.named: dict[str, _Step] = {}
        self.any: _Step | None = None
        self.methods: dict[str, Handler] = {}

    def find(self, names: Sequence[str]) -> tuple[dict[str, Handler], list[str]] | None:
        """Methods of a path, and what stands where it may change. A virtual host may have the name of a path: `detailed`."""
        if not names:
            return (self.methods, []) if self.methods else None
        first, *rest = names
        found = self.named[first].find(rest) if first in self.named else None
        if found is None and self.any is not None:
            found = self.any.find(rest)
            if found is not None:
                found[1].insert(0, first)
        return found


UNKNOWN: dict[type[model_errors.MainstemError], str] = {
    broker_errors.UnknownNamespace: "vhost_not_found",
    broker_errors.UnknownUser: "user_not_found",
    broker_errors.UnknownQueue: "queue_not_found",
    broker_errors.UnknownExchange: "exchange_not_found",
    broker_errors.UnknownEntry: "not_found",
}
"""What is not here, and how RabbitMQ says so to who wants to change something."""
REFUSALS: tuple[tuple[type[model_errors.MainstemError], type[ManagementError]], ...] = (
    (NotInDialect, BadRequest),
    (model_errors.PeerError, BadRequest),
    (model_errors.UnavailableError, Unavailable),
)


class Paths:
    """All of them. GET serves HEAD too; the codec leaves the content out."""

    def __init__(
        self,
        paths: Sequence[Path],
        callers: Callers,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        check: Callable[[Request], None],
    ) -> None:
        self._root = _Step()
        self._callers = callers
        self._spawn = spawn
        self._check = check
        for path in paths:
            step = self._root
            for name in _split(path.path):
                if name == "{}":
                    step.any = step.any or _Step()
                    step = step.any
                else:
                    step = step.named.setdefault(name, _Step())
            assert path.method not in step.methods, f"{path.method} {path.path} is answered twice"
            step.methods[path.method] = path.handler

    def handle(
        self, request: Request, respond: Callable[[Response], None], endpoints: Endpoints = UNKNOWN_ENDS
    ) -> None:
        """Answer the request of this peer, in any case."""
        try:
            self._check(request)
            check_origin(request)
            if not request.path.startswith(PREFIX):
                raise NotFound
            name, password = credentials_of(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is answered
            respond(_refuse(request, error))
            return
        self._callers.admit(name, password, endpoints, functools.partial(self._admitted, request, respond))

    def _admitted(self, request: Request, respond: Callable[[Response], None], caller: Caller | NotAuthorised) -> None:
        try:
            if isinstance(caller, NotAuthorised):
                raise caller
            handler, steps = self._find(request)
            answer = handler(Call(caller, steps, _query(request), decode_body(request)))
            if inspect.iscoroutine(answer):
                self._spawn(self._answer_later(request, answer, respond))
                return
            response = _encode(answer)
        except Exception as error:  # noqa: BLE001
            response = _refuse(request, error)
        respond(response)

    async def _answer_later(
        self, request: Request, answer: Coroutine[Any, Any, Any], respond: Callable[[Response], None]
    ) -> None:
        try:
            response = _encode(await answer)
        except Exception as error:  # noqa: BLE001
            response = _refuse(request, error)
        respond(response)

    def _find(self, request: Request) -> tuple[Handler, list[str]]:
        found = self._root.find(_split(request.path.removesuffix("/")))
        if found is None:
            raise NotFound
        methods, steps = found
        handler = methods.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            raise MethodNotAllowed(tuple(sorted({*methods, "HEAD"})))
        return handler, [_unquote(step) for step in steps]


def _split(path: str) -> list[str]:
    return path.removeprefix(PREFIX).removeprefix("/").split("/")


def _unquote(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise BadRequest("the path is not UTF-8") from None


def _query(request: Request) -> dict[str, str]:
    try:
        return dict(parse_qsl(request.query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX))
    except ValueError:
        raise BadRequest("the query cannot be read") from None


def _encode(answer: Any) -> Response:
    if isinstance(answer, Response):
        return answer
    return Response(NO_CONTENT) if answer is None else encode_json(OK, answer)


def _refuse(request: Request, error: Exception) -> Response:
    if isinstance(error, HttpError):
        return encode_refusal(error)
    if isinstance(error, model_errors.MainstemError):
        if type(error) in UNKNOWN:
            return encode_error(Missing(UNKNOWN[type(error)]) if request.method in CHANGING else NotFound())
        for kind, refusal in REFUSALS:
            if isinstance(error, kind):
                error = refusal(str(error))
                break
    if not isinstance(error, ManagementError):
        log.error("handler failed: %s %s", request.method, request.path, exc_info=error)
        error = ManagementError("the request failed; the broker's log has the reason")
    return encode_error(error)


def created(is_new: bool) -> Response:
    """201 for what is new, 204 for what was there."""
    return Response(CREATED if is_new else NO_CONTENT)
