"""The state machine of one connection.

    state       what it means                                     goes on to
    CONNECTING  CONNECT is awaited, or its answer                 RUNNING, CLOSING, ENDED
    RUNNING     frames are dealt with as they come                CLOSING, ENDED
    CLOSING     no more input; what is in flight is finished      ENDED
    ENDED       nothing follows

Frames are dealt with one after the other. One that waits for the disk holds the session; SEND and ACK never do. An ERROR closes
the connection behind the receipts that are owed, so that a client knows what became of each frame before the one that was wrong.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from mainstem.model.peer import Peer
from mainstem.protocols.stomp.codec.escapes import V1_2, VERSIONS
from mainstem.protocols.stomp.codec.frames import EOL, FrameReader, Head, encode_frame
from mainstem.protocols.stomp.errors import StompError
from mainstem.protocols.stomp.session.settings import HEAD_BYTES_MIN, StompSettings
from mainstem.wire.heartbeat import Heartbeat

log = logging.getLogger(__name__)

OUTPUT_BYTES_MAX = 256 << 10
"""With so much waiting to be sent, frames and deliveries are left for later."""
LOGIN_BYTES_MAX = 8 * HEAD_BYTES_MIN
"""A frame of somebody who has not said who it is."""
CONNECTS = ("CONNECT", "STOMP")


class _LoginLimits(msgspec.Struct, frozen=True):
    head_bytes_max: int = LOGIN_BYTES_MAX
    headers_max: int = 64
    message_bytes_max: int = LOGIN_BYTES_MAX


class StompState(enum.Enum):
    """See the module's table."""

    CONNECTING = "connecting"
    RUNNING = "running"
    CLOSING = "closing"
    ENDED = "ended"


CONNECTING, RUNNING, CLOSING, ENDED = StompState


class ConnectionPort(Protocol):
    """What a session asks of the side that knows the broker."""

    owed: int
    """Receipts and other answers that wait for the disk."""

    @property
    def is_in_use(self) -> bool:
        """Whether the client is logged in: without heart-beats its silence means nothing."""

    def log_in(self, head: Head | None) -> None:
        """CONNECT; None: the default user. It ends in `StompSession.connected`, or raises StompError, or fails the session."""

    def frame_received(self, head: Head, body: bytes) -> None:
        """One frame; what takes longer holds the session until it is done. Raises StompError."""

    @property
    def is_to_stop(self) -> bool:
        """Whether the rest of what has come is left for later."""

    @property
    def has_rest(self) -> bool:
        """Whether a frame that was read waits to be dealt with."""

    def leave_for_later(self, head: Head, body: bytes) -> None:
        """Keep a frame until it can be dealt with."""

    def take_rest(self) -> None:
        """Deal with it. Raises StompError."""

    def stop_publishing(self) -> None:
        """Wait for no room any more; a frame that was read and not dealt with is dropped."""

    def pass_ended(self) -> None:
        """All that had come was dealt with, or is left for later."""

    def output_taken(self) -> None:
        """What was said is on its way: there is room to say more, unless the peer does not read."""

    def output_paused(self) -> None:
        """Deliver nothing more."""

    def time_passed(self, now: float) -> None:
        """Deadlines of deliveries."""

    def lost(self) -> None:
        """The peer is gone: give back everything."""


class StompSession:
    """One connection."""

    def __init__(
        self,
        wake: Callable[[], None],
        settings: StompSettings,
        connect: Callable[[StompSession], ConnectionPort],
    ) -> None:
        self.input_wanted: int | None = 1
        self.settings = settings
        self.peer = Peer()
        self.in_flight_bytes = 0
        """Published, and not durable yet."""
        self.is_output_paused = False
        self.output_bytes = 0
        self.reader = FrameReader(self, _LoginLimits())
        self._wake = wake
        self._state = CONNECTING
        self._output: list[bytes] = []
        self._holds = 0
        self._receiving = False
        self._input_ended = False
        self._deadline: float | None = None
        self._farewell: tuple[StompError, str | None] | None = None
        self._hearing, self._speaking = Heartbeat(), Heartbeat()
        self.connection = connect(self)

    @property
    def version(self) -> str:
        """Of the protocol, as it was agreed on."""
        return self.reader.version

    # The session contract --------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """All was said."""
        return self._state is ENDED

    @property
    def busy(self) -> bool:
        """An answer is owed, or the client may wait for as long as it likes."""
        return bool(self._holds or self.connection.owed or self.connection.is_in_use)

    def data_received(self, data: memoryview) -> int:
        """Take as many frames as may be dealt with now."""
        self._hearing.heard = True
        self._receiving = True
        used = 0
        try:
            if self.connection.has_rest and not self._is_waiting():
                self.connection.take_rest()
            if not self.connection.has_rest and not self._is_waiting():
                used = self.reader.read(data)
            self.connection.pass_ended()
        except StompError as error:
            self.connection.pass_ended()
            self.fail(error)
        finally:
            self._receiving = False
        if self._state is ENDED:
            return len(data)
        self._proceed()
        return used

    def take_output(self) -> list[bytes]:
        """Frames, in order."""
        output = self._output
        if output:
            self._output = []
            self.output_bytes = 0
            self._speaking.spoke = True
            if not self.is_output_paused and self._state is RUNNING:
                self.connection.output_taken()
        return output

    def input_ended(self) -> None:
        """No more frames; what is in flight is finished."""
        self._input_ended = True
        self._proceed()

    def output_paused(self) -> None:
        """The peer does not read."""
        self.is_output_paused = True
        self.connection.output_paused()

    def output_resumed(self) -> None:
        """The peer reads again."""
        self.is_output_paused = False
        if self._state is RUNNING:
            self.connection.output_taken()

    def time_passed(self, now: float) -> None:
        """Heart-beats, and the time that CONNECT may take."""
        if self._state is ENDED:
            return
        if self.input_wanted is None or self.is_output_paused:
            self._hearing.heard = True  # It is we who do not listen.
        if self._hearing.is_lost(now):
            log.info("a client missed its heart-beats, its connection is closed")
            self.end()
        elif self._state is CONNECTING:
            if self._deadline is None:
                self._deadline = now + self.settings.handshake_timeout_ms / 1000
            elif now >= self._deadline:
                self.end()
        else:
            self.connection.time_passed(now)
            if self._speaking.is_due(now) and not self.is_output_paused:
                self.say(EOL)
        if self.finished:
            self._wake()

    def drain(self) -> None:
        """Finish what is in flight, say why, and end."""
        if self._state is RUNNING:
            self.connection.stop_publishing()
            self.fail(StompError("connection_forced", "broker forced connection closure with reason 'shutdown'"))
        elif self._state is CONNECTING:
            self.end()

    def closed(self) -> None:
        """Give back all that it held."""
        self.end()

    # The frame sink --------------------------------------------------------------------------------------------------

    def frame_received(self, head: Head, body: bytes) -> bool:
        """One frame; answers whether to stop here for now. Raises StompError."""
        if self._state is CONNECTING:
            if head.command not in CONNECTS:
                if not self.settings.implicit_connect:
                    raise StompError("Illegal command", "You must log in using CONNECT first")
                self.connection.leave_for_later(head, body)
                self.connection.log_in(None)
                return True
            self.connection.log_in(head)
        elif head.command in CONNECTS:
            self.fail(StompError("Illegal command", "You are connected already"), head.headers.get("receipt"))
        else:
            self.connection.frame_received(head, body)
        return self._is_waiting() or self.connection.is_to_stop

    # What the broker side calls --------------------------------------------------------------------------------------

    def connected(self, version: str, hears_s: int, speaks_s: int) -> None:
        """The client is who it says; it sends something that often, and we do."""
        self._state = RUNNING
        self.reader.speak(version, self.settings)
        self._hearing.interval_s, self._speaking.interval_s = hears_s, speaks_s

    def say(self, frames: bytes) -> None:
        """Send frames."""
        if self._state is not ENDED:
            self._output.append(frames)
            self.output_bytes += len(frames)
            if not self._receiving:
                self._wake()

    def hold(self) -> None:
        """Deal with nothing more until `release`."""
        self._holds += 1
        self.input_wanted = None

    def release(self) -> None:
        """What was waited for is done."""
        assert self._holds > 0
        self._holds -= 1
        self.proceed()

    def settled(self, published_bytes: int) -> None:
        """So much of what was published is durable, or failed."""
        self.in_flight_bytes -= published_bytes
        self._proceed()
        if not self._receiving and (self.input_wanted is not None or self.finished):
            self._wake()

    def proceed(self) -> None:
        """Something that was waited for has come."""
        self._proceed()
        if not self._receiving:
            self._wake()

    def fail(self, error: StompError, receipt: str | None = None) -> None:
        """Say what was wrong, behind the receipts that are owed, and end."""
        if self._state in (CLOSING, ENDED):
            return
        log.info("a connection is closed: %s", error)
        self._farewell = error, receipt
        self._state = CLOSING
        self.proceed()

    def close(self) -> None:
        """End, once what is owed was said."""
        if self._state is not ENDED:
            self._state = CLOSING
            self.proceed()

    def end(self) -> None:
        """Say nothing more, and give back all that it held."""
        if self._state is not ENDED:
            self._state = ENDED
            self.input_wanted = None
            self.connection.lost()

    # -----------------------------------------------------------------------------------------------------------------

    def _is_waiting(self) -> bool:
        """Whether nothing more may be dealt with now."""
        return self._holds > 0 or self.output_bytes >= OUTPUT_BYTES_MAX or self._state in (CLOSING, ENDED)

    def _proceed(self) -> None:
        """Say when to be called next, and end when nothing is left to do."""
        if self._state is ENDED:
            return
        if self._state is CLOSING:
            self.input_wanted = None
            if not self.connection.owed and not self._holds:
                self._say_farewell()
        elif self._holds or self.in_flight_bytes > self.settings.in_flight_bytes_max:
            self.input_wanted = None
        elif self.connection.has_rest:
            self.input_wanted = 0
        elif self._input_ended and not self.connection.owed:
            self.end()
        else:
            self.input_wanted = self.reader.wanted

    def _say_farewell(self) -> None:
        if self._farewell is not None:
            error, receipt = self._farewell
            self.say(encode_error(error, self.version, receipt))
        self.end()


def encode_error(error: StompError, version: str = V1_2, receipt: str | None = None, subscription: str = "") -> bytes:
    """The ERROR frame."""
    headers = [("message", error.message), ("content-type", "text/plain"), ("version", ",".join(VERSIONS))]
    if receipt is not None:
        headers.append(("receipt-id", receipt))
    if subscription:
        headers.append(("subscription", subscription))
    return encode_frame("ERROR", headers, error.detail.encode("utf-8", "replace"), version)
