"""The state machine of one AMQP connection, through the states of `state`.

Methods of a channel are dealt with one after the other. Most are done at once; one that waits for the disk holds the session:
nothing more is read until it is answered, on any channel. Publishing and acknowledging never hold it.

When we close a connection we say why and end: the transport sends it, ends our half, and reads until the peer has
ended its own, so that connection.close-ok need not be awaited here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from mainstem.model.peer import Peer
from mainstem.protocols.amqp.codec.field_table import Table
from mainstem.protocols.amqp.codec.framing import HEARTBEAT_FRAME, METHOD, FrameReader, encode_frame
from mainstem.protocols.amqp.codec.methods import Method, decode_method, encode_method, signature_of
from mainstem.protocols.amqp.errors import AmqpError, ChannelError, ConnectionError_, fail, not_allowed
from mainstem.protocols.amqp.session import handshake
from mainstem.protocols.amqp.session.handshake import PROTOCOL_HEADER
from mainstem.protocols.amqp.session.ports import ConnectionPort, SessionChannel
from mainstem.protocols.amqp.session.settings import FRAME_BYTES_MIN, AmqpSettings
from mainstem.protocols.amqp.session.state import TRANSITIONS, AmqpState
from mainstem.wire.heartbeat import Heartbeat

log = logging.getLogger(__name__)

FRAME_BYTES_BEFORE_TUNING = 8_192
OUTPUT_BYTES_MAX = 256 << 10
"""With so much waiting to be sent, requests and deliveries are left for later."""


HANDSHAKE = frozenset({AmqpState.GREETING, AmqpState.STARTING, AmqpState.TUNING, AmqpState.OPENING})
STATE_METHODS = {
    "connection.start-ok": AmqpState.STARTING,
    "connection.tune-ok": AmqpState.TUNING,
    "connection.open": AmqpState.OPENING,
    "connection.update-secret": AmqpState.RUNNING,
}


class AmqpSession:
    """One connection."""

    def __init__(
        self,
        wake: Callable[[], None],
        settings: AmqpSettings,
        connect: Callable[[AmqpSession], ConnectionPort],
    ) -> None:
        self.input_wanted: int | None = len(PROTOCOL_HEADER)
        self.settings = settings
        self.payload_bytes_max = FRAME_BYTES_MIN - 8
        """What one frame to the peer may hold."""
        self.client_properties: Table = {}
        self.peer = Peer()
        self.capabilities: frozenset[str] = frozenset()
        """What the client says it understands."""
        self.channels: dict[int, SessionChannel] = {}
        self.is_output_paused = False
        self.in_flight_bytes = 0
        """Published, and not durable yet."""
        self.output_bytes = 0
        self._wake = wake
        self._state = AmqpState.GREETING
        self._output: list[bytes | bytearray] = []
        self._closing_channels: set[int] = set()
        self.reader = FrameReader(self.channels, self, settings.message_bytes_max)
        self.reader.payload_bytes_max = FRAME_BYTES_BEFORE_TUNING
        self.heartbeat = Heartbeat()
        self._holds = 0
        self._is_blocked = False
        self._receiving = False
        self._input_ended = False
        self._deadline: float | None = None
        self._farewell: ConnectionError_ | None = None
        self.channel_max = settings.channel_max
        self.connection = connect(self)

    @property
    def frame_bytes_max(self) -> int:
        """As it was agreed on, with the frame's head and end."""
        return self.payload_bytes_max + 8

    # The session contract --------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """All was said."""
        return self._state is AmqpState.ENDED

    @property
    def busy(self) -> bool:
        """An answer is owed, or on an open channel, a delivery."""
        return bool(self._holds or self.connection.owed or self.channels)

    def data_received(self, data: memoryview) -> int:
        """Take as many frames as may be dealt with now."""
        self.heartbeat.heard = True
        self._receiving = True
        used = 0
        try:
            if self._state is AmqpState.GREETING:
                used = handshake.greet(self, bytes(data[: len(PROTOCOL_HEADER)]))
            if self.connection.has_rest and not self._is_waiting():
                self.connection.publish_rest()
                self.connection.pass_ended()
            if not self.connection.has_rest and not self._is_waiting():
                used += self.reader.read(bytes(data[used:] if used else data))
                self.connection.pass_ended()
        except AmqpError as error:
            self.fail(error)
        finally:
            self._receiving = False
        if self._state is AmqpState.ENDED:
            return len(data)
        self._proceed()
        return used

    def take_output(self) -> list[bytes | bytearray]:
        """Frames, in order."""
        output = self._output
        if output:
            self._output = []
            self.output_bytes = 0
            self.heartbeat.spoke = True
            if not self.is_output_paused and self._state is AmqpState.RUNNING:
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
        if self._state is AmqpState.RUNNING:
            self.connection.output_taken()

    def time_passed(self, now: float) -> None:
        """Heartbeats, and the time that a handshake may take."""
        if self._state is AmqpState.ENDED:
            return
        if self.input_wanted is None or self.is_output_paused:
            self.heartbeat.heard = True  # It is we who do not listen.
        if self.heartbeat.is_lost(now):
            log.info("a client missed its heartbeats, its connection is closed")
            self.end()
        elif self._state in HANDSHAKE:
            if self._deadline is None:
                self._deadline = now + self.settings.handshake_timeout_ms / 1000
            elif now >= self._deadline:
                self.end()
        else:
            self.connection.time_passed(now)
            if self.heartbeat.is_due(now) and not self.is_output_paused:
                self.say(HEARTBEAT_FRAME)
        if self.finished:
            self._wake()

    def drain(self) -> None:
        """Finish what is in flight, say why, and end."""
        if self._state is AmqpState.ENDED:
            return
        if self._state is AmqpState.RUNNING:
            self._farewell = ConnectionError_(320, "broker forced connection closure with reason 'shutdown'")
            self.connection.stop_publishing()
            self.enter(AmqpState.CLOSING)
            self._proceed()
        elif self._state is not AmqpState.CLOSING:
            self.end()

    def closed(self) -> None:
        """Give back all that it held."""
        self.end()

    # What the broker side calls --------------------------------------------------------------------------------------

    def say(self, frames: bytes | bytearray) -> None:
        """Send frames."""
        if self._state is not AmqpState.ENDED:
            self._output.append(frames)
            self.output_bytes += len(frames)
            if not self._receiving:
                self._wake()

    def send(self, channel: int, name: str, **arguments: Any) -> None:
        """Send a method."""
        self.say(encode_frame(METHOD, channel, encode_method(name, **arguments)))

    def hold(self) -> None:
        """Deal with nothing more until `release`."""
        self._holds += 1
        self.input_wanted = None

    def release(self) -> None:
        """What was waited for is answered."""
        assert self._holds > 0
        self._holds -= 1
        self._proceed()
        if not self._receiving:
            self._wake()

    def settled(self, published_bytes: int) -> None:
        """So much of what was published is durable, or failed."""
        self.in_flight_bytes -= published_bytes
        self._proceed()
        if not self._receiving and (self.input_wanted is not None or self.finished):
            self._wake()

    def block(self, reason: str | None) -> None:
        """Publishers must wait (None: no longer). They are told if they asked to be."""
        if self._state is not AmqpState.RUNNING or self._is_blocked == (reason is not None):
            return
        self._is_blocked = reason is not None
        if "connection.blocked" in self.capabilities:
            if reason is not None:
                self.send(0, "connection.blocked", reason=reason)
            else:
                self.send(0, "connection.unblocked")
        self._proceed()
        if not self._receiving:
            self._wake()

    def fail(self, error: AmqpError, channel: int = 0, payload: bytes = b"") -> None:
        """Tell the peer what was wrong, and close what the error closes. The payload is that of the guilty method."""
        if self._state is AmqpState.ENDED:
            return
        class_id, method_id = int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")
        reason: dict[str, Any] = {
            "reply_code": error.code,
            "reply_text": error.text,
            "class_id": class_id,
            "method_id": method_id,
        }
        if isinstance(error, ChannelError) and channel in self.channels:
            log.info("channel %d is closed: %s", channel, error.text)
            guilty = self._forget_channel(channel)
            self._closing_channels.add(channel)
            guilty.close(_nothing)
            self.send(channel, "channel.close", **reason)
            return
        log.info("a connection is closed: %s", error.text)
        if self._state in HANDSHAKE and self._state is not AmqpState.OPENING and self._state is not AmqpState.TUNING:
            self.end()  # Nothing is told to who has not said who it is.
            return
        self.send(0, "connection.close", **reason)
        self.end()

    # The frame sink --------------------------------------------------------------------------------------------------

    def is_closing(self, channel: int) -> bool:
        """Whether we closed this channel and the peer has not answered yet."""
        return channel in self._closing_channels

    def method_received(self, channel: int, payload: bytes) -> bool:
        """A method without content."""
        try:
            if channel == 0:
                self._take_connection_method(decode_method(payload))
            elif self._state is not AmqpState.RUNNING:
                fail(505, f"type 1, {len(payload)} octets on channel {channel} before the connection is open")
            elif channel in self._closing_channels:
                self._take_closing(channel, payload)
            elif channel not in self.channels:
                self._open_channel(channel, payload)
            else:
                self._take_channel_method(channel, payload)
        except AmqpError as error:
            self.fail(error, channel, payload)
        return self._is_waiting() or self.connection.is_to_stop

    def _take_connection_method(self, method: Method) -> None:
        name = method.name
        if name == "connection.close":
            self._close_on_request()
        elif STATE_METHODS.get(name) is not self._state:
            fail(504, f"unexpected method in connection state {self._state.value}")
        elif name == "connection.start-ok":
            handshake.log_in(self, method)
        elif name == "connection.tune-ok":
            handshake.tune(self, method)
        elif name == "connection.open":
            handshake.open_host(self, method)
        else:
            handshake.update_secret(self, method)

    def _open_channel(self, number: int, payload: bytes) -> None:
        if signature_of(payload).name != "channel.open":
            fail(504, "expected 'channel.open'")
        decode_method(payload)
        if len(self.channels) >= self.channel_max:
            not_allowed(
                f"number of channels opened ({len(self.channels)}) has reached "
                f"the negotiated channel_max ({self.channel_max})"
            )
        self.channels[number] = self.connection.open_channel(number)
        self.send(number, "channel.open-ok")

    def _take_channel_method(self, number: int, payload: bytes) -> None:
        method = decode_method(payload)
        if method.name == "channel.open":
            fail(504, "second 'channel.open' seen")
        if method.name == "channel.close":
            self.hold()
            channel = self._forget_channel(number)

            def answer() -> None:
                self.send(number, "channel.close-ok")
                self.release()

            channel.close(answer)
        else:
            self.channels[number].method_received(method)

    def _take_closing(self, number: int, payload: bytes) -> None:
        """On a channel that we closed only the peer's assent counts; it may have wanted to close it too."""
        name = signature_of(payload).name
        if name == "channel.close-ok":
            self._closing_channels.discard(number)
        elif name == "channel.close":
            self.send(number, "channel.close-ok")

    def _forget_channel(self, number: int) -> SessionChannel:
        self.reader.forget(number)
        return self.channels.pop(number)

    # Ends ------------------------------------------------------------------------------------------------------------

    def _close_on_request(self) -> None:
        if self._state is not AmqpState.RUNNING:
            self.send(0, "connection.close-ok")
            self.end()
            return
        self.enter(AmqpState.CLOSING)
        self.hold()

        def answer() -> None:
            self.send(0, "connection.close-ok")
            self._holds -= 1
            self.end()
            if not self._receiving:
                self._wake()

        self.connection.close(answer)

    def end(self) -> None:
        """Say nothing more, and give back all that it held."""
        if self._state is AmqpState.ENDED:
            return
        self.enter(AmqpState.ENDED)
        self.input_wanted = None
        self.channels.clear()
        self.connection.lost()

    def enter(self, state: AmqpState) -> None:
        """Go on to this state."""
        assert state in TRANSITIONS[self._state], f"{self._state} -> {state}"
        self._state = state

    # -----------------------------------------------------------------------------------------------------------------

    def _is_waiting(self) -> bool:
        """Whether nothing more may be dealt with now."""
        return (
            self._holds > 0
            or self._is_blocked
            or self.output_bytes >= OUTPUT_BYTES_MAX
            or self._state is AmqpState.CLOSING
            or self._state is AmqpState.ENDED
        )

    def _proceed(self) -> None:
        """Say when to be called next, and end when nothing is left to do."""
        if self._state is AmqpState.ENDED:
            return
        if self._holds or self._is_blocked or self.in_flight_bytes > self.settings.in_flight_bytes_max:
            self.input_wanted = None
        elif self._state is AmqpState.CLOSING:
            self.input_wanted = None
            if not self.connection.owed:
                self._say_farewell()
        elif self.connection.has_rest:
            self.input_wanted = 0
        elif self._input_ended and not self.reader.stopped and not self.connection.owed:
            self.end()
        else:
            self.input_wanted = self.reader.wanted if self._state is not AmqpState.GREETING else len(PROTOCOL_HEADER)

    def _say_farewell(self) -> None:
        farewell = self._farewell
        if farewell is not None:
            self.send(0, "connection.close", reply_code=farewell.code, reply_text=farewell.text)
            self.end()


def _nothing() -> None:
    pass
