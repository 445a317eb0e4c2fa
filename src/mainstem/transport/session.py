"""The neutral contract between a socket and the protocol spoken on it.

A session is the state machine of one connection: bytes and events in, effects out. It holds no socket, no clock and no
event loop, so that every byte sequence can be tested split anywhere. Adapters do not import this module (they are siblings
of the transport, not its children); the server, which puts both together, is where the type checker compares them.

Why it has this shape
---------------------
*Whole buffers in.* `data_received` gets all that is there, many frames or half a one, as one writable view, and
answers how much of it it has used. Python pays per call, so the loop over frames belongs to the protocol. The session
may keep slices of what it consumed (a batch on its way to the log is not copied): the transport writes over a
chunk only when nobody looks into it any more.

*Effects as attributes.* After each call the transport looks at `input_wanted`, `finished` and `take_output()`. No
effect object is made, and a session under test is inspected in the same way.

*Answers may come later.* An answer that waits for the disk is put into the session by the code that completes it, followed by
`wake()`, given to the session at birth. Wakes are folded: however many answers one group of writes completes, the
connection is written to once. No task, future or event per message.

*One number is the flow control of the input.* `input_wanted` says when calling makes sense again. A session with too
many requests in flight says None; the transport stops reading, the peer's window closes, memory stays bounded. A session
that has produced much output while more input lies ready stops and says how little it needs to go on; the
transport comes back once the output is on its way.

*A session may say who its client is.* One that learns it has an attribute `peer`, a `Peer`: connections of every protocol are
listed with it. Without the attribute a connection is listed by its addresses and traffic alone.

*What the connection proves is said at birth.* A session gets `Endpoints`: both addresses, the listener's name, whether the
connection is encrypted and who the client is by its certificate. Over TLS a session is opened after the handshake.

*Time is an event.* `time_passed` comes about once a second; heartbeats and deadlines are counted from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from mainstem.model.endpoints import Endpoints

Buffer: TypeAlias = bytes | bytearray | memoryview


class Session(Protocol):
    """One connection's state machine. Every method is called on the event loop's thread and must not block."""

    @property
    def input_wanted(self) -> int | None:
        """With how many bytes unconsumed `data_received` is to be called next.

        1: as soon as anything arrives. N: the next frame needs N bytes in all (the transport makes room for it,
        growing as the bytes come; the session refuses what is over its limit instead of wanting it). 0: call again even
        if nothing arrives, once the output may be written; not said twice without progress. None: not before `wake`.
        """

    @property
    def finished(self) -> bool:
        """Nothing more will be said: close when the output has been written."""

    @property
    def busy(self) -> bool:
        """An answer or delivery is still owed to the peer: its silence is not idleness."""

    def data_received(self, data: memoryview) -> int:
        """Use some of the bytes that lie ready, in order; answers how many. The rest is given again, with more behind it."""

    def take_output(self) -> Sequence[Buffer]:
        """What to send, in order; it is the transport's from now on."""

    def input_ended(self) -> None:
        """The peer will send nothing more; it may still read. Called when all complete input was consumed."""

    def output_paused(self) -> None:
        """The peer does not read: push nothing more. What was asked for may still be answered."""

    def output_resumed(self) -> None:
        """The peer reads again."""

    def time_passed(self, now: float) -> None:
        """About once a second, with the seconds of a clock that never goes back. A session that this moves calls `wake`."""

    def drain(self) -> None:
        """The broker is going: take no new work, finish what is in flight, say goodbye, become `finished`."""

    def closed(self) -> None:
        """The connection is gone, whichever side closed it: let go of all that it held. The last call."""


Wake: TypeAlias = Callable[[], None]
"""Tells the transport that output or `input_wanted` changed outside its calls. Cheap, may be called any number of times."""

OpenSession: TypeAlias = Callable[[Wake, Endpoints], Session]
"""What an adapter gives for each new connection between these two ends."""
