"""Bytes <-> requests and responses. HTTP/1.1 itself is h11's; here are our limits."""

from __future__ import annotations

from http import HTTPStatus
from typing import Literal
from urllib.parse import urlsplit

import h11

from mainstem.wire.http.errors import BodyTooLarge, HeadTooLarge, InvalidRequest, UnsupportedVersion
from mainstem.wire.http.messages import Request, Response, StreamedResponse

HEAD_TOO_LARGE = 431
NO_CONTENT = 204


class HttpCodec:
    """One connection's requests, one after the other: the next is decoded when the last has been answered."""

    def __init__(self, head_bytes_max: int, body_bytes_max: int) -> None:
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=head_bytes_max)
        self._body_bytes_max = body_bytes_max
        self._head: h11.Request | None = None
        self._body: list[bytes] = []
        self._body_bytes = 0

    def feed(self, data: memoryview) -> None:
        """Take bytes in; copied."""
        self._connection.receive_data(bytes(data))

    def feed_end(self) -> None:
        """The peer sends nothing more."""
        self._connection.receive_data(b"")

    @property
    def has_begun(self) -> bool:
        """Whether a request has come in part."""
        return self._head is not None or bool(self._connection.trailing_data[0])

    def decode_request(self) -> Request | Literal["incomplete", "ended"]:
        """The next request once it is complete. Raises HttpError, after which only a response can follow."""
        try:
            while True:
                event = self._connection.next_event()
                if event is h11.NEED_DATA:
                    return "incomplete"
                if isinstance(event, h11.Request):
                    self._begin(event)
                elif isinstance(event, h11.Data):
                    self._add(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    return self._complete()
                else:
                    return "ended"  # ConnectionClosed, or PAUSED behind a request to switch protocols
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == HEAD_TOO_LARGE:
                raise HeadTooLarge("request line and headers are too long") from None
            raise InvalidRequest(str(error)) from None

    def _begin(self, head: h11.Request) -> None:
        if not head.http_version.startswith(b"1."):
            raise UnsupportedVersion("only HTTP/1.1 and HTTP/1.0 are spoken here")
        self._head = head
        for name, value in head.headers:
            # Refused by its announcement, before any of it is kept.
            if name == b"content-length" and int(value) > self._body_bytes_max:
                raise BodyTooLarge(f"more than {self._body_bytes_max} bytes")

    def _add(self, data: bytes) -> None:
        self._body_bytes += len(data)
        if self._body_bytes > self._body_bytes_max:
            raise BodyTooLarge(f"more than {self._body_bytes_max} bytes")
        self._body.append(bytes(data))

    def _complete(self) -> Request:
        head = self._head
        assert head is not None
        body = b"".join(self._body)
        self._body, self._body_bytes = [], 0
        try:
            target = urlsplit(head.target.decode("ascii"))
        except ValueError:
            raise InvalidRequest("the request target is not a URL") from None
        return Request(head.method.decode("ascii"), target.path, target.query, tuple(head.headers), body)

    def encode_continue(self) -> bytes:
        """What a client that asked first waits for before it sends its content (RFC 9110, 10.1.1); mostly nothing."""
        if self._head is None or not self._connection.they_are_waiting_for_100_continue:
            return b""
        return self._send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))

    def encode_response(self, response: Response, date: str, close: bool) -> list[bytes]:
        """The response to the request decoded last, or to what could not be."""
        headers = [("date", date), *response.headers]
        if response.status != NO_CONTENT:  # RFC 9110, 8.6: such a response has no length, not even 0.
            headers += [("content-type", response.content_type), ("content-length", str(len(response.body)))]
        if close:
            headers.append(("connection", "close"))
        reason = HTTPStatus(response.status).phrase.encode()
        parts = [self._send(h11.Response(status_code=response.status, headers=headers, reason=reason))]
        if response.body and (self._head is None or self._head.method != b"HEAD"):
            parts.append(self._send(h11.Data(data=response.body)))
        parts.append(self._send(h11.EndOfMessage()))
        return [part for part in parts if part]

    def encode_head(self, response: StreamedResponse, date: str, close: bool) -> tuple[bytes, bool]:
        """The head of a response whose content follows in parts; and whether any may follow."""
        headers = [("date", date), *response.headers, ("content-type", response.content_type)]
        if close:
            headers.append(("connection", "close"))
        reason = HTTPStatus(response.status).phrase.encode()
        head = self._send(h11.Response(status_code=response.status, headers=headers, reason=reason))
        return head, self._head is None or self._head.method != b"HEAD"

    def encode_part(self, data: bytes) -> bytes:
        """Some of the content."""
        return self._send(h11.Data(data=data))

    def encode_end(self) -> bytes:
        """The content is complete."""
        return self._send(h11.EndOfMessage())

    def begin_next(self) -> bool:
        """Whether another request may follow on this connection."""
        self._head = None
        if self._connection.our_state is not h11.DONE or self._connection.their_state is not h11.DONE:
            return False
        self._connection.start_next_cycle()
        return True

    def _send(self, event: h11.Event) -> bytes:
        data = self._connection.send(event)
        assert data is not None
        return data
