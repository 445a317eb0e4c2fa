"""The state machine of one Kafka connection: requests in, responses out, in the order of the requests.

    state     what it means                                       goes on to
    OPEN      requests are taken as they come                     WAITING, MUTED, ENDING, ENDED
    WAITING   a request must be answered before the next begins   OPEN, MUTED, ENDING, ENDED
    MUTED     nothing is taken until its time has passed          OPEN, ENDING, ENDED
    ENDING    no more requests; answers are still owed            ENDED
    ENDED     nothing follows

Kafka deals with the requests of a connection one after the other, and clients rely on it: an offset that was
committed is seen by the fetch behind it. So do we, with one exception that cannot be told from outside and makes the
difference between thousands and hundreds of thousands of requests per second: Produce requests follow each other without
waiting, because the log keeps their order. Any other request begins when nothing is owed any more.
"""

from __future__ import annotations

import enum
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from mainstem.model.endpoints import UNKNOWN, Endpoints
from mainstem.model.peer import Peer
from mainstem.protocols.kafka.session.settings import KafkaSettings

Buffer: TypeAlias = bytes | bytearray | memoryview

SIZE_BYTES = 4
HEADER_BYTES_MIN = 8
"""API key, version and correlation id: less cannot be a request."""
TOKEN_BYTES_MIN = 2
PRODUCE_KEY = 0
ANONYMOUS = "ANONYMOUS"
"""Who has not said who he is, as Kafka calls him."""

_SIZE = struct.Struct(">i")


class SessionState(enum.Enum):
    """See the module's table."""

    OPEN = "open"
    WAITING = "waiting"
    MUTED = "muted"
    ENDING = "ending"
    ENDED = "ended"


TRANSITIONS: dict[SessionState, frozenset[SessionState]] = {
    SessionState.OPEN: frozenset({SessionState.WAITING, SessionState.MUTED, SessionState.ENDING, SessionState.ENDED}),
    SessionState.WAITING: frozenset({SessionState.OPEN, SessionState.MUTED, SessionState.ENDING, SessionState.ENDED}),
    SessionState.MUTED: frozenset({SessionState.OPEN, SessionState.ENDING, SessionState.ENDED}),
    SessionState.ENDING: frozenset({SessionState.ENDED}),
    SessionState.ENDED: frozenset(),
}

# Looked at for every request; members of an enumeration are slow to come by.
OPEN, WAITING, MUTED, ENDING, ENDED = SessionState


class Allowance(Protocol):
    """How much a client may be given."""

    bytes_max: int

    def charge(self, size: int, reply: Reply) -> bool:
        """Whether this number of bytes may be given."""


NOT_TIMED = -1.0


class Meter(Protocol):
    """What counts requests of one kind."""

    requests: int
    untimed: int
    """A mask of one-bits: those are timed whose number has none of them."""
    clock: Callable[[], float]

    def answered(self, begun: float, throttle_ms: int) -> None:
        """A request that began then, or is not timed, is answered, and its client was told to wait so long."""


class Reply:
    """The place of one response in the order of a connection. Filled exactly once."""

    __slots__ = ("_hurry", "_parts", "_session", "allowance", "begun", "meter", "release", "size", "throttle_ms")

    def __init__(self, session: KafkaSession, size: int) -> None:
        self._session = session
        self._parts: Sequence[Buffer] | None = None
        self.size = size
        """Bytes of the request."""
        self._hurry: Callable[[], None] | None = None
        self.release: Callable[[], None] | None = None
        """Set by a handler that holds something while it waits: the connection is gone, let go of it."""
        self.throttle_ms = 0
        """How long the client is told to wait before it asks again."""
        self.allowance: Allowance | None = None
        """What the response may cost, where that is limited."""
        self.meter: Meter | None = None
        self.begun: float  # where there is a meter

    def on_drain(self, hurry: Callable[[], None]) -> None:
        """Said by a handler that waits for something other than the disk: how to make it answer now."""
        self._hurry = hurry
        if self._session.draining:
            self.hurry()

    def hurry(self) -> None:
        """The broker is going: answer now."""
        if self._hurry is not None and self._parts is None:
            self._hurry()

    def send(self, *parts: Buffer) -> None:
        """The response, with its size in front; nothing where the client asked for none."""
        assert self._parts is None, "answered twice"
        self._parts = parts
        if self.meter is not None:
            self.meter.answered(self.begun, self.throttle_ms)
        self._session.answered()

    def refuse(self) -> None:
        """Close the connection instead, as Kafka does with what it cannot understand."""
        self._session.refuse()

    def end(self) -> None:
        """Close the connection after this response."""
        self._session.end()

    def mute(self) -> None:
        """Take no request behind this one, until `unmute` was called as often."""
        self._session.mute()

    def unmute(self) -> None:
        """The time has passed."""
        self._session.unmute()

    def take_tokens(self, handle: Handle | None) -> None:
        """What follows are not requests but bare tokens, dealt with by `handle`; None: requests again."""
        self._session.take_tokens(handle)

    @property
    def parts(self) -> Sequence[Buffer] | None:
        """What was sent; None while it is owed."""
        return self._parts


Handle: TypeAlias = "Callable[[memoryview, Reply, ConnectionState], None]"
"""Deals with a request, without its size; fills the reply at once or later, exactly once, or refuses."""


class ConnectionState:
    """What handlers remember of a connection between two requests, and let go of when it ends."""

    __slots__ = ("_owned", "endpoints", "host", "is_authenticated", "peer", "user")

    def __init__(self, endpoints: Endpoints = UNKNOWN) -> None:
        self.endpoints = endpoints
        self.host = endpoints.peer_host
        """Address of the peer."""
        self.peer = Peer()
        self._owned: dict[str, Any] = {}
        self.is_authenticated = False
        """Whether the peer has said who it is, where that is asked for."""
        self.user = ANONYMOUS

    def authenticate(self, user: str) -> None:
        """The peer has proven who it is."""
        self.is_authenticated = True
        self.user = self.peer.user = user

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        """What is kept under a name; made when first asked for. Has a method `close`."""
        kept = self._owned.get(name)
        if kept is None:
            kept = self._owned[name] = make()
        return kept

    def close(self) -> None:
        """Let go of all."""
        for kept in self._owned.values():
            kept.close()
        self._owned.clear()


class KafkaSession:
    """One connection."""

    def __init__(
        self, wake: Callable[[], None], settings: KafkaSettings, handle: Handle, endpoints: Endpoints = UNKNOWN
    ) -> None:
        self.input_wanted: int | None = SIZE_BYTES
        self.draining = False
        self._wake = wake
        self._handle = handle
        self._handle_request = handle
        self._request_bytes_min = HEADER_BYTES_MIN
        self._request_bytes_max = settings.request_bytes_max
        self._in_flight_max = settings.requests_in_flight_max
        self._in_flight_bytes_max = settings.request_bytes_in_flight_max
        self._state: SessionState = OPEN
        self._resting: SessionState = OPEN
        """Where it goes when nothing is waited for: open, or muted."""
        self._mutes = 0
        self._connection = ConnectionState(endpoints)
        self._replies: deque[Reply] = deque()
        self._owed_bytes = 0
        self._output: list[Buffer] = []
        self._receiving = False
        self._has_more = False
        """Whether a request lies ready that could not begin yet."""
        self._input_ended = False

    @property
    def finished(self) -> bool:
        """All was said."""
        return self._state is ENDED

    @property
    def peer(self) -> Peer:
        """Who the client is."""
        return self._connection.peer

    @property
    def busy(self) -> bool:
        """An answer is owed."""
        return bool(self._replies)

    def data_received(self, data: memoryview) -> int:
        """Hand complete requests on, as far as the order of the connection allows."""
        self._receiving = True
        try:
            used = self._take_requests(data)
        finally:
            self._receiving = False
        if self._input_ended and not self._has_more:
            self.end()
        return used

    def take_output(self) -> list[Buffer]:
        """Responses, in order."""
        output, self._output = self._output, []
        return output

    def input_ended(self) -> None:
        """No more requests; what is owed is still answered."""
        self._input_ended = True
        if not self._has_more:
            self.end()

    def output_paused(self) -> None:
        """Nothing is pushed here."""

    def output_resumed(self) -> None:
        """Nothing is pushed here."""

    def time_passed(self, now: float) -> None:
        """Requests keep their own time."""

    def drain(self) -> None:
        """Begin nothing new; who waits for records or for others is answered now."""
        self.draining = True
        self.end()
        for reply in list(self._replies):
            reply.hurry()

    def closed(self) -> None:
        """Let go of all that waits."""
        self._finish()

    # What replies call -----------------------------------------------------------------------------------------------

    def answered(self) -> None:
        """Some reply was filled: move what is next in order to the output."""
        if self._state is ENDED:
            return
        replies = self._replies
        output = self._output
        while replies and (parts := replies[0].parts) is not None:
            output += parts
            self._owed_bytes -= replies.popleft().size
        if self._state is WAITING and not replies:
            self._rest()
        if self._state is ENDING and not replies:
            self._finish()
        elif self._has_more and self._may_go_on():
            self.input_wanted = SIZE_BYTES
        if not self._receiving:
            self._wake()

    def mute(self) -> None:
        """Take no more requests for a while; what is owed is still answered."""
        self._mutes += 1
        self._resting = MUTED
        if self._state is OPEN:
            self._rest()

    def unmute(self) -> None:
        """Take requests again, unless somebody else wants silence."""
        self._mutes -= 1
        if self._mutes:
            return
        self._resting = OPEN
        if self._state is MUTED:
            self._enter(OPEN)
            self.input_wanted = 0  # also where nothing more comes: the input may have ended meanwhile
            self._wake()

    def _rest(self) -> None:
        self._enter(self._resting)
        if self._resting is MUTED:
            self._has_more = True
            self.input_wanted = None

    def take_tokens(self, handle: Handle | None) -> None:
        """Requests, or tokens, from the next one on."""
        self._handle = self._handle_request if handle is None else handle
        self._request_bytes_min = HEADER_BYTES_MIN if handle is None else TOKEN_BYTES_MIN

    def refuse(self) -> None:
        """Say nothing more."""
        if self._state is not ENDED:
            self._finish()
            if not self._receiving:
                self._wake()

    # -----------------------------------------------------------------------------------------------------------------

    def _may_go_on(self) -> bool:
        """Whether the next request may at least be looked at."""
        return self._state is OPEN and (
            not self._replies
            or (len(self._replies) < self._in_flight_max and self._owed_bytes < self._in_flight_bytes_max)
        )

    def _take_requests(self, data: memoryview) -> int:
        position = 0
        available = len(data)
        self._has_more = False
        while True:
            left = available - position
            if left < SIZE_BYTES:
                self.input_wanted = SIZE_BYTES
                return position
            size: int = _SIZE.unpack_from(data, position)[0]
            if not self._request_bytes_min <= size <= self._request_bytes_max:
                self._finish()
                return available
            if left < SIZE_BYTES + size:
                self.input_wanted = SIZE_BYTES + size
                return position
            if not self._begin(data[position + SIZE_BYTES : position + SIZE_BYTES + size]):
                self._has_more = True
                self.input_wanted = None
                return position
            position += SIZE_BYTES + size
            state = self._state
            if state is ENDED:
                return available
            if state is MUTED:
                self._has_more = True
                self.input_wanted = None
                return position

    def _begin(self, request: memoryview) -> bool:
        """Hand a request on, if it is its turn."""
        if not self._may_go_on():
            return False
        is_produce = request[0] == 0 and request[1] == PRODUCE_KEY and self._handle is self._handle_request
        if not is_produce:
            if self._replies:
                return False
            self._enter(WAITING)
        reply = Reply(self, len(request))
        self._replies.append(reply)
        self._owed_bytes += reply.size
        self._handle(request, reply, self._connection)
        return True

    def end(self) -> None:
        """Take no more requests; what is owed is still answered."""
        self._has_more = False
        self.input_wanted = None
        if self._state is ENDED:
            return
        if not self._replies:
            self._finish()
        elif self._state is not ENDING:
            self._enter(ENDING)

    def _finish(self) -> None:
        if self._state is ENDED:
            return
        self._enter(ENDED)
        self.input_wanted = None
        replies, self._replies = self._replies, deque()
        for reply in replies:
            if reply.release is not None and reply.parts is None:
                reply.release()
        self._connection.close()

    def _enter(self, state: SessionState) -> None:
        assert state in TRANSITIONS[self._state], f"{self._state} -> {state}"
        self._state = state
