"""The broker that a command asks, over one HTTP connection."""

from __future__ import annotations

import base64
import http.client
import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import typer

from mainstem.cli.terminal.contexts import Context, choose
from mainstem.cli.terminal.exits import AWAY, WRONG_USE, fail, status_of

PORT_DEFAULT = 8282
TIMEOUT_S = 60.0
PAGE_ITEMS = 1_000
JSON = "application/json"


class Reply(NamedTuple):
    """What was answered."""

    headers: Mapping[str, str]
    body: bytes


class Refused(Exception):
    """The broker refused."""

    def __init__(self, status: int, problem: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.problem = problem


class Broker:
    """Ends the command with a sentence and its status where the broker refuses or is away."""

    def __init__(self, context: Context, *, prints_curl: bool = False, timeout_s: float = TIMEOUT_S) -> None:
        self.context = context
        self._prints_curl = prints_curl
        self._host, self._port = split_address(context.address)
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None
        self._credentials: str | None = None
        if context.user:
            plain = f"{context.user}:{context.password()}".encode()
            self._credentials = "Basic " + base64.b64encode(plain).decode()

    def get(self, path: str, **query: Any) -> Any:
        """Read JSON."""
        return self.ask("GET", with_query(path, query))

    def ask(self, method: str, path: str, content: Any = None) -> Any:
        """Send JSON, read JSON."""
        body = None if content is None else json.dumps(content).encode()
        reply = self.send(method, path, body, {} if body is None else {"content-type": JSON})
        return json.loads(reply.body) if reply.body.strip() else None

    def send(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}) -> Reply:
        """One request; a refusal or a lost connection ends the command."""
        try:
            return self.try_send(method, path, body, headers)
        except Refused as refusal:
            fail([f"{str(refusal).rstrip('.')}."], status_of(refusal.status))

    def try_send(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}) -> Reply:
        """One request. Raises Refused."""
        if self._prints_curl:
            print(self._curl(method, path, body, headers))
            raise typer.Exit(0)
        try:
            return self._send(method, path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            fail([f"the broker at {self.context.address} does not answer: {reason}."], AWAY)

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        given = dict(headers)
        if self._credentials is not None:
            given["authorization"] = self._credentials
        is_fresh = self._connection is None
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        try:
            self._connection.request(method, path, body, given)
            response = self._connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            # An idle connection that the broker closed; what changes something is not sent twice.
            self.close()
            if is_fresh or method != "GET":
                raise
            return self._send(method, path, body, headers)
        answer = response.read()
        if response.status >= 400:
            raise _refusal(response.status, answer)
        return Reply({name.lower(): value for name, value in response.getheaders()}, answer)

    def pages(self, path: str, field: str, limit: int | None = None, **query: Any) -> Iterator[Any]:
        """All items of a list, page by page."""
        following: str | None = with_query(path, {"limit": min(limit or PAGE_ITEMS, PAGE_ITEMS), **query})
        left = limit
        while following:
            page = self.ask("GET", following)
            items = page[field] if left is None else page[field][:left]
            yield from items
            left = None if left is None else left - len(items)
            following = page["next"] if left is None or left > 0 else None

    def close(self) -> None:
        """The connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _curl(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> str:
        words = ["curl", "-sS", "-X", method, f"http://{self._host}:{self._port}{path}"]
        for name, value in headers.items():
            words += ["-H", f"{name}: {value}"]
        if self.context.user:
            words += ["-u", self.context.user]
        if body is not None:
            words += ["-d", body.decode("utf-8", "replace")]
        return shlex.join(words)


def connect(address: str | None, context: str | None, *, curl: bool = False, timeout_s: float = TIMEOUT_S) -> Broker:
    """The broker that is meant."""
    return Broker(choose(address, context), prints_curl=curl, timeout_s=timeout_s)


def _refusal(status: int, answer: bytes) -> Refused:
    try:
        problem = json.loads(answer)
        parts = [str(problem[name]).rstrip(".") for name in ("title", "detail") if problem.get(name)]
        return Refused(status, str(problem.get("type", "")).rpartition(":")[2], ": ".join(parts) or str(status))
    except (ValueError, AttributeError):
        return Refused(status, "", f"the broker answered {status}")


def path_of(*steps: str | int) -> str:
    """A path, its steps percent-encoded."""
    return "".join(f"/{quote(str(step), safe='')}" for step in steps)


def with_query(path: str, query: Mapping[str, Any]) -> str:
    """A path with those parameters that are set."""
    given = {name: value for name, value in query.items() if value not in (None, "", False)}
    given = {name: "true" if value is True else value for name, value in given.items()}
    return f"{path}?{urlencode(given)}" if given else path


def split_address(text: str) -> tuple[str, int]:
    """Host and port; an URL is taken too. Ends the command for what is neither."""
    plain = text.strip().removeprefix("http://").rstrip("/")
    host, separator, port = plain.rpartition(":")
    if not separator or plain.endswith("]"):
        host, port = plain, str(PORT_DEFAULT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
        fail([f"the address {text!r} is not HOST:PORT: give the broker's HTTP listener, as 127.0.0.1:8282"], WRONG_USE)
    return host, int(port)


def note(text: str) -> None:
    """A line about the work, for people: to standard error."""
    print(text, file=sys.stderr)
