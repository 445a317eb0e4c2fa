"""One stream of a connection: what is still to be sent, and how much of it the peer takes."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mainstem.wire.http2.frames import END_HEADERS, END_STREAM, ErrorCode, FrameType, encode_frame

if TYPE_CHECKING:
    from mainstem.wire.http2.session import Http2Session


class Stream:
    """Made by the session, when the peer opens it."""

    __slots__ = ("_session", "_trailers", "_unsent", "id", "is_ended", "is_gone", "unsent_bytes", "window")

    def __init__(self, session: Http2Session, number: int, window: int) -> None:
        self._session = session
        self.id = number
        self.window = window
        """How much the peer takes of this stream."""
        self.is_ended = False
        """Whether the peer has said all."""
        self.is_gone = False
        self._unsent: deque[bytes | memoryview | None] = deque()
        self.unsent_bytes = 0
        self._trailers = b""

    def send_headers(self, block: bytes) -> None:
        """The head of the answer, encoded; before any data."""
        if not self.is_gone:
            self._session.put(encode_frame(FrameType.HEADERS, END_HEADERS, self.id, block))

    def send_data(self, data: bytes) -> None:
        """Some of the answer; it waits until the peer takes it."""
        if not self.is_gone and data:
            self._unsent.append(data)
            self.unsent_bytes += len(data)
            self._session.flush_stream(self)

    def end(self, trailers: bytes) -> None:
        """All was said; the trailers, encoded, come after the data."""
        if not self.is_gone:
            self._unsent.append(None)
            self._trailers = trailers
            self._session.flush_stream(self)

    def reset(self, code: ErrorCode) -> None:
        """End it without an answer."""
        if not self.is_gone:
            self._session.reset_stream(self, code)

    def take(self, room: int, frame_max: int) -> tuple[list[bytes], int, bool]:
        """Frames of at most this much data, how much that is, and whether the stream has ended with them."""
        frames: list[bytes] = []
        spent = 0
        while self._unsent:
            part = self._unsent[0]
            if part is None:
                frames.append(encode_frame(FrameType.HEADERS, END_HEADERS | END_STREAM, self.id, self._trailers))
                self._unsent.clear()
                return frames, spent, True
            size = min(len(part), room - spent, self.window, frame_max)
            if size <= 0:
                break
            frames.append(encode_frame(FrameType.DATA, 0, self.id, bytes(part[:size])))
            spent += size
            self.window -= size
            self.unsent_bytes -= size
            if size == len(part):
                self._unsent.popleft()
            else:
                self._unsent[0] = memoryview(part)[size:]
        return frames, spent, False

    @property
    def has_unsent(self) -> bool:
        """Whether something waits for the peer."""
        return bool(self._unsent)
