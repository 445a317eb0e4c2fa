"""What a session asks of the side that knows the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mainstem.protocols.amqp.codec.field_table import Table
from mainstem.protocols.amqp.codec.framing import ChannelPort
from mainstem.protocols.amqp.codec.methods import Method


class SessionChannel(ChannelPort, Protocol):
    """One channel of a connection."""

    def method_received(self, method: Method) -> None:
        """Deal with a method; what takes longer holds the session until it is done. Raises AmqpError."""

    def close(self, done: Callable[[], None]) -> None:
        """Give back what it holds; called back when everything that it acknowledged is durable."""


class ConnectionPort(Protocol):
    """One connection."""

    owed: int
    """Answers that wait for the disk."""

    def properties(self) -> Table:
        """What the server says of itself."""

    def mechanisms(self) -> list[str]:
        """By which the client may say who it is."""

    def login(self, mechanism: str, response: bytes, done: Callable[[bool], None]) -> None:
        """Who it is; `done` is told, now or later, whether that is proven. Raises AmqpError."""

    def update_secret(self, secret: bytes, done: Callable[[bool], None]) -> None:
        """A new token; `done` is told, now or later, whether the client may go on with it."""

    def open_host(self, name: str) -> None:
        """The virtual host to work in. Raises AmqpError."""

    def open_channel(self, number: int) -> SessionChannel:
        """A new channel."""

    def close(self, done: Callable[[], None]) -> None:
        """The same for the whole connection, with the queues that it owns alone."""

    def lost(self) -> None:
        """The peer is gone: give back everything."""

    @property
    def is_to_stop(self) -> bool:
        """Whether the rest of what has come is left for later."""

    @property
    def has_rest(self) -> bool:
        """Whether messages that were read wait to be published."""

    def publish_rest(self) -> None:
        """Go on with them."""

    def stop_publishing(self) -> None:
        """The broker is going: wait for no room any more; messages that were read and not published yet are dropped."""

    def pass_ended(self) -> None:
        """All that had come was dealt with, or is left for later."""

    def output_taken(self) -> None:
        """What was said is on its way: there is room to say more, unless the peer does not read."""

    def output_paused(self) -> None:
        """Deliver nothing more."""

    def time_passed(self, now: float) -> None:
        """Deadlines of deliveries."""
