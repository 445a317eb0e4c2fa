"""The state machine of one remoting connection: commands in, commands out, in any order.

    state     what it means                              goes on to
    OPEN      requests are taken as they come            ENDING, ENDED
    ENDING    no more requests; answers are still owed   ENDED
    ENDED     nothing follows

Each side sends requests, and answers find theirs by number. A connection that publishes is held while too much waits for
the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from mainstem.protocols.rocketmq.codec.remoting.commands import (
    LENGTH_BYTES,
    MARK_BYTES,
    Buffer,
    Command,
    decode_command,
    encode_command,
)
from mainstem.protocols.rocketmq.errors import MalformedFrame


class SessionState(Enum):
    """See the module's table."""

    OPEN = "open"
    ENDING = "ending"
    ENDED = "ended"


OPEN, ENDING, ENDED = SessionState


class SessionLimits(Protocol):
    """What the settings of each listener have."""

    @property
    def frame_bytes_max(self) -> int:
        """Largest request."""

    @property
    def requests_in_flight_max(self) -> int:
        """Above it the connection is not read."""


class RemotingHandlers(Protocol):
    """What commands of one connection do."""

    def handle(self, command: Command) -> None:
        """A request; it is answered once, by `RemotingSession.answer`, unless it is one-way."""

    def answered(self, command: Command) -> None:
        """The peer answers a request of ours."""

    def pass_ended(self) -> None:
        """All requests that lay ready were handed on."""

    def hurry(self) -> None:
        """Answer now what waits for messages."""

    def closed(self) -> None:
        """The connection is gone."""


class RemotingSession:
    """One connection."""

    def __init__(
        self,
        wake: Callable[[], None],
        limits: SessionLimits,
        connect: Callable[[RemotingSession], RemotingHandlers],
    ) -> None:
        self.input_wanted: int | None = LENGTH_BYTES
        self._wake = wake
        self._frame_bytes_max = limits.frame_bytes_max
        self._in_flight_max = limits.requests_in_flight_max
        self._state: SessionState = OPEN
        self._in_flight = 0
        self._is_held = self._is_receiving = self._is_closed = False
        self._output: list[Buffer] = []
        self._handlers = connect(self)

    @property
    def finished(self) -> bool:
        """All was said."""
        return self._state is ENDED

    @property
    def busy(self) -> bool:
        """An answer is owed."""
        return self._in_flight > 0

    def data_received(self, data: memoryview) -> int:
        """Hand complete commands on."""
        self._is_receiving = True
        try:
            used = self._take_commands(data)
            self._handlers.pass_ended()
        finally:
            self._is_receiving = False
        self._rest()
        return used

    def _take_commands(self, data: memoryview) -> int:
        position, available = 0, len(data)
        while self._may_go_on:
            left = available - position
            if left < LENGTH_BYTES:
                self.input_wanted = LENGTH_BYTES
                return position
            size = int.from_bytes(data[position : position + LENGTH_BYTES], signed=True)
            if not MARK_BYTES <= size <= self._frame_bytes_max:
                self._finish()
                return available
            if left < LENGTH_BYTES + size:
                self.input_wanted = LENGTH_BYTES + size
                return position
            start = position + LENGTH_BYTES
            try:
                command = decode_command(data[start : start + size])
            except MalformedFrame:
                self._finish()
                return available
            position = start + size
            self._hand_on(command)
        if self._state is ENDED:
            return available
        self.input_wanted = None
        return position

    def _hand_on(self, command: Command) -> None:
        if command.is_answer:
            self._handlers.answered(command)
            return
        if not command.is_one_way:
            self._in_flight += 1
        self._handlers.handle(command)

    @property
    def _may_go_on(self) -> bool:
        return self._state is OPEN and not self._is_held and self._in_flight < self._in_flight_max

    def _rest(self) -> None:
        """After something was answered: go on, or end."""
        if self._state is ENDING and not self._in_flight:
            self._finish()
        elif self.input_wanted is None and self._may_go_on:
            self.input_wanted = LENGTH_BYTES

    # What handlers call

    def answer(self, command: Command) -> None:
        """To a request that is not one-way."""
        self._in_flight -= 1
        self.say(command)

    def say(self, command: Command) -> None:
        """An answer, or a request of ours."""
        if self._state is ENDED:
            return
        self._output += encode_command(command)
        if not self._is_receiving:
            self._rest()
            self._wake()

    def hold(self) -> None:
        """Take no requests until released."""
        self._is_held = True

    def release(self) -> None:
        """Take requests again."""
        self._is_held = False
        self._rest()
        self._wake()

    def take_output(self) -> list[Buffer]:
        """In the order in which it was said."""
        output, self._output = self._output, []
        return output

    # What the transport calls

    def input_ended(self) -> None:
        """No more requests; what is owed is still answered."""
        self._end()

    def output_paused(self) -> None:
        """What is pushed is small, and seldom."""

    def output_resumed(self) -> None:
        """Nothing was held back."""

    def time_passed(self, now: float) -> None:
        """Requests keep their own time."""

    def drain(self) -> None:
        """Begin nothing new; who waits for messages is answered now."""
        self._end()

    def closed(self) -> None:
        """Let go of all that waits."""
        self._finish()

    def _end(self) -> None:
        if self._state is OPEN:
            self._state = ENDING
            self.input_wanted = None
            self._handlers.hurry()
            self._rest()

    def _finish(self) -> None:
        self._state = ENDED
        self.input_wanted = None
        if not self._is_closed:
            self._is_closed = True
            self._handlers.closed()
