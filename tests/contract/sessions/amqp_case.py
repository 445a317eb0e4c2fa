"""An AMQP session in front of a broker that answers every method at once, or when settled."""

import functools
from collections.abc import Callable
from typing import Any

from mainstem.protocols.amqp.codec.field_table import Field, Table
from mainstem.protocols.amqp.codec.framing import HEARTBEAT_FRAME, METHOD, encode_content, encode_frame
from mainstem.protocols.amqp.codec.methods import Method, encode_method
from mainstem.protocols.amqp.errors import ChannelError, fail
from mainstem.protocols.amqp.session import AmqpSession, AmqpSettings
from mainstem.transport.session import Wake

FRAME_MAX = 4_096
SETTINGS = AmqpSettings(frame_bytes_max=8_192, message_bytes_max=10_000)


class StubChannel:
    """Says what it was told: each message, acknowledgement and method is answered by one frame."""

    def __init__(self, stub: "StubConnection", number: int) -> None:
        self._stub = stub
        self._number = number
        self._published = 0

    def publish(self, method: bytes, properties: bytes, bodies: list[bytes]) -> bool:
        for body in bodies:
            self._published += 1
            self._say(f"published {self._published}", len(body))
        return False

    def acknowledge(self, tags: list[int]) -> bool:
        for tag in tags:
            self._say(f"ack {tag} 0")
        return False

    def acknowledge_until(self, tag: int) -> bool:
        return self._say(f"ack {tag} 1")

    def reject(self, tag: int, bits: int) -> bool:
        return self._say(f"reject {tag} {bits}")

    def nack(self, tag: int, bits: int) -> bool:
        return self._say(f"nack {tag} {bits}")

    def _say(self, what: str, size: int = 0) -> bool:
        send = functools.partial(self._stub.session.send, self._number, "basic.cancel", consumer_tag=what)
        self._stub.owe(send, size)
        return False

    def refuse_size(self, body_bytes: int) -> bool:
        self._stub.session.fail(ChannelError(406, f"{body_bytes} bytes"), self._number)
        return True

    def method_received(self, method: Method) -> None:
        session = self._stub.session
        session.hold()

        def answer() -> None:
            if method.name == "queue.declare":
                session.send(self._number, "queue.declare-ok", queue=method["queue"])
            else:
                session.fail(ChannelError(404, f"no {method.name}"), self._number)
            session.release()

        self._stub.owe(answer)

    def close(self, done: Callable[[], None]) -> None:
        self._stub.owe(done)


class StubConnection:
    """The broker's side of a session, without a broker."""

    def __init__(self, session: AmqpSession, owed: list[Callable[[], None]] | None) -> None:
        self.session = session
        self.owed = 0
        self.is_to_stop = False
        self.has_rest = False
        self._later = owed

    def owe(self, answer: Callable[[], None], size: int = 0) -> None:
        self.owed += 1
        self.session.in_flight_bytes += size

        def settle() -> None:
            self.owed -= 1
            answer()
            self.session.settled(size)

        if self._later is None:
            settle()
        else:
            self._later.append(settle)

    def properties(self) -> Table:
        return {"product": Field("longstr", b"stub")}

    def login(self, mechanism: str, response: bytes, done: Callable[[bool], None]) -> None:
        done(response == b"\0guest\0guest")

    def mechanisms(self) -> list[str]:
        return ["PLAIN"]

    def update_secret(self, secret: bytes, done: Callable[[bool], None]) -> None:
        done(True)

    def open_host(self, name: str) -> None:
        if name != "/":
            fail(530, f"vhost {name} not found")

    def open_channel(self, number: int) -> StubChannel:
        return StubChannel(self, number)

    def close(self, done: Callable[[], None]) -> None:
        self.owe(done)

    def lost(self) -> None: ...

    def publish_rest(self) -> None: ...

    def stop_publishing(self) -> None: ...

    def pass_ended(self) -> None: ...

    def output_taken(self) -> None: ...

    def output_paused(self) -> None: ...

    def time_passed(self, now: float) -> None: ...


class StubBroker:
    """Answers at once."""

    later: list[Callable[[], None]] | None = None

    def open(self, wake: Wake) -> AmqpSession:
        return AmqpSession(wake, SETTINGS, lambda session: StubConnection(session, self.later))

    def settle(self) -> None: ...


class LateBroker(StubBroker):
    """Answers when settled."""

    def __init__(self) -> None:
        self.later = []

    def settle(self) -> None:
        owed, self.later[:] = list(self.later or ()), []
        for answer in owed:
            answer()


def method(name: str, channel: int = 1, **arguments: Any) -> bytes:
    return encode_frame(METHOD, channel, encode_method(name, **arguments))


def message(body: bytes, channel: int = 1) -> bytes:
    return method("basic.publish", channel, routing_key="q") + encode_content(channel, b"\0\0", body, FRAME_MAX - 8)


OPENING = b"".join(
    (
        b"AMQP\x00\x00\x09\x01",
        method("connection.start-ok", 0, mechanism="PLAIN", response=b"\0guest\0guest", locale="en_US"),
        method("connection.tune-ok", 0, channel_max=100, frame_max=FRAME_MAX, heartbeat=60),
        method("connection.open", 0, virtual_host="/"),
    )
)
CONVERSATION = b"".join(
    (
        method("channel.open"),
        method("channel.open", 2),
        method("queue.declare", queue="q", durable=True),
        message(b"one"),
        HEARTBEAT_FRAME,
        message(b""),
        message(b"three", 2),
        method("basic.ack", delivery_tag=7),
        method("basic.nack", delivery_tag=8, multiple=True),
        method("basic.reject", delivery_tag=9, requeue=True),
        method("queue.purge", 2),
        message(b"too late", 2),
        method("channel.close", 2),
        method("channel.close-ok", 2),
        method("channel.close"),
    )
)
OVERSIZE = (
    OPENING + b"\x01\x00\x01\x00\x00\x20\x00\x00",
    OPENING + b"\x01\x00\x01\xff\xff\xff\xff\x00",
    OPENING + method("channel.open")[:-1] + b"\0",
    OPENING + encode_frame(9, 0, b""),
)
