"""A protocol of lines, whole in this file: what a new protocol adds, and that it needs no other file. CONTRIBUTING shows it.

client                    server
PUB queue text            OK, once it is durable
SUB queue credit          OK; then MSG tag text for each message, at most `credit` that are not settled
ACK tag                   OK, once it is durable
WILL queue text           OK; the text is published when the connection ends without QUIT
QUIT                      BYE
anything else             ERR reason, and the connection is closed
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.queues import HOLD, TAKEN, Message, Queue, encode_headers
from mainstem.model.endpoints import UNKNOWN, Endpoints

NAME = "toy"
HEADERS = encode_headers([])


class ToySettings(msgspec.Struct, frozen=True, kw_only=True):
    """A field here is a setting: `toy.line_bytes_max`."""

    line_bytes_max: int = 1_000


class ToyError(Exception):
    """What a client said wrong."""


def decode_lines(data: bytes, line_bytes_max: int) -> tuple[list[list[str]], int]:
    """Codec: whole lines as words, and how many bytes they were. Raises ToyError."""
    *lines, rest = data.split(b"\n")
    if any(len(line) > line_bytes_max for line in (*lines, rest)):
        raise ToyError("line too long")
    try:
        return [line.decode().rstrip("\r").split(" ", 2) for line in lines], len(data) - len(rest)
    except UnicodeDecodeError:
        raise ToyError("not UTF-8") from None


class ToySession:
    """State machine of one connection: pure. Whatever it is asked to do, the handlers do."""

    def __init__(
        self, wake: Callable[[], None], settings: ToySettings, connect: Callable[[ToySession], Handlers]
    ) -> None:
        self.input_wanted: int | None = 1
        self.finished = False
        self.owed = 0
        self._wake = wake
        self._line_bytes_max = settings.line_bytes_max
        self._output: list[bytes] = []
        self._handlers = connect(self)

    @property
    def busy(self) -> bool:
        return self.owed > 0

    def data_received(self, data: memoryview) -> int:
        try:
            lines, used = decode_lines(bytes(data), self._line_bytes_max)
            for words in lines:
                if not self.finished:
                    self._handlers.handle(words)
        except ToyError as error:
            self.end(f"ERR {error}")
            return len(data)
        self.input_wanted = len(data) - used + 1
        return used

    def say(self, line: str) -> None:
        """Answer, or push unasked: both are output, and a wake."""
        self._output.append(line.encode() + b"\n")
        self._wake()

    def end(self, line: str) -> None:
        self.say(line)
        self.finished = True

    def take_output(self) -> list[bytes]:
        output, self._output = self._output, []
        return output

    def input_ended(self) -> None:
        self.finished = True

    def output_paused(self) -> None:
        self._handlers.pause(True)

    def output_resumed(self) -> None:
        self._handlers.pause(False)

    def time_passed(self, now: float) -> None: ...

    def drain(self) -> None:
        self.end("BYE")

    def closed(self) -> None:
        self._handlers.closed()


class Handlers:
    """What the lines of one connection do to the broker; itself the consumer of its queue."""

    priority, room_bytes, is_exclusive = 0, -1, False

    def __init__(self, broker: Broker, session: ToySession) -> None:
        self._queues = broker.queues
        self._session = session
        self._queue: Queue | None = None
        self._held: dict[int, Message] = {}
        self._credit = self._tag = 0
        self._is_paused = False
        self._will: tuple[Queue, bytes] | None = None

    @property
    def room(self) -> int:
        return 0 if self._is_paused else self._credit - len(self._held)

    def handle(self, words: list[str]) -> None:
        match words:
            case ["PUB", name, text]:
                if self._queues.outbox.put([self._find(name)], HEADERS, text.encode()) not in (TAKEN, HOLD):
                    raise ToyError("queue is full")
                self._answer_when_durable()
            case ["SUB", name, credit] if self._queue is None and credit.isdecimal():
                self._queue, self._credit = self._find(name), int(credit)
                self._session.say("OK")
                self._queue.attach(self)
            case ["ACK", tag] if tag.isdecimal() and int(tag) in self._held:
                self._queues.settling.settle([self._held.pop(int(tag))])
                self._answer_when_durable()
                assert self._queue is not None
                self._queue.wake()
            case ["WILL", name, text]:
                self._will = self._find(name), text.encode()
                self._session.say("OK")
            case ["QUIT"]:
                self._will = None
                self._session.end("BYE")
            case _:
                raise ToyError("what?")

    def _find(self, name: str) -> Queue:
        queue = self._queues.find(DEFAULT_NAMESPACE, name)
        if queue is None:
            raise ToyError(f"no queue {name}")
        return queue

    def _answer_when_durable(self) -> None:
        self._session.owed += 1

        def answer(_: object, error: BaseException | None) -> None:
            self._session.owed -= 1
            self._session.say("OK" if error is None else f"ERR {error}")

        self._queues.outbox.when_durable(answer, None)

    def pause(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        if self._queue is not None:
            self._queue.wake()

    def closed(self) -> None:
        """The connection is gone: publish the will, give back what is held, leave the queue."""
        if self._will is not None:
            queue, text = self._will
            self._queues.outbox.put([queue], HEADERS, text)
        if self._queue is not None:
            self._queue.detach(self)
            self._queue.give_back(self._held.values())

    # What the queue calls

    def deliver(self, queue: Queue, messages: list[Message]) -> None:
        for message in messages:
            self._tag += 1
            self._held[self._tag] = message
            self._session.say(f"MSG {self._tag} {bytes(message.value).decode()}")

    def cancelled(self) -> None:
        self._session.end("ERR the queue is gone")

    def activated(self, is_active: bool) -> None: ...


class ToyAdapter:
    def __init__(self, settings: ToySettings, broker: Broker) -> None:
        self._settings = settings
        self._broker = broker

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> ToySession:
        return ToySession(wake, self._settings, lambda session: Handlers(self._broker, session))
