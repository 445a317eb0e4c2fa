"""What the server registers for RocketMQ."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from mainstem.broker.broker import Broker
from mainstem.broker.subscriptions.undecided import Undecided, UndecidedRules
from mainstem.broker.users.door import Entrance
from mainstem.model.endpoints import UNKNOWN, Endpoints, address_to_tell
from mainstem.model.errors import MainstemError
from mainstem.protocols.rocketmq.handlers.grpc.receiving import Groups
from mainstem.protocols.rocketmq.handlers.grpc.service import MessagingService
from mainstem.protocols.rocketmq.handlers.grpc.transactions import Transactions
from mainstem.protocols.rocketmq.handlers.remoting.administration import AdministrationHandlers
from mainstem.protocols.rocketmq.handlers.remoting.calls import Handler, Spawn
from mainstem.protocols.rocketmq.handlers.remoting.connection import RemotingConnection
from mainstem.protocols.rocketmq.handlers.remoting.locks import LockHandlers
from mainstem.protocols.rocketmq.handlers.remoting.membership import Membership
from mainstem.protocols.rocketmq.handlers.remoting.offsets import GroupOffsets, OffsetHandlers
from mainstem.protocols.rocketmq.handlers.remoting.pulling import PullHandlers
from mainstem.protocols.rocketmq.handlers.remoting.querying import QueryHandlers
from mainstem.protocols.rocketmq.handlers.remoting.replies import ReplyHandlers
from mainstem.protocols.rocketmq.handlers.remoting.resets import ResetHandlers
from mainstem.protocols.rocketmq.handlers.remoting.retries import RetryHandlers
from mainstem.protocols.rocketmq.handlers.remoting.routes import RouteHandlers
from mainstem.protocols.rocketmq.handlers.remoting.sending import SendHandlers
from mainstem.protocols.rocketmq.handlers.remoting.transactions import TransactionHandlers
from mainstem.protocols.rocketmq.session.remoting import RemotingSession
from mainstem.protocols.rocketmq.session.settings import GrpcSettings, NamesSettings, RemotingSettings
from mainstem.wire.http2.grpc import GrpcConnection
from mainstem.wire.http2.session import Http2Limits, Http2Session

log = logging.getLogger(__name__)

NAME, BROKER_NAME, NAMES_NAME = "rocketmq", "rocketmq-broker", "rocketmq-names"
GRPC_PORT, BROKER_PORT, NAMES_PORT = 8081, 10911, 9876
REQUEST_OVERHEAD_BYTES = 1 << 20
"""What a call has besides the body of its message, at most."""

_rules: WeakKeyDictionary[Broker, RemotingSettings] = WeakKeyDictionary()
_undecided: WeakKeyDictionary[Broker, Undecided] = WeakKeyDictionary()
HALF_MESSAGES, ASIDE = "rocketmq", "TRANS_CHECK_MAX_TIME_TOPIC"
"""The name server speaks of the broker by the settings of the broker's listener."""


class Operations(Protocol):
    """What the server tells about itself."""

    def advertised(self) -> Mapping[str, list[str]]:
        """The addresses clients are shown, by listener name."""

    def version(self) -> str:
        """Of this program."""


def check_broker(settings: RemotingSettings, hosts: Iterable[str]) -> None:
    """Whether it is safe to listen there. Raises ValueError."""
    _check(BROKER_NAME, settings.anybody_from_anywhere, hosts)


def check_grpc(settings: GrpcSettings, hosts: Iterable[str]) -> None:
    """Whether it is safe to listen there. Raises ValueError."""
    _check(NAME, settings.anybody_from_anywhere, hosts)


def check_names(settings: NamesSettings, hosts: Iterable[str]) -> None:
    """Whether it is safe to listen there. Raises ValueError."""
    _check(NAMES_NAME, settings.anybody_from_anywhere, hosts)


def _check(name: str, is_open: bool, hosts: Iterable[str]) -> None:
    for host in hosts:
        if not is_open and not _is_loopback(host):
            raise ValueError(
                f"{name} would be open to anybody who reaches {host}: set {name}.anybody_from_anywhere=true"
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def introduce(broker: Broker, settings: RemotingSettings) -> None:
    """Keep the rules that both listeners follow, whether the broker's listens or not."""
    _rules[broker] = settings


def undecided_of(broker: Broker, spawn: Spawn) -> Undecided:
    """The half messages that both protocols share. Those of an earlier run are asked about from now on."""
    found = _undecided.get(broker)
    if found is None:
        found = _undecided[broker] = Undecided(broker, HALF_MESSAGES, UndecidedRules(aside=ASIDE))
        if found.exists:
            spawn(_open(found))
    return found


async def _open(undecided: Undecided) -> None:
    try:
        await undecided.open()
    except MainstemError as error:
        log.warning("half messages cannot be read: %s", error)


class _Tasks:
    """What runs until it ends. The loop itself holds tasks only weakly."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)


class RemotingBroker:
    """Serves clients of the remoting protocol; name servers' requests too."""

    def __init__(
        self, settings: RemotingSettings, broker: Broker, operations: Operations, spawn: Spawn | None = None
    ) -> None:
        self._settings = settings
        self._broker = broker
        self._guard = guard_of(broker, BROKER_NAME, settings.anybody_from_anywhere)
        self._spawn = spawn or _Tasks().spawn
        self.membership = Membership(broker, settings)
        undecided = undecided_of(broker, self._spawn)
        offsets = GroupOffsets(broker, self._spawn)
        routes = RouteHandlers(broker, settings, functools.partial(address_of, operations))
        pulls = PullHandlers(broker, settings, self.membership, offsets, self._spawn)
        self._handlers: dict[int, Handler] = {
            **routes.handlers(),
            **SendHandlers(broker, settings, undecided).handlers(),
            **TransactionHandlers(broker, settings, self.membership, undecided).handlers(),
            **pulls.handlers(),
            **ResetHandlers(broker, settings, self.membership, offsets, pulls).handlers(),
            **OffsetHandlers(broker, offsets).handlers(),
            **self.membership.handlers(),
            **ReplyHandlers(broker, settings, self.membership).handlers(),
            **RetryHandlers(broker, settings).handlers(),
            **QueryHandlers(broker).handlers(),
            **LockHandlers(broker, self.membership).handlers(),
            **AdministrationHandlers(broker, settings, self.membership, operations.version()).handlers(),
        }

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> RemotingSession:
        """For a new connection."""
        return RemotingSession(
            wake,
            self._settings,
            lambda session: RemotingConnection(
                self._broker, self._handlers, self._spawn, session, endpoints, self._guard(endpoints)
            ),
        )


class NameServer:
    """Answers where topics are."""

    def __init__(
        self,
        settings: NamesSettings,
        broker: Broker,
        operations: Operations,
        spawn: Spawn | None = None,
    ) -> None:
        self._settings = settings
        self._broker = broker
        self._guard = guard_of(broker, NAMES_NAME, settings.anybody_from_anywhere)
        self._spawn = spawn or _Tasks().spawn
        rules = _rules.get(broker, RemotingSettings())
        self._handlers = RouteHandlers(broker, rules, functools.partial(address_of, operations)).names_handlers()

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> RemotingSession:
        """For a new connection."""
        return RemotingSession(
            wake,
            self._settings,
            lambda session: RemotingConnection(
                self._broker, self._handlers, self._spawn, session, endpoints, self._guard(endpoints)
            ),
        )


class GrpcBroker:
    """Serves clients of the gRPC protocol."""

    def __init__(
        self, settings: GrpcSettings, broker: Broker, operations: Operations, spawn: Spawn | None = None
    ) -> None:
        self._settings = settings
        self._broker = broker
        self._guard = guard_of(broker, NAME, settings.anybody_from_anywhere)
        self._operations = operations
        self._spawn = spawn or _Tasks().spawn
        self._groups = Groups(broker, settings)
        self._transactions = Transactions(broker, undecided_of(broker, self._spawn))
        self._limits = Http2Limits(streams_max=settings.streams_max)

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> Http2Session:
        """For a new connection."""
        return Http2Session(wake, self._limits, functools.partial(self._connect, endpoints))

    def _connect(self, endpoints: Endpoints, session: Http2Session) -> GrpcConnection:
        bytes_max = self._settings.message_bytes_max + REQUEST_OVERHEAD_BYTES
        return GrpcConnection(session, bytes_max, functools.partial(self._serve, endpoints))

    def _serve(self, endpoints: Endpoints, connection: GrpcConnection) -> MessagingService:
        return MessagingService(
            self._broker,
            self._settings,
            self._groups,
            self._transactions,
            functools.partial(self._advertised, endpoints),
            self._spawn,
            connection,
            self._guard(endpoints),
        )

    def _advertised(self, endpoints: Endpoints) -> str:
        told = address_to_tell(self._operations.advertised(), NAME, endpoints)
        assert told is not None, "asked through no listener"
        return told


def guard_of(broker: Broker, name: str, is_wide: bool) -> Callable[[Endpoints], Callable[[], bool]]:
    """Whether a client of a listener may go on without a login: asked for each request, so that a change holds at once."""
    broker.door.open(name, Entrance(is_wide=is_wide))
    return lambda endpoints: functools.partial(broker.door.may_be_anonymous, name, endpoints)


def address_of(operations: Operations, endpoints: Endpoints) -> str | None:
    """Where the broker is, for the client of this connection; None: it does not listen."""
    return address_to_tell(operations.advertised(), BROKER_NAME, endpoints)
