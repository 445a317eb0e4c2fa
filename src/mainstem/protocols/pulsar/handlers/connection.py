"""One connection: hands commands to their handlers, and holds the client back while too much waits for the disk."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from mainstem.broker.users.callers import Action, Caller
from mainstem.model.endpoints import Endpoints
from mainstem.model.errors import MainstemError
from mainstem.protocols.pulsar.codec.frames import Buffer, encode_command
from mainstem.protocols.pulsar.codec.schema import FIELDS, UINT64_MAX, Kind
from mainstem.protocols.pulsar.errors import CommandRefused, MalformedFrame, ServerError, code_of
from mainstem.protocols.pulsar.handlers.consuming import PulsarConsumer
from mainstem.protocols.pulsar.handlers.producing import Pass
from mainstem.protocols.pulsar.mapping.names import TopicName
from mainstem.protocols.pulsar.session.machine import PulsarSession

if TYPE_CHECKING:
    from mainstem.protocols.pulsar.handlers.parts import PulsarParts
    from mainstem.protocols.pulsar.handlers.producing import Producer

log = logging.getLogger(__name__)

REASON_CHARACTERS_MAX = 1_000


class PulsarConnection:
    """What the session of one connection calls."""

    def __init__(self, parts: PulsarParts, session: PulsarSession, endpoints: Endpoints) -> None:
        self.parts = parts
        self.session = session
        self.endpoints = endpoints
        self.is_closed = self.is_paused = self.is_connected = False
        self.caller: Caller | None = None
        """Who has logged in."""
        self.producers: dict[int, Producer] = {}
        self.consumers: dict[int, PulsarConsumer] = {}
        self.closed_ids: set[int] = set()
        """Of producers that were closed: what was on its way to them is passed over."""
        self.reserved: set[tuple[Kind, int]] = set()
        """Numbers of producers and consumers that are being made."""
        self.passing: Pass | None = None
        self.flights: deque[list[Callable[[], None]]] = deque()
        """Passes on their way to the log; each with what is done when it is answered."""
        self.on_close: list[Callable[[], None]] = []

    # What the session calls

    def handle(self, command: Any, rest: memoryview) -> None:
        """A command. Raises MalformedFrame."""
        kind = command.type
        if kind == Kind.SEND and self.is_connected:
            self.parts.producing.send(self, command.send, rest)
            return
        name = FIELDS.get(kind)
        if name is None or not command.HasField(name):
            self.refuse_unknown(kind)
            return
        if self.is_connected == (kind == Kind.CONNECT):
            raise MalformedFrame("a connection begins with CONNECT, and has one")
        handler = self.parts.handlers.get(kind)
        if handler is None:
            self.refuse_unknown(kind, getattr(command, name))
            return
        said = getattr(command, name)
        try:
            later = handler(self, said)
        except (CommandRefused, MainstemError) as error:
            self.refuse(said, error)
            return
        if later is not None:
            self.session.owe()
            self.parts.spawn(self._finish(said, later))

    async def _finish(self, said: Any, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (CommandRefused, MainstemError) as error:
            self.refuse(said, error)
        except Exception:
            log.exception("a command failed for a fault of the broker")
            self.refuse(said, CommandRefused(ServerError.UNKNOWN, "a fault of the broker; its log says more"))
        finally:
            self.session.settle()

    def refuse(self, said: Any, error: BaseException) -> None:
        """Answer a command by an error, in the words of its own answer where it has any."""
        code, reason = code_of(error), str(error)[:REASON_CHARACTERS_MAX]
        refusal = self.parts.refusals.get(type(said).DESCRIPTOR.name)
        request = getattr(said, "request_id", 0)
        if refusal is None:
            self.say(Kind.ERROR, request_id=request, error=code, message=reason)
        else:
            self.session.say(refusal(said, code, reason))

    def refuse_unknown(self, kind: int, said: Any = None) -> None:
        """A command that we do not know, or do not take. Raises MalformedFrame where nobody waits for an answer."""
        request = getattr(said, "request_id", None)
        if request is None:
            raise MalformedFrame(f"a command of type {kind}")
        self.say(
            Kind.ERROR, request_id=request, error=ServerError.NOT_ALLOWED, message=f"command {kind} is not supported"
        )

    def pass_ended(self) -> None:
        """Commit what came in this pass."""
        if self.passing is not None:
            passing, self.passing = self.passing, None
            self.parts.producing.commit(self, passing)
            intake = self.parts.broker.intake
            if intake.is_pressed:
                self.session.hold()
                intake.when_relieved(self._relieved)

    def _relieved(self) -> None:
        if not self.is_closed:
            self.session.release()

    def paused(self, is_paused: bool) -> None:
        """The peer does not read, or reads again."""
        self.is_paused = is_paused
        if not is_paused:
            for consumer in self.consumers.values():
                consumer.wake()

    def closed(self) -> None:
        """Let go of all that it held."""
        self.is_closed = True
        if self.caller is not None:
            self.caller.leave()
        self.passing = None
        for producer in list(self.producers.values()):
            self.parts.producing.leave(producer)
        self.producers.clear()
        for consumer in list(self.consumers.values()):
            consumer.leave()
        self.consumers.clear()
        for call in self.on_close:
            call()

    # What handlers call

    def enter(self, caller: Caller) -> None:
        """Somebody was let in; the connection ends with the caller."""
        self.caller = caller
        self.session.peer.user = caller.name
        caller.hold(self._end)

    def _end(self, reason: str) -> None:
        self.say(Kind.ERROR, request_id=UINT64_MAX, error=ServerError.AUTHENTICATION, message=reason)
        self.session.end()

    def check(self, name: TopicName, action: Action) -> None:
        """Whether the caller may do this with a topic. Raises CommandRefused."""
        if self.caller is None or not self.caller.may(name.namespace, action, name.topic):
            raise CommandRefused(ServerError.AUTHORIZATION, f"Client is not authorized to {action} topic {name}")

    def say(self, kind: Kind, **fields: Any) -> None:
        """A command of ours."""
        self.session.say(encode_command(kind, **fields))

    def say_all(self, parts: list[Buffer]) -> None:
        """Frames that are ready."""
        self.session.say(parts)

    def when_sent(self, call: Callable[[], None]) -> None:
        """Do this when all is answered that was sent so far."""
        if self.flights:
            self.flights[-1].append(call)
        else:
            call()

    def succeed(self, said: Any) -> None:
        """Answer that it is done."""
        self.say(Kind.SUCCESS, request_id=said.request_id)

    def consumer(self, said: Any) -> PulsarConsumer:
        """The one that a command names. Raises CommandRefused."""
        found = self.consumers.get(said.consumer_id)
        if found is None:
            raise CommandRefused(ServerError.CONSUMER_NOT_FOUND, f"Consumer {said.consumer_id} not found")
        return found
