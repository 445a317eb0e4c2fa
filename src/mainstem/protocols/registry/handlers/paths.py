"""The table of paths, and from a request to its handler and back.

A path may begin with `/contexts/NAME`: subjects without a context are then of that one.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, unquote

from mainstem.broker.schemas.schemas import DEFAULT_CONTEXT, Schemas, Subject, parse_subject
from mainstem.broker.users.callers import Caller
from mainstem.model import errors as model_errors
from mainstem.model.endpoints import UNKNOWN, Endpoints
from mainstem.protocols.registry.codec import decode_object, encode_error, encode_json, encode_refusal
from mainstem.protocols.registry.errors import (
    CODES,
    BadRequest,
    MethodNotAllowed,
    NotFound,
    Refusal,
    RegistryError,
    StoreFailed,
    Unprocessable,
)
from mainstem.protocols.registry.handlers.logins import Logins, check_rights
from mainstem.wire.http.errors import HttpError
from mainstem.wire.http.messages import AnyResponse, Request, Response
from mainstem.wire.http.origins import check_origin

log = logging.getLogger(__name__)

PARAMETERS_MAX = 32
CONTEXTS = "contexts"


class Call(NamedTuple):
    """One request, taken apart."""

    steps: Sequence[str]
    """What stands in the path where it may change, decoded."""
    query: dict[str, str]
    context: str
    request: Request

    def content(self) -> dict[str, Any]:
        """As an object. Raises BadRequest, Unprocessable."""
        return decode_object(self.request)

    def is_set(self, name: str) -> bool:
        """A parameter that is true or false. Raises Unprocessable."""
        value = self.query.get(name, "false").lower()
        if value not in ("true", "false"):
            raise Unprocessable(f"the parameter {name!r} is true or false")
        return value == "true"

    def page(self, found: Sequence[Any], most: int) -> list[Any]:
        """The part that `offset` and `limit` ask for."""
        offset, limit = self._number("offset", 0), self._number("limit", -1)
        end = offset + (most if limit <= 0 else min(limit, most))
        return list(found[offset:end])

    def subject(self, schemas: Schemas, text: str | None = None) -> Subject:
        """The first step as a subject, or the one that it is an alias of."""
        subject = self.own_subject(text)
        alias = schemas.table.own_settings(subject).alias
        return subject if alias is None else parse_subject(alias, subject.context)

    def own_subject(self, text: str | None = None) -> Subject:
        """The first step as a subject."""
        return parse_subject(self.steps[0] if text is None else text, self.context)

    def _number(self, name: str, usual: int) -> int:
        try:
            return max(-1, int(self.query[name][:10])) if name in self.query else usual
        except ValueError:
            raise Unprocessable(f"the parameter {name!r} is a number") from None


Handler: TypeAlias = "Callable[[Call], Any | Coroutine[Any, Any, Any]]"
"""Answers a value or a Response; at once or later."""


class Path(NamedTuple):
    """One method of one path; `{}` stands for a step that may change."""

    method: str
    path: str
    handler: Handler


class _Step:
    def __init__(self) -> None:
        self.named: dict[str, _Step] = {}
        self.any: _Step | None = None
        self.methods: dict[str, Handler] = {}


class Paths:
    """All of them. GET serves HEAD too; the codec leaves the content out."""

    def __init__(
        self,
        paths: Sequence[Path],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        check: Callable[[Request], None],
        logins: Logins,
    ) -> None:
        self._root = _Step()
        self._logins = logins
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

    def handle(self, request: Request, respond: Callable[[AnyResponse], None], endpoints: Endpoints = UNKNOWN) -> None:
        """Answer a request to a listener of the registry's own, in any case."""
        try:
            self._check(request)
            check_origin(request)
        except HttpError as error:
            respond(encode_refusal(error))
            return

        def told(caller: Caller | RegistryError) -> None:
            try:
                if isinstance(caller, RegistryError):
                    raise caller
                check_rights(caller, request)
            except RegistryError as refusal:
                respond(encode_error(refusal))
                return
            self.answer(request, respond)

        self._logins.identify(request, endpoints, told)

    def answer(self, request: Request, respond: Callable[[AnyResponse], None]) -> None:
        """Answer a request that may be for us, in any case."""
        try:
            handler, call = self._find(request)
            answer = handler(call)
            if inspect.iscoroutine(answer):
                self._spawn(self._answer_later(request, answer, respond))
                return
            response = _encode(answer)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is answered
            response = _refuse(request, error)
        respond(response)

    async def _answer_later(
        self, request: Request, answer: Coroutine[Any, Any, Any], respond: Callable[[AnyResponse], None]
    ) -> None:
        try:
            response = _encode(await answer)
        except Exception as error:  # noqa: BLE001
            response = _refuse(request, error)
        respond(response)

    def _find(self, request: Request) -> tuple[Handler, Call]:
        names = _split(request.path)
        context = DEFAULT_CONTEXT
        if names[0] == CONTEXTS and len(names) > 2:
            name = _unquote(names[1])
            name = name[1:-1] if name.startswith(":") and name.endswith(":") else name
            context = parse_subject(f":{name if name.startswith('.') else '.' + name}:").context
            names = names[2:]
        step, steps = self._root, []
        for name in names:
            if name in step.named:
                step = step.named[name]
            elif step.any is not None and name:
                step = step.any
                steps.append(_unquote(name))
            else:
                raise NotFound("HTTP 404 Not Found")
        handler = step.methods.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            if not step.methods:
                raise NotFound("HTTP 404 Not Found")
            raise MethodNotAllowed(tuple(sorted({*step.methods, "HEAD"})))
        return handler, Call(steps, _query(request), context, request)


def _split(path: str) -> list[str]:
    return path.removeprefix("/").removesuffix("/").split("/")


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
    return answer if isinstance(answer, Response) else encode_json(answer)


def _refuse(request: Request, error: Exception) -> Response:
    if isinstance(error, HttpError):
        return encode_refusal(error)
    if type(error) in CODES:
        error = Refusal(*CODES[type(error)], str(error))  # type: ignore[index]
    elif isinstance(error, model_errors.PeerError):
        error = Unprocessable(str(error))
    elif isinstance(error, model_errors.MainstemError):
        error = StoreFailed(f"the store failed: {error}")
    if not isinstance(error, RegistryError):
        log.error("handler failed: %s %s", request.method, request.path, exc_info=error)
        error = StoreFailed("the request failed; the broker's log has the reason")
    return encode_error(error)
