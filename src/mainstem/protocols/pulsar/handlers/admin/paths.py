"""The table of paths, and from a request to its handler and back. Errors are `{"reason": ...}`."""

from __future__ import annotations

import base64
import binascii
import inspect
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote

import msgspec

from mainstem.broker import errors as broker_errors
from mainstem.broker.users.callers import Caller, LoginRefused
from mainstem.broker.users.door import Door
from mainstem.model import errors as model_errors
from mainstem.model.endpoints import Endpoints
from mainstem.protocols.pulsar.errors import CommandRefused, ServerError
from mainstem.protocols.pulsar.handlers.calls import Spawn
from mainstem.protocols.pulsar.mapping.names import DOMAINS, TopicName, is_part, local_name
from mainstem.protocols.pulsar.session.admin import encode_refusal
from mainstem.wire.http.errors import HttpError
from mainstem.wire.http.messages import Request, Response
from mainstem.wire.http.origins import check_origin

log = logging.getLogger(__name__)

OK, NO_CONTENT = 200, 204
BAD_REQUEST, NOT_FOUND, NOT_ALLOWED, CONFLICT, PRECONDITION, INTERNAL, NOT_IMPLEMENTED, UNAVAILABLE = (
    400, 404, 405, 409, 412, 500, 501, 503,
)  # fmt: skip
UNAUTHORIZED, FORBIDDEN = 401, 403
LISTENER = "pulsar-admin"
OPEN = frozenset(
    {
        "lookup/v2/topic/{}/{}/{}/{}",
        "lookup/v2/topic/{}/{}/{}/{}/bundle",
        "admin/v2/persistent/{}/{}/{}/partitions",
        "admin/v2/namespaces/{}/{}/topics",
        "admin/v2/schemas/{}/{}/{}/schema",
        "admin/v2/schemas/{}/{}/{}/schema/{}",
        "admin/v2/brokers/health",
    }
)
"""What clients ask that are no administrators."""
PARAMETERS_MAX = 32
PLACE_STEPS = 2


class AdminRefused(Exception):
    """A request is answered by an error."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Call(NamedTuple):
    """One request, taken apart."""

    steps: Sequence[str]
    """What stands in the path where it may change, decoded."""
    query: dict[str, str]
    content: bytes

    def body(self) -> Any:
        """The content, which is JSON; empty: None. Raises AdminRefused."""
        if not self.content.strip():
            return None
        try:
            return msgspec.json.decode(self.content)
        except (ValueError, RecursionError):
            raise AdminRefused(BAD_REQUEST, "the content is no JSON") from None

    def number(self) -> int:
        """The content, a number. Raises AdminRefused."""
        found = self.body()
        if not isinstance(found, int) or isinstance(found, bool):
            raise AdminRefused(BAD_REQUEST, "a number is expected")
        return found

    def object(self) -> dict[str, Any]:
        """The content, an object. Raises AdminRefused."""
        found = self.body()
        if not isinstance(found, dict):
            raise AdminRefused(BAD_REQUEST, "an object is expected")
        return found

    def is_set(self, name: str) -> bool:
        """Whether a parameter says true."""
        return self.query.get(name, "").lower() == "true"

    @property
    def place(self) -> str:
        """Tenant and namespace, where the path begins with them. Raises AdminRefused."""
        tenant, namespace = self.steps[:PLACE_STEPS]
        if not (is_part(tenant) and is_part(namespace)):
            raise AdminRefused(PRECONDITION, f"Namespace name is not valid: {tenant}/{namespace}")
        return f"{tenant}/{namespace}"

    def topic(self, domain: str = DOMAINS[0]) -> TopicName:
        """The topic, where the path names one behind the namespace."""
        return local_name(domain, self.place, self.steps[PLACE_STEPS])


Handler: TypeAlias = "Callable[[Call], Any | Coroutine[Any, Any, Any]]"
"""Answers a value, a Response, or None for no content; at once or later. Raises AdminRefused, CommandRefused, MainstemError."""


class Meter(Protocol):
    """Counts requests of one kind."""

    requests: int


class Path(NamedTuple):
    """One method of one path; `{}` stands for a step that may change."""

    method: str
    path: str
    handler: Handler


class _Step:
    def __init__(self) -> None:
        self.named: dict[str, _Step] = {}
        self.any: _Step | None = None
        self.methods: dict[str, Path] = {}

    def find(self, names: Sequence[str]) -> tuple[dict[str, Path], list[str]] | None:
        """Methods of a path, and what stands where it may change."""
        if not names:
            return (self.methods, []) if self.methods else None
        first, *rest = names
        found = self.named[first].find(rest) if first in self.named else None
        if found is None and self.any is not None:
            found = self.any.find(rest)
            if found is not None:
                found[1].insert(0, first)
        return found


STATUSES: tuple[tuple[type[model_errors.MainstemError], int], ...] = (
    (broker_errors.UnknownTopic, NOT_FOUND),
    (broker_errors.UnknownNamespace, NOT_FOUND),
    (broker_errors.UnknownSubscription, NOT_FOUND),
    (broker_errors.TopicExists, CONFLICT),
    (broker_errors.SubscriptionExists, CONFLICT),
    (broker_errors.SubscriptionBusy, PRECONDITION),
    (broker_errors.QueueBusy, PRECONDITION),
    (broker_errors.InvalidPartitionCount, PRECONDITION),
    (model_errors.PeerError, PRECONDITION),
    (model_errors.UnavailableError, UNAVAILABLE),
)
CODES = {
    ServerError.TOPIC_NOT_FOUND: NOT_FOUND,
    ServerError.SUBSCRIPTION_NOT_FOUND: NOT_FOUND,
    ServerError.NOT_ALLOWED: NOT_ALLOWED,
    ServerError.SERVICE_NOT_READY: UNAVAILABLE,
}


class AdminPaths:
    """All of them. GET serves HEAD too; the codec leaves the content out."""

    def __init__(
        self,
        paths: Sequence[Path],
        door: Door,
        spawn: Spawn,
        check: Callable[[Request], None],
        meter: Callable[[str], Meter],
    ) -> None:
        self._door = door
        self._root = _Step()
        self._spawn = spawn
        self._check = check
        self._meters: dict[Path, Meter] = {}
        for path in paths:
            step = self._root
            for name in _split(path.path):
                if name == "{}":
                    step.any = step.any or _Step()
                    step = step.any
                else:
                    step = step.named.setdefault(name, _Step())
            assert path.method not in step.methods, f"{path.method} {path.path} is answered twice"
            step.methods[path.method] = path
            self._meters[path] = meter(f"{path.method} {path.path}")

    def handle(self, request: Request, respond: Callable[[Response], None], endpoints: Endpoints) -> None:
        """Answer, in any case."""

        def tell(answer: Caller | LoginRefused) -> None:
            self._answer(request, respond, answer)

        try:
            self._check(request)
            check_origin(request)
            self._log_in(request, endpoints, tell)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is answered
            respond(_refuse(request, error))

    def _log_in(self, request: Request, endpoints: Endpoints, tell: Callable[[Caller | LoginRefused], None]) -> None:
        scheme, _, proof = (request.header(b"authorization") or "").partition(" ")
        method = request.header(b"x-pulsar-auth-method-name")
        match scheme.lower():
            case "" if method in (None, "none"):
                try:
                    answer: Caller | LoginRefused = self._door.admit_anonymous(LISTENER, endpoints)
                except LoginRefused as refusal:
                    answer = refusal
                tell(answer)
            case "bearer" if method in (None, "token"):
                self._door.ask_token(LISTENER, proof.strip(), endpoints, tell)
            case "basic" if method in (None, "basic"):
                try:
                    name, _, password = base64.b64decode(proof.strip(), validate=True).partition(b":")
                except binascii.Error:
                    name = password = b""
                self._door.ask_password(LISTENER, name.decode("utf-8", "replace"), password, endpoints, tell)
            case _:
                tell(self._door.refuse(LISTENER, endpoints))

    def _answer(self, request: Request, respond: Callable[[Response], None], caller: Caller | LoginRefused) -> None:
        try:
            if isinstance(caller, LoginRefused):
                raise AdminRefused(UNAUTHORIZED, f"HTTP 401: {caller}")
            path, steps = self._find(request)
            self._meters[path].requests += 1
            if not (caller.is_administrator or (path.method == "GET" and path.path in OPEN)):
                raise AdminRefused(FORBIDDEN, "HTTP 403: only an administrator may do this")
            answer = path.handler(Call(steps, _query(request), request.body))
            if inspect.iscoroutine(answer):
                self._spawn(self._answer_later(request, answer, respond))
                return
            response = _encode(answer)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is answered
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

    def _find(self, request: Request) -> tuple[Path, list[str]]:
        found = self._root.find(_split(request.path.removesuffix("/")))
        if found is None:
            raise AdminRefused(NOT_FOUND, f"HTTP 404: {request.path} is not served")
        methods, steps = found
        path = methods.get("GET" if request.method == "HEAD" else request.method)
        if path is None:
            raise AdminRefused(NOT_ALLOWED, f"HTTP 405: {request.method} is not for {request.path}")
        return path, [_unquote(step) for step in steps]


def _split(path: str) -> list[str]:
    return path.removeprefix("/").split("/")


def _unquote(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise AdminRefused(BAD_REQUEST, "the path is not UTF-8") from None


def _query(request: Request) -> dict[str, str]:
    try:
        return dict(parse_qsl(request.query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX))
    except ValueError:
        raise AdminRefused(BAD_REQUEST, "the query cannot be read") from None


def _encode(answer: Any) -> Response:
    if isinstance(answer, Response):
        return answer
    return Response(NO_CONTENT) if answer is None else Response(OK, msgspec.json.encode(answer))


def _refuse(request: Request, error: Exception) -> Response:
    status, reason = INTERNAL, "the request failed; the broker's log has the reason"
    if isinstance(error, HttpError):
        return encode_refusal(error)
    if isinstance(error, AdminRefused):
        status, reason = error.status, str(error)
    elif isinstance(error, CommandRefused):
        status, reason = CODES.get(error.error, PRECONDITION), str(error)
    elif isinstance(error, model_errors.MainstemError):
        status = next((code for kind, code in STATUSES if isinstance(error, kind)), INTERNAL)
        reason = str(error)
    if status == INTERNAL:
        log.error("handler failed: %s %s", request.method, request.path, exc_info=error)
    return Response(status, msgspec.json.encode({"reason": reason}))


def nothing(_: Call) -> None:
    """Done already."""


def not_here(what: str) -> Handler:
    """Refuse by name what this broker does not have."""

    def refuse(_: Call) -> None:
        raise AdminRefused(NOT_IMPLEMENTED, f"{what} are not supported by this broker")

    return refuse
