"""A WebSocket that carries another session: its bytes come and go as the content of messages.

    state      what it means                                        goes on to
    HANDSHAKE  the HTTP request is not whole yet                    OPEN, ENDED
    OPEN       frames; the carried session speaks                   ENDED
    ENDED      a Close frame, or a refusal, was said; nothing follows

The carried session does not know. What it leaves for later waits here: less than it wants, and what of one receive buffer came
behind that. While it wants no input, no frame is read, so that a Ping waits as well. Pure.
"""

from __future__ import annotations

import codecs
import enum
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from mainstem.model.bounds import Positive
from mainstem.model.peer import Peer
from mainstem.wire.websocket.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    GOING_AWAY,
    INVALID_TEXT,
    NORMAL,
    PING,
    PONG,
    PROTOCOL_ERROR,
    TEXT,
    TOO_BIG,
    UNSUPPORTED,
    Buffer,
    FrameHead,
    WebSocketError,
    decode_close,
    decode_head,
    encode_close,
    encode_head,
    encode_message,
    head_bytes,
    masked,
)
from mainstem.wire.websocket.handshake import (
    HandshakeRefused,
    Upgrade,
    decode_upgrade,
    encode_accepted,
    encode_refused,
)

_HEAD_END = b"\r\n\r\n"


class Carried(Protocol):
    """A session, as the transport knows it."""

    @property
    def input_wanted(self) -> int | None:
        """With how many bytes it is to be called next."""

    @property
    def finished(self) -> bool:
        """Nothing more will be said."""

    @property
    def busy(self) -> bool:
        """Something is owed to the peer."""

    def data_received(self, data: memoryview) -> int:
        """Use some of the bytes."""

    def take_output(self) -> Sequence[Buffer]:
        """What to send."""

    def input_ended(self) -> None:
        """The peer will send nothing more."""

    def output_paused(self) -> None:
        """The peer does not read."""

    def output_resumed(self) -> None:
        """The peer reads again."""

    def time_passed(self, now: float) -> None:
        """About once a second."""

    def drain(self) -> None:
        """The broker is going."""

    def closed(self) -> None:
        """The connection is gone."""


class WebSocketLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one connection may cost."""

    head_bytes_max: Positive = 8_192
    """The HTTP request."""
    message_bytes_max: Positive = 16 << 20
    """A message, all of its frames together."""
    output_bytes_step: Positive = 64 << 10
    """Content of one message that is sent: clients limit what they take."""
    handshake_timeout_ms: Positive = 10_000


Open: TypeAlias = Callable[[Callable[[], None], str | None, Upgrade], Carried]
"""Makes the carried session: with its wake, the sub-protocol that was chosen, and the request. Raises HandshakeRefused."""


class WebSocketState(enum.Enum):
    """See the module's table."""

    HANDSHAKE = "handshake"
    OPEN = "open"
    ENDED = "ended"


class WebSocketSession:
    """One connection. Where sub-protocols are named, a client must offer one of them, unless it need not offer any.

    A session of text is sent as text wherever that is UTF-8, each part of its output a message; it takes both kinds of messages.
    """

    def __init__(
        self,
        wake: Callable[[], None],
        limits: WebSocketLimits,
        open_carried: Open,
        subprotocols: Sequence[str] = (),
        *,
        is_text: bool = False,
        needs_subprotocol: bool = True,
    ) -> None:
        self._wake = wake
        self._limits = limits
        self._open_carried = open_carried
        self._subprotocols = subprotocols
        self._needs_subprotocol = needs_subprotocol
        self._is_text = is_text
        self._utf8: codecs.IncrementalDecoder | None = None
        """Checks the message of text that is coming."""
        self._state = WebSocketState.HANDSHAKE
        self._carried: Carried | None = None
        self._output: list[Buffer] = []
        self._raw_wanted = 1
        self._frame: FrameHead | None = None
        self._frame_at = 0
        """How much of the frame's content was read."""
        self._message_bytes = -1
        """Of the message whose frames are coming; -1: between messages."""
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        """Content that the carried session has not used."""
        self._deadline: float | None = None
        self._is_draining = False

    # What the transport asks

    @property
    def input_wanted(self) -> int | None:
        """As the carried session wants, counted in frames."""
        carried = self._carried
        if carried is None or self._state is WebSocketState.ENDED:
            return self._raw_wanted
        wanted = carried.input_wanted
        if wanted is None:
            return None
        return 0 if wanted <= self._parts_bytes else self._raw_wanted

    @property
    def finished(self) -> bool:
        """All was said; the Close frame comes with the last output."""
        return self._state is WebSocketState.ENDED or (self._carried is not None and self._carried.finished)

    @property
    def peer(self) -> Peer | None:
        """Who the session that is carried says its client is."""
        return getattr(self._carried, "peer", None)

    @property
    def busy(self) -> bool:
        """As the carried session."""
        return self._carried is not None and self._carried.busy

    def data_received(self, data: memoryview) -> int:
        """Frames, or the request before them; answers how much was used."""
        position = 0
        try:
            if self._state is WebSocketState.HANDSHAKE:
                position = self._shake_hands(data)
            if self._state is WebSocketState.OPEN:
                position += self._read_frames(data[position:])
        except HandshakeRefused as refusal:
            self._output.append(encode_refused(refusal))
            self._state = WebSocketState.ENDED
        except WebSocketError as error:
            self._close(error.code, str(error))
        return len(data) if self._state is WebSocketState.ENDED else position

    def take_output(self) -> list[Buffer]:
        """Answers to control frames, and what the carried session says."""
        self._take_carried()
        output, self._output = self._output, []
        return output

    def input_ended(self) -> None:
        """Without a Close frame: the peer has gone."""
        if self._carried is None:
            self._state = WebSocketState.ENDED
        elif self._state is WebSocketState.OPEN:
            self._carried.input_ended()

    def output_paused(self) -> None:
        """The peer does not read."""
        if self._carried is not None:
            self._carried.output_paused()

    def output_resumed(self) -> None:
        """The peer reads again."""
        if self._carried is not None:
            self._carried.output_resumed()

    def time_passed(self, now: float) -> None:
        """A request that dribbles in holds a connection for as long as it likes; not here."""
        if self._carried is not None:
            self._carried.time_passed(now)
        elif self._deadline is None:
            self._deadline = now + self._limits.handshake_timeout_ms / 1000
        elif now >= self._deadline and self._state is WebSocketState.HANDSHAKE:
            self._state = WebSocketState.ENDED
            self._wake()

    def drain(self) -> None:
        """The carried session says goodbye, then the WebSocket does."""
        self._is_draining = True
        if self._carried is None:
            self._state = WebSocketState.ENDED
        else:
            self._carried.drain()

    def closed(self) -> None:
        """The connection is gone."""
        self._state = WebSocketState.ENDED
        if self._carried is not None:
            self._carried.closed()

    # -----------------------------------------------------------------------------------------------------------------

    def _shake_hands(self, data: memoryview) -> int:
        head = bytes(data[: self._limits.head_bytes_max])
        end = head.find(_HEAD_END)
        if end < 0:
            if len(data) >= self._limits.head_bytes_max:
                raise HandshakeRefused(431, "the request is too long")
            self._raw_wanted = len(data) + 1
            return 0
        upgrade = decode_upgrade(head[:end])
        chosen = upgrade.choose(self._subprotocols)
        if chosen is None and self._subprotocols and (self._needs_subprotocol or upgrade.offered):
            raise HandshakeRefused(400, f"none of {', '.join(self._subprotocols)} is offered")
        self._carried = self._open_carried(self._wake, chosen, upgrade)
        self._output.append(encode_accepted(upgrade, chosen))
        self._state = WebSocketState.OPEN
        self._raw_wanted = 1
        return end + len(_HEAD_END)

    def _read_frames(self, data: memoryview) -> int:
        carried = self._carried
        assert carried is not None
        position = 0
        self._feed(carried)
        while self._state is WebSocketState.OPEN and not carried.finished and carried.input_wanted is not None:
            rest = data[position:]
            if self._frame is None:
                size = head_bytes(rest)
                if len(rest) < size:
                    self._raw_wanted = max(size, len(rest) + 1)
                    break
                self._begin_frame(decode_head(rest))
                position += size
                continue
            frame = self._frame
            if frame.is_control:
                if len(rest) < frame.size:
                    self._raw_wanted = frame.size
                    break
                self._control(frame, masked(rest[: frame.size], frame.mask))
                position += frame.size
                continue
            count = min(len(rest), frame.size - self._frame_at)
            if not count and self._frame_at < frame.size:
                self._raw_wanted = 1
                break
            position += count
            self._content(frame, masked(rest[:count], frame.mask, self._frame_at))
            if self._feed(carried):
                break  # it has said much: it goes on once that is on its way
        return position

    def _begin_frame(self, head: FrameHead) -> None:
        if not head.is_control:
            if (head.opcode == CONTINUATION) == (self._message_bytes < 0):
                raise WebSocketError(PROTOCOL_ERROR, "a message begins where none may, or goes on where none began")
            if head.opcode not in (CONTINUATION, BINARY) and not (head.opcode == TEXT and self._is_text):
                raise WebSocketError(UNSUPPORTED, "messages of this kind are not taken here")
            if head.opcode != CONTINUATION:
                self._utf8 = codecs.getincrementaldecoder("utf-8")() if head.opcode == TEXT else None
            self._message_bytes = max(self._message_bytes, 0) + head.size
            if self._message_bytes > self._limits.message_bytes_max:
                raise WebSocketError(TOO_BIG, f"a message has at most {self._limits.message_bytes_max} bytes")
        self._frame, self._frame_at = head, 0

    def _content(self, frame: FrameHead, content: bytes) -> None:
        self._frame_at += len(content)
        is_last = self._frame_at == frame.size
        ends_message = is_last and frame.is_final
        if self._utf8 is not None:
            try:
                self._utf8.decode(content, final=ends_message)
            except UnicodeDecodeError:
                raise WebSocketError(INVALID_TEXT, "not UTF-8") from None
        if content:
            self._parts.append(content)
            self._parts_bytes += len(content)
        if is_last:
            self._frame = None
        if ends_message:
            self._message_bytes = -1

    def _control(self, frame: FrameHead, content: bytes) -> None:
        self._frame = None
        if frame.opcode == PING:
            self._take_carried()
            self._output += [encode_head(PONG, len(content)), content]
        elif frame.opcode == CLOSE:
            self._close(decode_close(content))

    def _feed(self, carried: Carried) -> bool:
        """Give the carried session what it wants; answers whether it is to be called again without more input."""
        was_called = False
        while not carried.finished:
            wanted = carried.input_wanted
            if wanted is None or wanted > self._parts_bytes:
                return False
            if wanted == 0 and was_called:
                return True
            data = bytearray(b"".join(self._parts))
            used = carried.data_received(memoryview(data))
            rest = bytes(memoryview(data)[used:])
            self._parts, self._parts_bytes = [rest] if rest else [], len(rest)
            was_called = True
        return False

    def _take_carried(self) -> None:
        carried = self._carried
        if carried is None or self._state is not WebSocketState.OPEN:
            return
        step = self._limits.output_bytes_step
        for part in carried.take_output():
            view = memoryview(part)
            if self._is_text and _is_utf8(view):
                self._output += encode_message(TEXT, [part])
                continue
            for at in range(0, len(view), step):
                self._output += encode_message(BINARY, [view[at : at + step]])
        if carried.finished:
            self._close(GOING_AWAY if self._is_draining else NORMAL)

    def _close(self, code: int, why: str = "") -> None:
        if self._state is WebSocketState.OPEN:
            self._state = WebSocketState.ENDED
            self._output.append(encode_close(code, why))


def _is_utf8(view: memoryview) -> bool:
    try:
        str(view, "utf-8")
    except UnicodeDecodeError:
        return False
    return True
