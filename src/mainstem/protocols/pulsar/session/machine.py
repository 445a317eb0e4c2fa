"""The state machine of one connection of the binary protocol: frames in, frames out.

    state   what it means                               goes on to
    OPEN    frames are taken as they come               ENDING, ENDED
    ENDING  no more frames; answers are still owed      ENDED
    ENDED   nothing follows

A connection that publishes is held while too much waits for the disk. Both sides ask for a sign of life when they hear nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Protocol

from mainstem.model.peer import Peer
from mainstem.protocols.pulsar.codec.frames import (
    FRAME_OVERHEAD_BYTES,
    SIZE,
    SIZE_BYTES,
    Buffer,
    decode_frame,
    encode_command,
)
from mainstem.protocols.pulsar.codec.schema import Kind
from mainstem.protocols.pulsar.errors import MalformedFrame

SILENCE_S = 30.0
"""So long we hear nothing before we ask; after as long again the connection is closed."""
IN_FLIGHT_MAX = 10_000
"""Answers owed; above it the connection is not read."""


class SessionState(Enum):
    """See the module's table."""

    OPEN = "open"
    ENDING = "ending"
    ENDED = "ended"


OPEN, ENDING, ENDED = SessionState


class PulsarHandlers(Protocol):
    """What commands of one connection do."""

    def handle(self, command: Any, rest: memoryview) -> None:
        """A command, and the entry behind it. Raises MalformedFrame: the connection is closed."""

    def pass_ended(self) -> None:
        """All frames that lay ready were handed on."""

    def paused(self, is_paused: bool) -> None:
        """The peer does not read, or reads again."""

    def closed(self) -> None:
        """The connection is gone."""


class PulsarSession:
    """One connection."""

    def __init__(
        self,
        wake: Callable[[], None],
        message_bytes_max: int,
        connect: Callable[[PulsarSession], PulsarHandlers],
    ) -> None:
        self.input_wanted: int | None = SIZE_BYTES
        self.peer = Peer()
        self._wake = wake
        self._frame_bytes_max = message_bytes_max + FRAME_OVERHEAD_BYTES
        self._state: SessionState = OPEN
        self._owed = 0
        self._is_held = self._is_receiving = self._is_closed = False
        self._heard = True
        self._asked = False
        self._silent_since: float | None = None
        self._output: list[Buffer] = []
        self._handlers = connect(self)

    @property
    def finished(self) -> bool:
        """All was said."""
        return self._state is ENDED

    @property
    def busy(self) -> bool:
        """An answer is owed."""
        return self._owed > 0

    @property
    def is_ended(self) -> bool:
        """Whether nothing can be said any more."""
        return self._state is ENDED

    # Input

    def data_received(self, data: memoryview) -> int:
        """Hand complete frames on."""
        self._heard = True
        self._is_receiving = True
        try:
            used = self._take_frames(data)
            if self._state is not ENDED:
                self._handlers.pass_ended()
        finally:
            self._is_receiving = False
        self._rest()
        return used

    def _take_frames(self, data: memoryview) -> int:
        position, available = 0, len(data)
        while self._may_go_on:
            left = available - position
            if left < SIZE_BYTES:
                self.input_wanted = SIZE_BYTES
                return position
            size = SIZE.unpack_from(data, position)[0]
            if not SIZE_BYTES <= size <= self._frame_bytes_max:
                self.finish()
                return available
            if left < SIZE_BYTES + size:
                self.input_wanted = SIZE_BYTES + size
                return position
            start = position + SIZE_BYTES
            position = start + size
            try:
                command, rest = decode_frame(data[start:position])
                self._handlers.handle(command, rest)
            except MalformedFrame:
                self.finish()
                return available
        if self._state is ENDED:
            return available
        self.input_wanted = None
        return position

    @property
    def _may_go_on(self) -> bool:
        return self._state is OPEN and not self._is_held and self._owed < IN_FLIGHT_MAX

    def _rest(self) -> None:
        """After something was answered: go on, or end."""
        if self._state is ENDING and not self._owed:
            self.finish()
        elif self.input_wanted is None and self._may_go_on:
            self.input_wanted = SIZE_BYTES

    # What handlers call

    def owe(self) -> None:
        """An answer follows."""
        self._owed += 1

    def settle(self) -> None:
        """An answer that was owed was given."""
        self._owed -= 1
        if not self._is_receiving:
            self._rest()

    def say(self, parts: Iterable[Buffer]) -> None:
        """A frame, or several."""
        if self._state is ENDED:
            return
        self._output += parts
        if not self._is_receiving:
            self._wake()

    def hold(self) -> None:
        """Take no frames until released."""
        self._is_held = True

    def release(self) -> None:
        """Take frames again."""
        self._is_held = False
        self._rest()
        self._wake()

    def finish(self) -> None:
        """Say nothing more."""
        self._state = ENDED
        self.input_wanted = None
        if not self._is_closed:
            self._is_closed = True
            self._handlers.closed()

    def end(self) -> None:
        """Say what is owed, and nothing more."""
        if self._state is OPEN:
            self._state = ENDING
            self.input_wanted = None
            self._rest()
            if not self._is_receiving:
                self._wake()

    def take_output(self) -> list[Buffer]:
        """In the order in which it was said."""
        output, self._output = self._output, []
        return output

    # What the transport calls

    def input_ended(self) -> None:
        """No more commands; what is owed is still answered."""
        self.end()

    def output_paused(self) -> None:
        """The peer does not read: it is given no messages."""
        self._handlers.paused(True)

    def output_resumed(self) -> None:
        """It reads again."""
        self._handlers.paused(False)

    def time_passed(self, now: float) -> None:
        """Ask for a sign of life, or close a connection that gives none."""
        if self._state is not OPEN:
            return
        if self._heard or self._silent_since is None:
            self._heard = self._asked = False
            self._silent_since = now
        elif now - self._silent_since >= 2 * SILENCE_S and not self._is_held:
            self.finish()
            self._wake()
        elif now - self._silent_since >= SILENCE_S and not self._asked:
            self._asked = True
            self.say(encode_command(Kind.PING))

    def drain(self) -> None:
        """Begin nothing new; what is owed is answered."""
        self.end()

    def closed(self) -> None:
        """Let go of all that it held."""
        self.finish()
