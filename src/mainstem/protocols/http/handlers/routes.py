"""The table of routes, and from a request to its handler and back.

A route says all there is to say about itself: what it takes, what it answers, how it refuses. Requests are dispatched,
taken apart and answered by this table, and the OpenAPI document is made from it: they cannot disagree.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote

import msgspec

from mainstem.broker.users.callers import Caller
from mainstem.model.endpoints import UNKNOWN, Endpoints
from mainstem.model.errors import MainstemError
from mainstem.protocols.http.codec import Request, Response, decode_content, encode_error, encode_json
from mainstem.protocols.http.codec.json_content import convert_parameters, media_type_of
from mainstem.protocols.http.errors import (
    HttpError,
    InternalError,
    InvalidParameter,
    InvalidRequest,
    MethodNotAllowed,
    UnknownPath,
)
from mainstem.protocols.http.mapping.refusals import refusal_of
from mainstem.wire.http.messages import AnyResponse, StreamedResponse
from mainstem.wire.http.origins import check_origin

log = logging.getLogger(__name__)

PARAMETERS_MAX = 16
NO_CONTENT = 204


NO_REQUEST = Request("GET", "/")


class Call(NamedTuple):
    """One request, taken apart as its route says."""

    path: Any = None
    query: Any = None
    content: Any = None
    request: Request = NO_REQUEST
    """As it came: for content of other types than JSON, and for headers."""
    endpoints: Endpoints = UNKNOWN
    """Where the client is."""


Handler: TypeAlias = "Callable[[Call], Any | Coroutine[Any, Any, Any]]"
"""Answers a value of the type that its route names, or a Response, or None for no content; at once or later."""

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
"""Runs a coroutine to its end, on the broker's thread."""


Mounted: TypeAlias = Callable[[Request, Callable[[AnyResponse], None]], None]
"""Answers requests below a step of the path that is not ours, in any case."""


class Meter(Protocol):
    """Counts requests of one kind."""

    requests: int

    @property
    def clock(self) -> Callable[[], float]:
        """What `begun` is read from."""

    def answered(self, begun: float, throttle_ms: int) -> None:
        """A request that began then is answered now."""


class Guard(Protocol):
    """Knows who asks, and what they may do."""

    def needs_login(self, path: str) -> bool:
        """Whether who asks for this path matters."""

    def identify(self, request: Request, endpoints: Endpoints, tell: Callable[[Caller | HttpError], None]) -> None:
        """Who it is, at once or later."""

    def check_rights(self, caller: Caller, method: str, path: str) -> None:
        """Whether they may. Raises HttpError."""


class Text:
    """In place of a type: the answer is text, for Prometheus."""


class Octets:
    """In place of a type: the answer is bytes."""


class Events:
    """In place of a type: the answer is a stream of events that goes on."""


class Route(NamedTuple):
    """One method of one path. The handler's name and text are those of the operation."""

    method: str
    path: str
    """With the names of changing steps in braces: the fields of `steps`."""
    handler: Handler
    answers: Mapping[int, Any]
    """What it answers by status, the usual one first; None: no content."""
    steps: type[msgspec.Struct] | None = None
    query: type[msgspec.Struct] | None = None
    """None: whatever it is, it is ignored."""
    content: type[msgspec.Struct] | None = None
    refusals: Sequence[type[HttpError]] = ()
    media_types: Sequence[str] = ()
    """Further types of content, which the handler itself decodes: `call.content` is None then."""
    header_names: Sequence[str] = ()
    """Headers that the handler looks at."""

    @property
    def status(self) -> int:
        """Of a request that succeeds."""
        usual: int = next(iter(self.answers))
        return usual


class _Step:
    """A place in the tree of paths."""

    def __init__(self) -> None:
        self.named: dict[str, _Step] = {}
        self.any: tuple[str, _Step] | None = None
        self.methods: dict[str, Route] = {}


class Routes:
    """All routes. GET serves HEAD too; the codec leaves the content out."""

    def __init__(
        self,
        routes: Sequence[Route],
        spawn: Spawn,
        check: Callable[[Request], None] = lambda request: None,
        meter: Callable[[str], Meter] | None = None,
        guard: Guard | None = None,
        mounts: Mapping[str, Mounted] | None = None,
    ) -> None:
        """`mounts`: what answers below a first step of the path that is not ours."""
        self._mounts = mounts or {}
        self._root = _Step()
        self._guard = guard
        self._spawn = spawn
        self._check = check
        self._meters = {} if meter is None else {id(route): meter(route.handler.__name__) for route in routes}
        for route in routes:
            self._add(route)

    def handle(self, request: Request, respond: Callable[[AnyResponse], None], endpoints: Endpoints = UNKNOWN) -> None:
        """Answer the request, in any case; `check` raises for one that is not for us."""
        try:
            self._check(request)
            check_origin(request)
            mounted = self._mounted(request)
            if mounted is not None:
                answer = functools.partial(mounted, respond)
                self._let_in(request, request.method, request.path, endpoints, answer, respond)
                return
            route, given = self._find(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is answered
            respond(_refuse(request, error))
            return
        if self._meters:
            respond = self._metered(route, respond)
        answer = functools.partial(self._answer, request, route, given, endpoints, respond)
        self._let_in(request, route.method, route.path, endpoints, answer, respond)

    def _let_in(
        self,
        request: Request,
        method: str,
        path: str,
        endpoints: Endpoints,
        answer: Callable[[], None],
        respond: Callable[[AnyResponse], None],
    ) -> None:
        """Answer for who may ask this, now or later."""
        if self._guard is None or not self._guard.needs_login(path):
            answer()
            return
        guard = self._guard

        def told(caller: Caller | HttpError) -> None:
            try:
                if isinstance(caller, HttpError):
                    raise caller
                guard.check_rights(caller, method, path)
            except HttpError as refusal:
                respond(_refuse(request, refusal))
                return
            answer()

        guard.identify(request, endpoints, told)

    def _answer(
        self,
        request: Request,
        route: Route,
        given: dict[str, str],
        endpoints: Endpoints,
        respond: Callable[[AnyResponse], None],
    ) -> None:
        try:
            answer = route.handler(_take_apart(request, route, given, endpoints))
            if inspect.iscoroutine(answer):
                self._spawn(self._answer_later(request, route, answer, respond))
                return
            response: AnyResponse = _encode(route, answer)
        except Exception as error:  # noqa: BLE001
            response = _refuse(request, error)
        respond(response)

    def _mounted(self, request: Request) -> Callable[[Callable[[AnyResponse], None]], None] | None:
        """What another API answers with the rest of the path, if the path is below one."""
        first, _, rest = request.path.removeprefix("/").partition("/")
        mounted = self._mounts.get(first)
        if mounted is None:
            return None
        return functools.partial(mounted, msgspec.structs.replace(request, path=f"/{rest}"))

    def _metered(self, route: Route, respond: Callable[[AnyResponse], None]) -> Callable[[AnyResponse], None]:
        """Count the request, and time it to its answer."""
        meter = self._meters[id(route)]
        meter.requests += 1
        begun = meter.clock()

        def answered(response: AnyResponse) -> None:
            meter.answered(begun, 0)
            respond(response)

        return answered

    async def _answer_later(
        self, request: Request, route: Route, answer: Coroutine[Any, Any, Any], respond: Callable[[AnyResponse], None]
    ) -> None:
        try:
            response = _encode(route, await answer)
        except Exception as error:  # noqa: BLE001
            response = _refuse(request, error)
        respond(response)

    # The tree

    def _add(self, route: Route) -> None:
        step = self._root
        for name in _split(route.path):
            if name.startswith("{"):
                step.any = step.any or (name.strip("{}"), _Step())
                assert step.any[0] == name.strip("{}"), "one place, two names"
                step = step.any[1]
            else:
                step = step.named.setdefault(name, _Step())
        assert route.method not in step.methods, "answered twice"
        step.methods[route.method] = route

    def _find(self, request: Request) -> tuple[Route, dict[str, str]]:
        given: dict[str, str] = {}
        step = self._root
        for name in _split(request.path):
            if name in step.named:
                step = step.named[name]
            elif name and step.any is not None:
                field, step = step.any
                given[field] = _decode_step(name)
            else:
                raise UnknownPath(f"nothing is at {request.path}")
        return self._method_of(step, request), given

    def _method_of(self, step: _Step, request: Request) -> Route:
        if not step.methods:
            raise UnknownPath(f"nothing is at {request.path}")
        route = step.methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = sorted({*step.methods, "HEAD"} if "GET" in step.methods else step.methods)
            raise MethodNotAllowed(request.method, allowed)
        return route


def _take_apart(request: Request, route: Route, given: dict[str, str], endpoints: Endpoints) -> Call:
    path = None if route.steps is None else convert_parameters(given, route.steps)
    query = None if route.query is None else convert_parameters(_decode_query(request), route.query)
    content = None
    if route.content is not None and media_type_of(request) not in route.media_types:
        content = decode_content(request, route.content)
    return Call(path, query, content, request, endpoints)


def _split(path: str) -> list[str]:
    return path.removeprefix("/").split("/")


def _decode_step(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidRequest("the path is not UTF-8") from None


def _decode_query(request: Request) -> dict[str, str]:
    try:
        pairs = parse_qsl(request.query, keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX)
    except ValueError as error:
        raise InvalidRequest(f"the query cannot be read: {error}") from None
    given = dict(pairs)
    if len(given) < len(pairs):
        twice = next(name for name, _ in pairs if [other for other, _ in pairs].count(name) > 1)
        raise InvalidParameter(f"{twice} is given twice", twice)
    return given


def _encode(route: Route, answer: Any) -> AnyResponse:
    if isinstance(answer, Response | StreamedResponse):
        return answer
    if answer is None:
        return Response(NO_CONTENT)
    return encode_json(route.status, answer)


def _refuse(request: Request, error: Exception) -> Response:
    refusal = error if isinstance(error, HttpError) else None
    if isinstance(error, MainstemError):
        refusal = refusal_of(error)
    if refusal is None:
        log.error("handler failed: %s %s", request.method, request.path, exc_info=error)
        refusal = InternalError("the request failed; the broker's log has the reason")
    return encode_error(refusal)
