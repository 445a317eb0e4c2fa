"""Asking the broker's HTTP listener: JSON in, JSON out."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from mainstem.sdk.client import RETRY_PAUSE_S
from mainstem.sdk.errors import BrokerUnreachable, ClientError, ConnectionLost

PORT_DEFAULT = 8282
ADDRESS_DEFAULT = f"127.0.0.1:{PORT_DEFAULT}"
TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 1_000.0
"""Of what may take long: somewhat longer than the broker allows a publication."""


class ApiRefused(ClientError):
    """The broker refuses: `problem` is its stable name."""

    def __init__(self, status: int, problem: str, detail: str) -> None:
        super().__init__(f"The broker refuses: {detail}.")
        self.status = status
        self.problem = problem
        self.detail = detail
        self.is_retriable = status == 503


def split_address(text: str) -> tuple[str, int]:
    """Host and port; an URL is taken too. Raises ClientError."""
    plain = text.strip().removeprefix("http://").rstrip("/")
    host, separator, port = plain.rpartition(":")
    if not separator or plain.endswith("]"):
        host, port = plain, str(PORT_DEFAULT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
        raise ClientError(f"The address {text!r} is not HOST:PORT: give the broker's HTTP listener, as 127.0.0.1:8282.")
    return host, int(port)


def path_of(*steps: str) -> str:
    """A path, its steps percent-encoded."""
    return "".join(f"/{quote(step, safe='')}" for step in steps)


def ask(
    address: str, method: str, path: str, content: Mapping[str, Any] | None = None, *, timeout_s: float = TIMEOUT_S
) -> Any:
    """One request, once. Raises BrokerUnreachable, ConnectionLost, ApiRefused."""
    text = ask_bytes(address, method, path, content, timeout_s=timeout_s)
    return json.loads(text) if text.strip() else None


def insist(address: str, path: str, content: Mapping[str, Any] | None, *, timeout_s: float) -> Any:
    """Posts what may be posted twice, until it is answered, refused for good, or the time is over. Raises as `ask`."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return ask(address, "POST", path, content, timeout_s=ANSWER_TIMEOUT_S)
        except ClientError as error:
            if not error.is_retriable or time.monotonic() >= deadline:
                raise
            time.sleep(RETRY_PAUSE_S)


def ask_bytes(
    address: str, method: str, path: str, content: Mapping[str, Any] | None = None, *, timeout_s: float = TIMEOUT_S
) -> bytes:
    """The same as `ask`, whatever is answered."""
    host, port = split_address(address)
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.connect()
    except OSError as error:
        raise BrokerUnreachable(address, error.strerror or str(error)) from None
    try:
        body = None if content is None else json.dumps(content)
        connection.request(method, path, body, {} if body is None else {"content-type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        problem = json.loads(answer) if response.status >= 400 and answer.strip() else None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ConnectionLost(address, str(error) or type(error).__name__) from None
    finally:
        connection.close()
    if response.status >= 400:
        problem = problem if isinstance(problem, dict) else {}
        detail = str(problem.get("detail") or problem.get("title") or response.status).rstrip(".")
        raise ApiRefused(response.status, str(problem.get("type", "")).rpartition(":")[2], detail)
    return answer
