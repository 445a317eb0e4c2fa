"""RocketMQ's remoting protocol for the contract suite: a session over a stub that answers at once, or later."""

from collections.abc import Callable

from mainstem.protocols.rocketmq.codec.remoting.commands import IS_ANSWER, Command
from mainstem.protocols.rocketmq.session.remoting import RemotingSession
from mainstem.protocols.rocketmq.session.settings import NamesSettings
from mainstem.transport.session import Wake
from tests.support.clients.remoting_client import BINARY, ONE_WAY, frame

SETTINGS = NamesSettings(frame_bytes_max=4_096, requests_in_flight_max=3)
CONVERSATION = b"".join(
    (
        frame(310, 1, {"b": "t", "i": "TAGS\x01a\x02"}, b"body"),
        frame(310, 2, {"b": "t"}, b"body", kind=BINARY),
        frame(15, 3, {"topic": "t"}, flag=ONE_WAY),
        frame(40, 4, flag=1),
        *(frame(11, number, {"queueOffset": number}) for number in range(5, 10)),
        frame(34, 10, body=b"{}" * 100),
    )
)
OVERSIZE = (
    b"\x7f\xff\xff\xff",
    b"\x00\x00\x10\x01",
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x03",
    b"\x00\x00\x00\x05\x00\x00\xff\xff{",
)


class Stub:
    """Handlers that repeat what was asked."""

    def __init__(self, session: RemotingSession, later: list[Callable[[], None]] | None) -> None:
        self._session = session
        self._later = later

    def handle(self, command: Command) -> None:
        if command.is_one_way:
            return
        answer = command._replace(code=0, flag=IS_ANSWER)
        if self._later is None:
            self._session.answer(answer)
        else:
            self._later.append(lambda: self._session.answer(answer))

    def answered(self, command: Command) -> None: ...

    def pass_ended(self) -> None: ...

    def hurry(self) -> None: ...

    def closed(self) -> None: ...


class StubBroker:
    """Opens sessions."""

    def __init__(self, *, is_late: bool) -> None:
        self._later: list[Callable[[], None]] | None = [] if is_late else None

    def open(self, wake: Wake) -> RemotingSession:
        return RemotingSession(wake, SETTINGS, lambda session: Stub(session, self._later))

    def settle(self) -> None:
        if self._later:
            waiting = self._later[:]
            self._later.clear()
            for call in waiting:
                call()
