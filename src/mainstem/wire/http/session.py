"""The state machine of one HTTP connection: requests in, responses out, in order, one at a time.

    state      what it means                             goes on to
    IDLE       between requests                          RECEIVING, ANSWERING, ENDED
    RECEIVING  part of a request has come                IDLE, ANSWERING, ENDED
    ANSWERING  a request waits for its response          IDLE, STREAMING, ENDED
    STREAMING  the content of a response is written      IDLE, ENDED
    ENDED      nothing follows

A client may send further requests before it has the first response; they wait in the codec, bounded by one read, because
in ANSWERING no more input is wanted. Nor is the next request looked at while much output waits to be sent.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol, TypeAlias

from mainstem.model.peer import Peer
from mainstem.wire.http.codec import HttpCodec
from mainstem.wire.http.errors import HttpError, RequestTimeout
from mainstem.wire.http.messages import AnyResponse, Request, Response, Source, StreamedResponse

OUTPUT_BYTES_STEP = 64 << 10
"""With so much waiting to be sent, pipelined requests are left for later."""

Respond: TypeAlias = Callable[[AnyResponse], None]
Handle: TypeAlias = Callable[[Request, Respond], None]
"""Deals with a request; calls back with the response, at once or later, exactly once."""


EncodeError: TypeAlias = Callable[[HttpError], Response]
"""How this server words what it cannot serve."""


class HttpLimits(Protocol):
    """What one connection may cost."""

    @property
    def head_bytes_max(self) -> int:
        """Request line and headers."""

    @property
    def body_bytes_max(self) -> int:
        """Content of one request."""

    @property
    def request_timeout_ms(self) -> int:
        """From the first byte of a request to its last."""


class HttpState(enum.Enum):
    """See the module's table."""

    IDLE = "idle"
    RECEIVING = "receiving"
    ANSWERING = "answering"
    STREAMING = "streaming"
    ENDED = "ended"


TRANSITIONS: dict[HttpState, frozenset[HttpState]] = {
    HttpState.IDLE: frozenset({HttpState.RECEIVING, HttpState.ANSWERING, HttpState.ENDED}),
    HttpState.RECEIVING: frozenset({HttpState.IDLE, HttpState.ANSWERING, HttpState.ENDED}),
    HttpState.ANSWERING: frozenset({HttpState.IDLE, HttpState.STREAMING, HttpState.ENDED}),
    HttpState.STREAMING: frozenset({HttpState.IDLE, HttpState.ENDED}),
    HttpState.ENDED: frozenset(),
}


class HttpConnection:
    """One connection. `date` gives the text of the Date header, because a session has no clock."""

    def __init__(
        self,
        wake: Callable[[], None],
        settings: HttpLimits,
        handle: Handle,
        date: Callable[[], str],
        encode_error: EncodeError,
    ) -> None:
        self.input_wanted: int | None = 1
        self.peer = Peer()
        self._wake = wake
        self._settings = settings
        self._handle = handle
        self._date = date
        self._encode_error = encode_error
        self._codec = HttpCodec(settings.head_bytes_max, settings.body_bytes_max)
        self._state = HttpState.IDLE
        self._output: list[bytes] = []
        self._output_bytes = 0
        self._advancing = False
        self._draining = False
        self._source: Source | None = None
        """Who writes the content of the response under way."""
        self._is_paused = False
        self._deadline: float | None = None

    @property
    def finished(self) -> bool:
        """All was said."""
        return self._state is HttpState.ENDED

    @property
    def busy(self) -> bool:
        """A response is owed, or goes on."""
        return self._state in (HttpState.ANSWERING, HttpState.STREAMING)

    def data_received(self, data: memoryview) -> int:
        """Take all in, and answer what is complete."""
        if data:
            self._codec.feed(data)
        if self._state is HttpState.STREAMING:
            self.input_wanted = None  # The next request: one read of it is enough to wait with.
        else:
            self._advance()
        return len(data)

    def take_output(self) -> list[bytes]:
        """Responses, in order."""
        was_clear = self.is_clear
        output, self._output, self._output_bytes = self._output, [], 0
        if self._source is not None and not was_clear and self.is_clear:
            self._source.cleared()
        return output

    def input_ended(self) -> None:
        """No more requests; one that waits is still answered."""
        self._draining = True
        if self._state is HttpState.STREAMING:
            self.end()  # A client that has gone looks the same as one that only listens.
        elif self._state is not HttpState.ANSWERING and self._state is not HttpState.ENDED:
            self._codec.feed_end()
            self._advance()

    def output_paused(self) -> None:
        """The peer does not read: a response that goes on waits."""
        self._is_paused = True

    def output_resumed(self) -> None:
        """The peer reads again."""
        self._is_paused = False
        if self._source is not None and self.is_clear:
            self._source.cleared()

    def time_passed(self, now: float) -> None:
        """A request that dribbles in holds a connection for as long as it likes; not here."""
        if self._state is not HttpState.RECEIVING:
            self._deadline = None
        elif self._deadline is None:
            self._deadline = now + self._settings.request_timeout_ms / 1000
        elif now >= self._deadline:
            self._refuse(RequestTimeout("the request did not come in time"))
            self._wake()

    def drain(self) -> None:
        """Finish the request that has begun, if one has; its response says that it is the last."""
        self._draining = True
        if self._state is HttpState.IDLE:
            self._enter(HttpState.ENDED)
        elif self._state is HttpState.STREAMING:
            self.end()

    def closed(self) -> None:
        """Handlers that still have a response for us may keep it."""
        if self._state is not HttpState.ENDED:
            self._enter(HttpState.ENDED)
        self._let_source_go()

    # The outlet of a response that goes on

    @property
    def is_open(self) -> bool:
        """Whether anybody reads."""
        return self._state is HttpState.STREAMING

    @property
    def is_clear(self) -> bool:
        """Whether little waits to be sent."""
        return not self._is_paused and self._output_bytes < OUTPUT_BYTES_STEP

    def write(self, data: bytes) -> None:
        """Send a part of the content."""
        if self._state is HttpState.STREAMING and data:
            self._say([self._codec.encode_part(data)])
            self._wake()

    def end(self) -> None:
        """The content is complete."""
        if self._state is HttpState.STREAMING:
            self._say([self._codec.encode_end()])
            self._let_source_go()
            self._go_on()
            self._wake()

    def _let_source_go(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.closed()

    # -----------------------------------------------------------------------------------------------------------------

    def _enter(self, state: HttpState) -> None:
        assert state in TRANSITIONS[self._state], f"{self._state} -> {state}"
        self._state = state

    def _advance(self) -> None:
        self._advancing = True
        try:
            while self._state is not HttpState.ENDED and self._output_bytes < OUTPUT_BYTES_STEP:
                if not self._take_request():
                    return
        except HttpError as error:
            self._refuse(error)
            return
        finally:
            self._advancing = False
        self.input_wanted = 0

    def _take_request(self) -> bool:
        """Decode one request and hand it on; whether to go on with the next."""
        request = self._codec.decode_request()
        if isinstance(request, Request):
            self.input_wanted = None
            self._enter(HttpState.ANSWERING)
            self._deadline = None
            if not self.peer.library:
                self._introduce(request)
            self._handle(request, self._respond)
            return self._state not in (HttpState.ANSWERING, HttpState.STREAMING)
        if request == "ended":
            self._enter(HttpState.ENDED)
            return False
        self._say([self._codec.encode_continue()])
        self.input_wanted = 1
        state = HttpState.RECEIVING if self._codec.has_begun else HttpState.IDLE
        if state is not self._state:
            self._enter(state)
        return False

    def _introduce(self, request: Request) -> None:
        library, _, version = (request.header(b"user-agent") or "-").split(" ", 1)[0].partition("/")
        self.peer.introduce(library, version)

    def _respond(self, response: AnyResponse) -> None:
        if self._state is HttpState.ENDED:
            return  # The peer has gone in the meantime.
        assert self._state is HttpState.ANSWERING, "answered twice"
        if isinstance(response, StreamedResponse):
            self._stream(response)
        else:
            self._say(self._codec.encode_response(response, self._date(), close=self._draining))
            self._go_on()
        if not self._advancing:
            self._wake()

    def _stream(self, response: StreamedResponse) -> None:
        head, has_content = self._codec.encode_head(response, self._date(), close=self._draining)
        self._say([head])
        self._enter(HttpState.STREAMING)
        # So that the end of a client that listens is noticed.
        self.input_wanted = 1
        if not has_content or self._draining:
            self.end()
            return
        self._source = response.source
        response.source.begin(self)

    def _go_on(self) -> None:
        """With the next request, if one may follow."""
        self._enter(HttpState.IDLE if self._codec.begin_next() and not self._draining else HttpState.ENDED)
        self.input_wanted = 0

    def _refuse(self, error: HttpError) -> None:
        """Answer what cannot be served, and end: where the next request would begin is no longer known."""
        self._say(self._codec.encode_response(self._encode_error(error), self._date(), close=True))
        self._enter(HttpState.ENDED)

    def _say(self, parts: list[bytes]) -> None:
        for part in parts:
            if part:
                self._output.append(part)
                self._output_bytes += len(part)
