"""Reading the HTTP API: documents, and lists page by page."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

from mainstem.sdk.errors import BrokerUnreachable, ClientError, ConnectionLost

TIMEOUT_S = 30.0
ANSWER_BYTES_MAX = 256 << 20
NOT_FOUND = 404


class HttpRefused(ClientError):
    """The broker answered with a problem."""

    def __init__(self, path: str, status: int, detail: str) -> None:
        super().__init__(f"The broker refused {path}: {detail.rstrip('.')}.")
        self.status = status


class HttpPages:
    """One connection, kept open; from one thread."""

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S) -> None:
        host, _, port = address.removeprefix("http://").rstrip("/").rpartition(":")
        self._address = address
        self._connection = http.client.HTTPConnection(
            host.removeprefix("[").removesuffix("]"), int(port), timeout=timeout_s
        )

    def __enter__(self) -> HttpPages:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(self, path: str) -> Any:
        """A document. Raises HttpRefused."""
        try:
            self._connection.connect() if self._connection.sock is None else None
        except OSError as error:
            raise BrokerUnreachable(self._address, error.strerror or str(error)) from None
        try:
            self._connection.request("GET", path)
            response = self._connection.getresponse()
            answer = json.loads(response.read(ANSWER_BYTES_MAX))
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._connection.close()
            raise ConnectionLost(self._address, str(error) or type(error).__name__) from None
        if response.status >= http.client.BAD_REQUEST:
            raise HttpRefused(path, response.status, str(answer.get("detail") or answer.get("title")))
        return answer

    def pages(self, path: str) -> Iterator[Any]:
        """A list, page by page: each says where the next one is."""
        following: str | None = path
        while following:
            page = self.get(following)
            yield page
            following = page.get("next")

    def items(self, path: str, name: str) -> Iterator[Any]:
        """What the pages list under this name."""
        for page in self.pages(path):
            yield from page[name]
