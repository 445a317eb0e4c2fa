"""One connection: moves bytes between a socket and a session, and keeps both within their bounds."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Protocol, cast

from mainstem.model.endpoints import UNKNOWN, Endpoints
from mainstem.model.peer import Peer
from mainstem.model.speaking import SPEAKER
from mainstem.transport.carrier import Carrier, endpoints_of
from mainstem.transport.receive_buffer import WAITING_BYTES_MAX, ChunkPool, ReceiveBuffer

if TYPE_CHECKING:
    from mainstem.transport.session import OpenSession, Session
    from mainstem.transport.turns import Turns

log = logging.getLogger(__name__)

RATE_SHARE = 0.3
"""How much the newest second counts in a rate; the rest is what it was before."""


class Traffic:
    """What went through the connections of a listener."""

    __slots__ = ("accepted", "failed", "handshakes_failed", "received_bytes", "reclaimed", "refused", "sent_bytes")

    def __init__(self) -> None:
        self.handshakes_failed = 0
        self.accepted = 0
        self.refused = 0
        self.reclaimed = 0
        self.failed = 0
        self.received_bytes = 0
        self.sent_bytes = 0


class Owner(Protocol):
    """What a connection needs of its listener."""

    name: str
    protocol: str
    traffic: Traffic
    chunks: ChunkPool
    turns: Turns
    open_session: OpenSession
    write_buffer_bytes_max: int

    @property
    def beat(self) -> int:
        """Counts the listener's rounds; stamps activity more cheaply than a clock."""

    def admit(self, connection: Connection) -> bool:
        """Whether one more connection is within the limit; it is counted then."""

    def forget(self, connection: Connection) -> None:
        """The connection is gone."""


class Connection(asyncio.BufferedProtocol):
    """Receive, let the session work, send; stop receiving while the peer does not read or the session is full."""

    def __init__(self, owner: Owner, loop: asyncio.AbstractEventLoop) -> None:
        self.id = ""
        """By which people know it; given by the listener."""
        self.protocol = owner.protocol
        self.endpoints = UNKNOWN
        self.opened_ms = int(time.time() * 1000)
        self.received_bytes = 0
        self.sent_bytes = 0
        self.received_rate = 0.0
        """Bytes in a second, of the last few."""
        self.sent_rate = 0.0
        self._rated = (0, 0, 0.0)
        """Bytes received and sent when the rates were taken, and when that was."""
        self.ends_beat: int | None = None
        """When it is cut, because it was told to end."""
        self._owner = owner
        self._loop = loop
        self._turns = owner.turns
        self._is_in_line = False
        """Whether there is input that waits for its turn."""
        self._buffer = ReceiveBuffer(owner.chunks)
        self._transport: Carrier
        self._session: Session | None = None
        self._lost_session: Session | None = None
        """The session of a connection that is gone, until it had the turn to let go of what it has."""
        self._reading = True
        self._write_paused = False
        self._wake_scheduled = False
        self._input_ended = False
        self._closing = False
        self.active_beat = owner.beat
        """When bytes last moved, in either direction."""

    # What the event loop calls ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket itself carries the bytes."""
        self.begin(cast(asyncio.Transport, transport), endpoints_of(transport, self._owner.name))

    def begin(self, carrier: Carrier, endpoints: Endpoints) -> None:
        """Open a session, or refuse the connection when there are too many."""
        self._transport = carrier
        if not self._owner.admit(self):
            self._closing = True
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=self._owner.write_buffer_bytes_max)
        self.endpoints = endpoints
        self._session = self._owner.open_session(self._wake, self.endpoints)
        self._proceed()  # Some protocols let the server speak first.

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes are to be put. `sizehint` is a fixed guess; the session knows better."""
        session = self._session
        return self._buffer.space(session.input_wanted or 1 if session is not None else 1)

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        self.take_in(nbytes)

    def take_in(self, nbytes: int, *, has_turn: bool = False) -> None:
        """Bytes are in the buffer; who decrypted them may have the turn already."""
        owner = self._owner
        owner.traffic.received_bytes += nbytes
        self.received_bytes += nbytes
        if self._closing:
            self._buffer.settle()
            return  # Lingering: what still comes is read, and dropped.
        self.active_beat = owner.beat
        self._buffer.received(nbytes)
        if self._is_in_line:
            self._adjust_reading(cast("Session", self._session))  # One read is enough to wait with.
        else:
            self._proceed(has_turn=has_turn)

    def let_chunk_go(self) -> None:
        """No bytes have come after all: hold no chunk for them."""
        self._buffer.settle()

    def eof_received(self) -> bool:
        """The peer has ended its half; stay open while the session has something to say."""
        self._input_ended = True
        session = self._session
        if session is None or self._closing:
            return False
        if self._is_in_line:
            return True  # What has come is dealt with first.
        session.input_ended()
        self._proceed()
        return not session.finished

    def take_turn(self) -> None:
        """Go on with input that had to wait."""
        self._is_in_line = False
        if self._lost_session is not None:
            self._let_go()
            return
        session = self._session
        if session is None or self._closing:
            return
        self._proceed(has_turn=True)
        if self._input_ended and not self._is_in_line and not self._closing and not session.finished:
            session.input_ended()
            self._proceed()

    def pause_writing(self) -> None:
        """The peer does not read: neither do we, so that its requests cannot pile up answers here."""
        self._write_paused = True
        self.active_beat = self._owner.beat
        if self._session is not None:
            self._session.output_paused()
            self._adjust_reading(self._session)

    def resume_writing(self) -> None:
        """The peer has read."""
        self._write_paused = False
        self.active_beat = self._owner.beat
        if self._session is not None:
            self._session.output_resumed()
            self._proceed()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything. The end of a session is work, too: where many end at once, they take turns."""
        self._closing = True
        self._lost_session, self._session = self._session, None
        self._turns.leave(self)
        self._buffer.clear()
        if self._lost_session is None:
            self._owner.forget(self)
        elif self._turns.may_work(self):
            self._let_go()

    def _let_go(self) -> None:
        session, self._lost_session = self._lost_session, None
        assert session is not None
        try:
            session.closed()
        except Exception:
            # A bug of ours: the connections that wait for their turn behind this one must still have it.
            self._owner.traffic.failed += 1
            log.exception("a session failed at its end")
        finally:
            self._owner.forget(self)

    # What the listener calls -----------------------------------------------------------------------------------------

    def time_passed(self, now: float) -> None:
        """Hand the time on to the session, which wakes us if that moved it."""
        self._buffer.settle(WAITING_BYTES_MAX)
        self._take_rates(now)
        if self._session is not None and not self._closing:
            self._session.time_passed(now)

    def _take_rates(self, now: float) -> None:
        received, sent, before = self._rated
        self._rated = (self.received_bytes, self.sent_bytes, now)
        if before and now > before:
            elapsed = now - before
            self.received_rate += RATE_SHARE * ((self.received_bytes - received) / elapsed - self.received_rate)
            self.sent_rate += RATE_SHARE * ((self.sent_bytes - sent) / elapsed - self.sent_rate)

    @property
    def peer(self) -> Peer | None:
        """Who the session says its client is."""
        return getattr(self._session, "peer", None)

    @property
    def is_open(self) -> bool:
        """Whether it serves its client."""
        return self._session is not None and not self._closing

    def end(self, within_beats: int) -> None:
        """Finish what is in flight and close, as at the end of the broker; cut after a time."""
        if self.ends_beat is None:
            self.ends_beat = self._owner.beat + within_beats
            self.drain()

    def drain(self) -> None:
        """Finish what is in flight, then close."""
        if self._session is not None and not self._closing:
            self._session.drain()
            self._proceed()

    def reclaim(self) -> None:
        """Close an idle connection; one whose peer does not read is cut."""
        if self._lost_session is not None:
            return
        if self._transport.get_write_buffer_size():
            self.abort()
        else:
            self._closing = True
            self._transport.close()

    def abort(self) -> None:
        """Close now; what was not sent is lost."""
        if self._lost_session is not None:
            return
        self._closing = True
        self._transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether silence is the peer's: nothing is owed to it, or it does not take what it is owed."""
        if self._lost_session is not None:
            return False
        return self._write_paused or self._session is None or not self._session.busy

    @property
    def is_lingering(self) -> bool:
        """Whether all was said, sent and acknowledged to the kernel, and only the peer's end is awaited."""
        return self._closing and self._lost_session is None and self._transport.get_write_buffer_size() == 0

    # -----------------------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        # Folded into one write however many answers come in this turn of the loop; and never a call from within the
        # session back into it.
        if not self._wake_scheduled:
            self._wake_scheduled = True
            self._loop.call_soon(self._woken)

    def _woken(self) -> None:
        self._wake_scheduled = False
        if self._session is not None and not self._closing:
            self._proceed()

    def _proceed(self, *, has_turn: bool = False) -> None:
        """Let the session work as far as input and output allow, and send what it says."""
        session = self._session
        assert session is not None
        try:
            spoke = self._send(session)
            spoke |= self._pump(session, has_turn=has_turn)
        except Exception:
            SPEAKER.set(None)
            # A bug of ours met by this peer's bytes: it costs this connection, not the broker.
            self._owner.traffic.failed += 1
            log.exception("a session failed; its connection is closed")
            self.abort()
            return
        if session.finished:
            self._finish(spoke)
        else:
            self._adjust_reading(session)

    def _pump(self, session: Session, *, has_turn: bool) -> bool:
        buffer = self._buffer
        spoke = False
        while not self._write_paused and not session.finished and not self._is_in_line:
            wanted = session.input_wanted
            size = len(buffer)
            if wanted is None or size < wanted:
                break
            if not has_turn:
                has_turn = self._turns.may_work(self)
                if not has_turn:
                    self._is_in_line = True
                    break
            speaking = SPEAKER.set(self)
            consumed = session.data_received(buffer.view())
            SPEAKER.reset(speaking)
            buffer.consume(consumed)
            if self._send(session):
                spoke = True
            elif not consumed and session.input_wanted != 0:
                wanted = session.input_wanted
                assert session.finished or wanted is None or wanted > size, "neither progress nor a reason to wait"
                break
            if self._turns.is_over():
                has_turn = False
        buffer.settle()
        return spoke

    def _send(self, session: Session) -> bool:
        output = session.take_output()
        if not output:
            return False
        owner = self._owner
        size = sum(map(len, output))
        owner.traffic.sent_bytes += size
        self.sent_bytes += size
        self.active_beat = owner.beat
        self._transport.writelines(output)
        return True

    def _adjust_reading(self, session: Session) -> None:
        reading = session.input_wanted is not None and not self._write_paused and not self._is_in_line
        if reading != self._reading and not self._closing and not self._input_ended:
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _finish(self, spoke: bool) -> None:
        """Close, in a way that lets the last words arrive.

        Closing a socket with unread input makes the kernel reset the connection, and the peer may lose an answer
        that is under way (RFC 9112, 9.6). So after last words our half is ended first, and the peer's is read until it
        ends too; the listener bounds how long that may take.
        """
        if self._closing:
            return
        self._closing = True
        self.active_beat = self._owner.beat
        self._buffer.clear()
        if self._input_ended or not spoke or not self._transport.can_write_eof():
            self._transport.close()
            return
        self._transport.write_eof()
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()
