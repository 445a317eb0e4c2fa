"""One connection: who it is, where it works, what it owns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from mainstem.broker.queues import Queue
from mainstem.broker.routes import Router
from mainstem.broker.users.callers import Caller, LoginRefused
from mainstem.model.endpoints import Endpoints
from mainstem.model.errors import MainstemError, Overloaded, StorageFull
from mainstem.model.peer import TEXT_CHARACTERS_MAX
from mainstem.protocols.amqp.codec.field_table import Table
from mainstem.protocols.amqp.errors import (
    CONNECTION_FORCED,
    INTERNAL_ERROR,
    RESOURCE_ERROR,
    ConnectionError_,
    not_allowed,
)
from mainstem.protocols.amqp.handlers.channel import Channel
from mainstem.protocols.amqp.handlers.limits import check_channels, check_connections
from mainstem.protocols.amqp.handlers.publish.plans import Planner
from mainstem.protocols.amqp.mapping.values import plain_table
from mainstem.protocols.amqp.mapping.words import namespace_of
from mainstem.protocols.amqp.session import AmqpSession
from mainstem.protocols.amqp.session.machine import OUTPUT_BYTES_MAX

if TYPE_CHECKING:
    from mainstem.protocols.amqp.handlers.deliver.consumers import ChannelConsumer
    from mainstem.protocols.amqp.handlers.node import Node
    from mainstem.protocols.amqp.handlers.publish.publishing import Publisher

log = logging.getLogger(__name__)

NAME = "amqp"
PASS_SECONDS = 0.004
"""How long one connection may keep the loop; then others have their turn."""
LOW_ON_DISK = "low on disk"


class AmqpConnection:
    """The broker's side of a session."""

    def __init__(self, node: Node, session: AmqpSession, endpoints: Endpoints) -> None:
        self.node = node
        self.endpoints = endpoints
        self.session = session
        self.queues = node.broker.queues
        self.outbox = node.broker.queues.outbox
        self.settling = node.broker.queues.settling
        self.caller: Caller
        """Who it is, from the login on."""
        self.user = ""
        self.mechanism = ""
        """By which it said who it is."""
        self.host = ""
        self.namespace = ""
        self.router: Router
        self.owed = 0
        self.planner = Planner()
        """What to do with messages."""
        self.has_room = True
        """Whether deliveries may be sent."""
        self.now = 0.0
        self.touched: list[Channel] = []
        """Channels with something to do at the end of the pass."""
        self._channels: dict[Channel, None] = {}
        self._published_bytes = 0
        """In this pass."""
        self._has_unconfirmed = False
        """Whether some of it will not be confirmed: the client learns of a failure by the end of the connection alone."""
        self._pass_ends = 0.0
        """When this pass has lasted long enough; 0: nothing was done in it yet."""
        self._rest: tuple[Publisher, bytes, bytes, list[bytes]] | None = None
        """Messages that were read, and are published when it is this connection's turn again."""
        self.connected_ms = node.broker.clock.now_ms()
        self.name = str(endpoints) if endpoints.peer_port else node.new_connection_name()
        self.owned: list[Queue] = []
        """Queues that nobody else may use, and that end with it."""
        self.is_lost = False
        self._is_waiting = False
        self._awaited: set[Queue] = set()
        """Queues that are full, for whose sake it is not read from."""

    # Handshake

    def properties(self) -> Table:
        """What the server says of itself."""
        return self.node.server_properties()

    def login(self, mechanism: str, response: bytes, done: Callable[[bool], None]) -> None:
        """Who it is. Raises AmqpError."""

        def proven(caller: Caller | LoginRefused) -> None:
            is_let_in = not isinstance(caller, LoginRefused)
            if not isinstance(caller, LoginRefused) and not self.is_lost:
                self.caller = caller
                self.user = caller.name
                self.mechanism = mechanism
                caller.hold(self._force_closed)
            done(is_let_in)

        self.node.authenticate(mechanism, response, self.endpoints, proven)

    def _force_closed(self, reason: str) -> None:
        self.session.fail(ConnectionError_(CONNECTION_FORCED, reason))

    def mechanisms(self) -> list[str]:
        """By which the client may say who it is."""
        return self.node.mechanisms(self.endpoints)

    def update_secret(self, secret: bytes, done: Callable[[bool], None]) -> None:
        """A token of the same user holds from now on. Passwords do not run out: who came in by one stays in."""
        if self.caller.expires_ms is None:
            done(True)
            return

        def told(caller: Caller | LoginRefused) -> None:
            is_taken = not isinstance(caller, LoginRefused) and caller.name == self.user
            if not isinstance(caller, LoginRefused) and is_taken and caller.expires_ms is not None:
                self.caller.roles = caller.roles
                self.caller.renew(caller.expires_ms)
            done(is_taken)

        self.node.broker.door.ask_token(NAME, secret.decode("ascii", "replace"), self.endpoints, told)

    def open_host(self, name: str) -> None:
        """The virtual host to work in."""
        namespace = namespace_of(name)
        if not self.node.has_namespace(namespace):
            not_allowed(f"vhost {name} not found")
        check_connections(self, name, namespace)
        if not self.caller.may_enter(namespace):
            not_allowed(f"access to vhost '{name}' refused for user '{self.user}'")
        self.host = name
        self.namespace = self.caller.namespace = namespace
        self.router = self.node.broker.routes.of(namespace)
        self.node.connections[self] = None
        self._introduce()

    def _introduce(self) -> None:
        """Say who the client is, for lists of connections."""
        said, peer = plain_table(self.session.client_properties), self.session.peer
        peer.introduce(str(said.get("product", "")), str(said.get("version", "")))
        peer.name = str(said.get("connection_name", ""))[:TEXT_CHARACTERS_MAX]
        peer.user, peer.namespace = self.user, self.namespace

    # Channels

    @property
    def channels(self) -> list[Channel]:
        """Those that are open."""
        return list(self._channels)

    def open_channel(self, number: int) -> Channel:
        """A new one. Raises ConnectionError_."""
        check_channels(self)
        channel = Channel(self, number)
        self._channels[channel] = None
        return channel

    def forget(self, channel: Channel) -> None:
        """It has ended."""
        self._channels.pop(channel, None)

    def close(self, done: Callable[[], None]) -> None:
        """End everything; called back when that is durable, the owned queues included."""
        self._end_channels()
        if not self.owned:
            self.when_durable(done)
            return

        async def finish() -> None:
            await self.delete_owned()
            self.when_durable(done)

        self.node.spawn(finish())

    def lost(self) -> None:
        """The peer is gone."""
        if self.is_lost:
            return
        self.is_lost = True
        self._rest = None
        self.node.connections.pop(self, None)
        if self.user:
            self.caller.leave()
        self._end_channels()
        if self.owned:
            self.node.spawn(self.delete_owned())

    def _end_channels(self) -> None:
        channels, self._channels = self._channels, {}
        for channel in channels:
            channel.end()

    async def delete_owned(self) -> None:
        """Let the queues go that end with the connection."""
        owned, self.owned = self.owned, []
        for queue in owned:
            if not queue.is_gone:
                try:
                    await self.queues.delete(queue)
                except MainstemError as error:
                    log.warning("queue %s of a connection that ended stays: %s", queue.name, error)

    def when_durable(self, done: Callable[[], None]) -> None:
        """Call back when all that was said so far is stored. A failure ends the broker or is told to who published."""

        def call(_: Any, error: BaseException | None) -> None:
            self.owed -= 1
            done()

        self.owed += 1
        self.outbox.when_durable(call, None)

    # Flow

    @property
    def is_to_stop(self) -> bool:
        """Whether the rest of what has come is left for later: it would be too much, or this pass has lasted long enough."""
        if self._is_waiting:
            return True
        now = self.node.broker.clock.monotonic()
        if not self._pass_ends:
            self._pass_ends = now + PASS_SECONDS
            return False
        return now >= self._pass_ends

    def published(self, size: int, is_confirmed: bool) -> None:
        """Count published bytes, which are on their way to the disk."""
        self._published_bytes += size
        if not is_confirmed:
            self._has_unconfirmed = True

    def publish_later(self, publisher: Publisher, method: bytes, properties: bytes, bodies: list[bytes]) -> None:
        """Go on with these before anything else is read: when there is room, and it is this connection's turn again."""
        assert self._rest is None
        self._rest = (publisher, method, properties, bodies)

    @property
    def has_rest(self) -> bool:
        """Whether messages that were read wait to be published."""
        return self._rest is not None

    def publish_rest(self) -> None:
        """Go on with them."""
        rest, self._rest = self._rest, None
        if rest is not None:
            publisher, method, properties, bodies = rest
            publisher.publish_rest(method, properties, bodies)

    def pass_ended(self) -> None:
        """All that had come was dealt with: settle and confirm in one go."""
        self._pass_ends = 0.0
        touched, self.touched = self.touched, []
        for channel in touched:
            channel.pass_ended()
        size, has_unconfirmed = self._published_bytes, self._has_unconfirmed
        if size:
            self._published_bytes, self._has_unconfirmed = 0, False
            self.session.in_flight_bytes += size
            self.owed += 1
            self.outbox.when_durable(self._stored_unconfirmed if has_unconfirmed else self._stored, size)

    def _stored(self, size: int, error: BaseException | None) -> None:
        self.owed -= 1
        self.session.settled(size)

    def _stored_unconfirmed(self, size: int, error: BaseException | None) -> None:
        if error is not None and not self.is_lost:
            # There is no confirm that could say so.
            code = RESOURCE_ERROR if isinstance(error, StorageFull | Overloaded) else INTERNAL_ERROR
            self.session.fail(ConnectionError_(code, f"messages could not be stored: {error}"))
        self._stored(size, error)

    def wait_for_relief(self, queues: Iterable[Queue]) -> None:
        """The broker cannot take more, or these queues cannot: do not read until they can."""
        self._awaited.update(queues)
        if self._is_waiting:
            return
        self._is_waiting = True
        self.session.hold()
        if self.outbox.is_full:
            self.session.block(LOW_ON_DISK)
        self.outbox.when_relieved(self._relieved, self._awaited)

    def stop_publishing(self) -> None:
        """The broker is going: a full disk is not waited for. What was confirmed is stored; the rest was never taken."""
        self._rest = None
        self._relieved()

    def _relieved(self) -> None:
        if not self._is_waiting:
            return
        self._is_waiting = False
        self._awaited = set()
        self.session.block(None)
        self.session.release()

    def said(self) -> None:
        """Something was delivered: stop while much of it waits."""
        if self.has_room and self.session.output_bytes >= OUTPUT_BYTES_MAX:
            self.output_paused()

    def output_paused(self) -> None:
        """Deliver nothing more."""
        self.has_room = False
        for consumer in self._consumers():
            consumer.adjust()

    def output_taken(self) -> None:
        """There is room again."""
        if not self.has_room:
            self.has_room = True
            for consumer in self._consumers():
                consumer.adjust()
                consumer.wake()

    def time_passed(self, now: float) -> None:
        """Look for deliveries that were not acknowledged in time."""
        self.now = now
        for channel in list(self._channels):
            channel.time_passed(now)

    def _consumers(self) -> list[ChannelConsumer]:
        return [consumer for channel in self._channels for consumer in channel.consumers.values()]
