"""A STOMP session in front of a broker that says what it was told, at once or when settled."""

from collections.abc import Callable

from mainstem.protocols.stomp.codec.frames import Head, encode_frame
from mainstem.protocols.stomp.errors import StompError
from mainstem.protocols.stomp.session.machine import StompSession
from mainstem.protocols.stomp.session.settings import StompSettings
from mainstem.transport.session import Wake

SETTINGS = StompSettings(head_bytes_max=2_048, headers_max=16, message_bytes_max=10_000)


class StubConnection:
    """The broker's side of a session, without a broker."""

    is_to_stop = False
    has_rest = False
    is_in_use = False

    def __init__(self, session: StompSession, owed: list[Callable[[], None]] | None) -> None:
        self.session = session
        self.owed = 0
        self._later = owed

    def _owe(self, answer: Callable[[], None], size: int = 0) -> None:
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

    def log_in(self, head: Head | None) -> None:
        assert head is not None
        if head.headers.get("passcode") != "guest":
            raise StompError("Bad CONNECT", "Access refused for user")
        self.session.connected("1.2", 0, 0)
        self.session.say(encode_frame("CONNECTED", [("version", "1.2")]))

    def frame_received(self, head: Head, body: bytes) -> None:
        headers = [("command", head.command), *head.headers.items()]
        if head.command == "BEGIN":
            self.session.hold()

            def answer() -> None:
                self.session.say(encode_frame("RECEIPT", headers, body))
                self.session.release()

            self._owe(answer)
        else:
            self._owe(lambda: self.session.say(encode_frame("RECEIPT", headers, body)), len(body))

    def leave_for_later(self, head: Head, body: bytes) -> None: ...

    def take_rest(self) -> None: ...

    def stop_publishing(self) -> None: ...

    def pass_ended(self) -> None: ...

    def output_taken(self) -> None: ...

    def output_paused(self) -> None: ...

    def time_passed(self, now: float) -> None: ...

    def lost(self) -> None: ...


class StubBroker:
    """Answers at once, or when settled."""

    def __init__(self, *, is_late: bool) -> None:
        self._later: list[Callable[[], None]] | None = [] if is_late else None

    def open(self, wake: Wake) -> StompSession:
        return StompSession(wake, SETTINGS, lambda session: StubConnection(session, self._later))

    def settle(self) -> None:
        if self._later is not None:
            owed, self._later[:] = list(self._later), []
            for answer in owed:
                answer()


OPENING = b"CONNECT\naccept-version:1.0,1.1,1.2\nlogin:guest\npasscode:guest\n\n\0"
CONVERSATION = (
    b"\n\r\nSEND\ndestination:/queue/a\n\nhello\0\n"
    b"SEND\r\ndestination:/queue/a\r\ncontent-length:5\r\nown:a\\cb\\\\\\n\\r\r\n\r\na\0b\n\n\0"
    b"SEND\ndestination:/queue/a\n\nhello\0"
    b"BEGIN\ntransaction:t\n\n\0\0"
    b"SEND\ndestination:/queue/b\ncontent-length:0\n\n\0"
    b"SEND\ndestination:/queue/b\ncontent-length:300\n\n" + b"x" * 300 + b"\0\n"
)
OVERSIZE = (
    b"CONNECT\ncontent-length:99999999999\n\n",
    b"CONNECT\n" + b"a:b\n" * 65 + b"\n",
    b"CONNECT\na:" + b"x" * 9_000,
    b"x" * 9_000,
    OPENING + b"SEND\ncontent-length:10001\n\n",
    OPENING + b"SEND\n\n" + b"x" * 10_001,
    OPENING + b"SEND\na:" + b"x" * 2_048,
    OPENING + b"SEND\n" + b"a:b\n" * 17 + b"\n",
    OPENING + b"SEND\ncontent-length:-1\n\n",
)
