"""Pulsar's binary protocol for the contract suite: a session over a stub that answers at once, or later."""

from collections.abc import Callable
from typing import Any

from mainstem.protocols.pulsar.codec.frames import encode_command, encode_entry, encode_frame
from mainstem.protocols.pulsar.codec.schema import METADATA, Kind, command
from mainstem.protocols.pulsar.session.machine import PulsarSession
from mainstem.transport.session import Wake

MESSAGE_BYTES_MAX = 4_096
ENTRY = encode_entry(METADATA(producer_name="p", sequence_id=1, publish_time=2).SerializeToString(), b"payload" * 50)
CONVERSATION = b"".join(
    bytes(part)
    for frame in (
        encode_command(Kind.CONNECT, client_version="test", protocol_version=21),
        encode_command(Kind.LOOKUP, topic="t", request_id=1),
        encode_frame(command(Kind.SEND, producer_id=1, sequence_id=2), ENTRY),
        encode_command(Kind.FLOW, consumer_id=1, messagePermits=5),
        encode_command(Kind.PING),
        encode_frame(command(Kind.SEND, producer_id=1, sequence_id=3), ENTRY),
    )
    for part in frame
)
OVERSIZE = (
    b"\xff\xff\xff\xff",
    b"\x00\x00\x38\x01",
    b"\x00\x00\x00\x03",
    b"\x00\x00\x00\x08\x00\x00\x00\x05abcd",
    b"\x00\x00\x00\x08\x00\x00\x00\x04\xff\xff\xff\xff",
)


class Stub:
    """Handlers that repeat what was asked."""

    def __init__(self, session: PulsarSession, later: list[Callable[[], None]] | None) -> None:
        self._session = session
        self._later = later

    def handle(self, said: Any, rest: memoryview) -> None:
        answer = encode_frame(said, bytes(rest))
        if self._later is None:
            self._session.say(answer)
            return
        self._session.owe()

        def give() -> None:
            self._session.say(answer)
            self._session.settle()

        self._later.append(give)

    def pass_ended(self) -> None: ...

    def paused(self, is_paused: bool) -> None: ...

    def closed(self) -> None: ...


class StubBroker:
    """Opens sessions."""

    def __init__(self, *, is_late: bool) -> None:
        self._later: list[Callable[[], None]] | None = [] if is_late else None

    def open(self, wake: Wake) -> PulsarSession:
        return PulsarSession(wake, MESSAGE_BYTES_MAX, lambda session: Stub(session, self._later))

    def settle(self) -> None:
        if self._later:
            waiting = self._later[:]
            self._later.clear()
            for call in waiting:
                call()
