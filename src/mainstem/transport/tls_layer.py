"""TLS between a connection and its socket, over `ssl.SSLObject` and two memory buffers that never grow large.

The event loop's own TLS is not used: with it each connection that has once received a mebibyte keeps half a mebibyte for good.
Here ciphertext is read into one chunk that all connections of a listener share, fed to OpenSSL in pieces of about a record,
and decrypted straight into the connection's receive chunk. What is to be sent is encrypted piece by piece as the socket takes
it, so that a large answer waits as what it is, not as a second copy.

A handshake costs about a millisecond. So handshakes take turns with all other work, their number and time are limited, and
a connection that says nothing costs no TLS state at all.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, cast

from mainstem.model.endpoints import ClientCertificate, Endpoints
from mainstem.transport.carrier import endpoints_of

if TYPE_CHECKING:
    from mainstem.transport.connection import Connection
    from mainstem.transport.turns import Turns

log = logging.getLogger(__name__)

CIPHERTEXT_CHUNK_BYTES = 32 << 10
"""What one read of a socket takes at most."""
FED_BYTES = 16 << 10
"""What OpenSSL gets of it at a time: the memory of its input grows to about twice this, for good."""
SEALED_BYTES = 16 << 10
"""What is encrypted at a time: one record. The memory of OpenSSL's output grows to a little more than this, for good."""
SENT_BYTES_MAX = 256 << 10
"""Ciphertext that waits for the peer to read; what is beyond it waits as plaintext."""

Data = bytes | bytearray | memoryview


class TlsOwner(Protocol):
    """What the layer needs of its listener."""

    name: str
    turns: Turns
    ciphertext: bytearray
    """Where every connection reads, one at a time."""

    def begin_handshake(self, newcomer: Newcomer) -> bool:
        """Whether one more is within the limits; it is counted, and its time measured, until it ends."""

    def end_handshake(self, newcomer: Newcomer) -> None:
        """It is a connection now, or gone. Said twice, the second time means nothing."""

    def refuse_handshake(self, peer: str, reason: str) -> None:
        """Count one that failed, and tell the operator."""

    def tls_object(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        """A new one, with the certificates that are in force now."""

    def identify(self, certificate: bytes) -> ClientCertificate:
        """Who that is. Raises ValueError."""


class Newcomer(Protocol):
    """A connection that serves no client yet."""

    def give_up(self, reason: str) -> None:
        """Close, and say why to the operator."""


class TlsLayer(asyncio.BufferedProtocol):
    """To the socket a protocol, to the connection the carrier of its bytes."""

    __slots__ = (
        "_closing",
        "_connection",
        "_endpoints",
        "_eof_asked",
        "_failed",
        "_goodbye_said",
        "_held",
        "_high",
        "_incoming",
        "_input_ended",
        "_is_in_line",
        "_is_open",
        "_loop",
        "_low",
        "_outgoing",
        "_owner",
        "_queue",
        "_queued",
        "_tls",
        "_told_paused",
        "_transport",
        "_waiting",
        "_write_blocked",
    )

    def __init__(
        self,
        owner: TlsOwner,
        connection: Connection,
        loop: asyncio.AbstractEventLoop,
        endpoints: Endpoints | None = None,
    ) -> None:
        self._owner = owner
        self._connection = connection
        self._loop = loop
        self._endpoints = endpoints
        self._transport: asyncio.Transport
        self._tls: ssl.SSLObject | None = None
        self._incoming: ssl.MemoryBIO
        self._outgoing: ssl.MemoryBIO | None = None
        self._waiting = b""
        """Ciphertext that came before reading could be stopped."""
        self._queue: deque[Data] | None = None
        """What is to be sent, not encrypted yet."""
        self._queued = 0
        self._high = self._low = 0
        self._is_open = False
        """Whether the handshake is over."""
        self._is_in_line = False
        self._held = False
        """Whether the connection wants no more bytes."""
        self._write_blocked = False
        self._told_paused = False
        self._input_ended = False
        self._eof_asked = False
        self._goodbye_said = False
        self._closing = False
        self._failed = False

    # What the event loop calls ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the peer to begin."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=SENT_BYTES_MAX)
        if self._endpoints is None:
            self._endpoints = endpoints_of(transport, self._owner.name)
        if not self._owner.begin_handshake(self):
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next ciphertext is to be put; it is used at once."""
        return memoryview(self._owner.ciphertext)

    def buffer_updated(self, nbytes: int) -> None:
        """Ciphertext has come."""
        self.feed(memoryview(self._owner.ciphertext)[:nbytes])

    def feed(self, data: memoryview) -> None:
        """Decrypt as much as the connection wants to have."""
        if self._failed or self._goodbye_said or self._input_ended:
            return  # Only the peer's end is awaited.
        if self._waiting or self._is_in_line:
            self._keep(data)
        elif not self._owner.turns.may_work(self):
            # It waits as ciphertext, which needs less room than a receive chunk.
            self._is_in_line = True
            self._keep(data)
        else:
            self._process(data)

    def eof_received(self) -> bool:
        """The peer has ended its half, without saying so in TLS."""
        if not self._is_open or self._failed:
            return False
        self._end_input()
        return not self._failed

    def pause_writing(self) -> None:
        """The socket takes no more ciphertext."""
        self._write_blocked = True

    def resume_writing(self) -> None:
        """The socket takes ciphertext again."""
        self._write_blocked = False
        self._flush(may_resume=True)

    def take_turn(self) -> None:
        """Go on with a handshake, or with a large answer, after the others."""
        self._is_in_line = False
        if self._failed:
            return
        if not self._held:
            self._go_on(has_turn=True)
        if self._is_open:
            self._flush(may_resume=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything."""
        self._owner.turns.leave(self)
        self._owner.end_handshake(self)
        was_open, failed, has_begun = self._is_open, self._failed, self._tls is not None
        self._failed = True
        self._queue, self._queued, self._waiting, self._tls = None, 0, b"", None
        if was_open:
            self._connection.connection_lost(exc)
        elif not failed and has_begun and self._endpoints is not None:
            self._owner.refuse_handshake(self._endpoints.peer, "the client broke it off")

    # What the connection calls ---------------------------------------------------------------------------------------

    def writelines(self, list_of_data: Iterable[Data]) -> None:
        """Encrypt and send as much as the socket takes; the rest waits."""
        if self._failed or self._goodbye_said:
            return
        queue = self._queue
        if queue is None:
            queue = self._queue = deque()
        for data in list_of_data:
            if len(data):
                queue.append(data)
                self._queued += len(data)
        self._flush(may_resume=False)

    def get_write_buffer_size(self) -> int:
        """Bytes that wait, encrypted or not."""
        return self._queued + self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When the connection is told that the peer does not read."""
        assert high is not None
        self._high, self._low = high, high // 4 if low is None else low
        self._transport.set_write_buffer_limits(high=min(high, SENT_BYTES_MAX))

    def pause_reading(self) -> None:
        """What has been decrypted is enough."""
        self._held = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Bring more, but not from within this call."""
        self._held = False
        self._loop.call_soon(self._go_on)

    def can_write_eof(self) -> bool:
        """TLS can: our close_notify ends our half alone."""
        return True

    def write_eof(self) -> None:
        """Say close_notify when all was sent, and end our half."""
        self._eof_asked = True
        self._flush(may_resume=False)

    def close(self) -> None:
        """Say close_notify when all was sent, and close."""
        if not self._is_open:
            self._transport.close()
            return
        self._closing = True
        if not self._transport.is_closing():
            self._transport.pause_reading()
        self._flush(may_resume=False)

    def abort(self) -> None:
        """Close now."""
        self._failed = True
        self._transport.abort()

    # What the listener calls -----------------------------------------------------------------------------------------

    def give_up(self, reason: str) -> None:
        """End a handshake."""
        self._fail(reason)

    # Receiving -------------------------------------------------------------------------------------------------------

    def _keep(self, data: memoryview) -> None:
        """Wait with it, and take no more: what is kept is at most one read."""
        self._waiting += data
        self._transport.pause_reading()

    def _go_on(self, *, has_turn: bool = False) -> None:
        """With what was kept; and read again when all of it was used."""
        if self._held or self._failed or self._is_in_line or self._closing:
            return
        if not has_turn and not self._owner.turns.may_work(self):
            self._is_in_line = True
            return
        waiting, self._waiting = self._waiting, b""
        if not self._goodbye_said and not self._input_ended:
            self._process(memoryview(waiting))
        if not (self._held or self._failed or self._waiting or self._closing or self._is_in_line):
            self._transport.resume_reading()

    def _process(self, data: memoryview) -> None:
        """Feed OpenSSL, and hand on what it gives."""
        place, size = 0, len(data)
        if not self._is_open:
            if self._tls is None:
                self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                self._tls = self._owner.tls_object(self._incoming, self._outgoing)
            while not self._is_open and place < size and not self._failed:
                self._incoming.write(data[place : place + FED_BYTES])
                place += FED_BYTES
                self._shake_hands()
        if self._is_open:
            place += self._decrypt(data[place:])
        if place < size and not (self._failed or self._input_ended or self._closing):
            self._keep(data[place:])

    def _shake_hands(self) -> None:
        """One step, and after the last one the connection begins."""
        tls = self._tls
        assert tls is not None
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_sealed()
            return
        except ssl.SSLError as error:
            self._fail(_reason(error))
            return
        self._send_sealed()
        assert self._endpoints is not None
        shown = tls.getpeercert(binary_form=True)
        try:
            certificate = self._owner.identify(shown) if shown else None
        except ValueError as error:
            self._fail(f"the client's certificate cannot be understood: {error}")
            return
        self._is_open = True
        self._owner.end_handshake(self)
        self._connection.begin(self, self._endpoints._replace(is_encrypted=True, certificate=certificate))

    def _decrypt(self, data: memoryview) -> int:
        """Give the connection what can be decrypted, in one piece where its chunk has room; answers how much was fed."""
        tls, incoming, connection = self._tls, self._incoming, self._connection
        assert tls is not None
        place, size = 0, len(data)
        ended, is_starved, has_more = False, False, True
        while has_more and not (self._held or self._failed or self._closing or ended):
            room = connection.get_buffer(-1)
            filled, space = 0, len(room)
            try:
                while filled < space:
                    if not is_starved and (incoming.pending or tls.pending()):
                        try:
                            count = cast(int, tls.read(space - filled, room[filled:]))
                        except ssl.SSLWantReadError:
                            is_starved = True  # There is only a part of a record.
                            continue
                        if not count:
                            ended = True
                            break
                        filled += count
                    elif place < size:
                        incoming.write(data[place : place + FED_BYTES])
                        place = min(place + FED_BYTES, size)
                        is_starved = False
                    else:
                        has_more = False
                        break
            except ssl.SSLZeroReturnError:
                ended = True
            except ssl.SSLError as error:
                room.release()
                connection.let_chunk_go()
                self._fail(_reason(error))
                return size
            room.release()
            if filled:
                connection.take_in(filled, has_turn=True)
            else:
                connection.let_chunk_go()
        if ended:
            self._end_input()
        return place

    def _end_input(self) -> None:
        """The peer says nothing more."""
        if self._input_ended:
            return
        self._input_ended = True
        if not self._connection.eof_received():
            self.close()

    # Sending ---------------------------------------------------------------------------------------------------------

    def _flush(self, *, may_resume: bool) -> None:
        """Encrypt while the socket takes it, and in turn with the others; then end, where that was asked for."""
        queue, tls = self._queue, self._tls
        if self._failed or tls is None:
            return
        if queue:
            is_first = True
            while queue and not self._write_blocked and not self._is_in_line:
                if not is_first and not self._owner.turns.may_work(self):
                    self._is_in_line = True
                    break
                is_first = False
                try:
                    tls.write(self._next_piece(queue))
                except ssl.SSLError as error:
                    self._fail(_reason(error))
                    return
                self._send_sealed()
            self._tell_flow(may_resume=may_resume)
        elif self._told_paused:
            self._tell_flow(may_resume=may_resume)
        if not self._queue:
            self._queue = None
            self._end_if_asked()

    def _next_piece(self, queue: deque[Data]) -> Data:
        """The next record's content. Small buffers are sent together, large ones are cut without a copy."""
        data = queue.popleft()
        size = len(data)
        if size > SEALED_BYTES:
            view = memoryview(data)
            queue.appendleft(view[SEALED_BYTES:])
            self._queued -= SEALED_BYTES
            return view[:SEALED_BYTES]
        if queue and size < SEALED_BYTES:
            parts = [data]
            while queue and size < SEALED_BYTES:
                more = queue.popleft()
                room = SEALED_BYTES - size
                if len(more) > room:
                    view = memoryview(more)
                    queue.appendleft(view[room:])
                    more = view[:room]
                parts.append(more)
                size += len(more)
            data = b"".join(parts)
        self._queued -= size
        return data

    def _tell_flow(self, *, may_resume: bool) -> None:
        waits = self.get_write_buffer_size()
        if not self._told_paused:
            if waits > self._high:
                self._told_paused = True
                self._connection.pause_writing()
        elif may_resume and waits <= self._low:
            self._told_paused = False
            self._connection.resume_writing()

    def _send_sealed(self) -> None:
        outgoing = self._outgoing
        if outgoing is not None and outgoing.pending:
            self._transport.write(outgoing.read())

    def _end_if_asked(self) -> None:
        """Say close_notify. The peer's is not awaited: the connection bounds how long its end may take."""
        if not (self._eof_asked or self._closing):
            return
        if not self._goodbye_said:
            self._goodbye_said = True
            tls = self._tls
            assert tls is not None
            try:
                tls.unwrap()
            except (ssl.SSLError, ValueError):
                pass  # It waits for the peer's, or the peer has broken off.
            self._send_sealed()
            if not self._closing:
                self._transport.write_eof()
        if self._closing:
            self._transport.close()

    def _fail(self, reason: str) -> None:
        """The peer does not keep to TLS, or cannot agree with us: tell it by an alert, and close."""
        if self._failed:
            return
        self._failed = True
        self._queue, self._queued, self._waiting = None, 0, b""
        if self._endpoints is not None:
            self._owner.refuse_handshake(self._endpoints.peer, reason)
        blocked = self._transport.get_write_buffer_size() > 0
        self._send_sealed()
        if blocked:
            self._transport.abort()
        else:
            self._transport.close()


def _reason(error: Exception) -> str:
    """What OpenSSL says, in one line and without its place in a C file."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return str(error) or type(error).__name__
