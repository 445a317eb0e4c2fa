"""Callers: made at login, asked before everything that is done for a client, ended with the user.

What a caller may do is looked up each time, so that a change of permissions holds for open connections. A caller that has
ended may do nothing, whatever happens to its name afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from mainstem.model.errors import PeerError

if TYPE_CHECKING:
    from mainstem.broker.clock import Timer
    from mainstem.broker.users.access import Access

Action: TypeAlias = Literal["configure", "write", "read"]
Close: TypeAlias = Callable[[str], None]
"""Closes the connection of a caller; is given the reason."""

ADMINISTRATOR = "administrator"
IMPERSONATOR = "impersonator"


class LoginRefused(PeerError):
    """A client is not let in. The text says no more than the client may know."""


class Caller:
    """Somebody who was let in."""

    __slots__ = (
        "_access",
        "_close",
        "_timer",
        "expires_ms",
        "host",
        "is_delegated",
        "is_ended",
        "is_superuser",
        "name",
        "namespace",
        "roles",
    )

    def __init__(self, access: Access, name: str, host: str = "", *, is_superuser: bool = False) -> None:
        self._access = access
        self._close: Close | None = None
        self._timer: Timer | None = None
        self.expires_ms: int | None = None
        """When the proof runs out: a token's end. None: never."""
        self.roles: tuple[str, ...] = ()
        """Tags that come with the proof, beside those of the user."""
        self.name = name
        self.host = host
        """The peer's address."""
        self.namespace: str | None = None
        """Where the connection works, if it works in one namespace alone."""
        self.is_superuser = is_superuser
        """Whether the settings of the broker name this user: then everything is allowed, and no API changes that."""
        self.is_delegated = False
        """Whether somebody else acts as this user, by a delegation token."""
        self.is_ended = False

    @property
    def tags(self) -> tuple[str, ...]:
        """Roles, in RabbitMQ's words."""
        if self.is_ended:
            return ()
        if self.is_superuser:
            return (ADMINISTRATOR,)
        user = self._access.find(self.name)
        return self.roles if user is None else (*user.tags, *self.roles)

    @property
    def is_administrator(self) -> bool:
        """Whether users and permissions may be changed."""
        return ADMINISTRATOR in self.tags

    def may_enter(self, namespace: str) -> bool:
        """Whether the namespace may be used at all."""
        return not self.is_ended and (self.is_superuser or self._access.permission_of(self.name, namespace) is not None)

    def may(self, namespace: str, action: Action, resource: str) -> bool:
        """Whether this may be done with a queue or an exchange of this name."""
        if self.is_ended:
            return False
        return self.is_superuser or self._access.permits(self.name, namespace, action, resource)

    def may_use_key(self, namespace: str, exchange: str, action: Action, routing_key: str, host: str) -> bool:
        """Whether this routing key of a topic exchange may be used; `host` is what the client calls the namespace."""
        if self.is_ended:
            return False
        return self.is_superuser or self._access.permits_key(self.name, namespace, exchange, action, routing_key, host)

    # The connection

    def hold(self, close: Close) -> None:
        """A connection belongs to this caller; it is closed when the caller ends."""
        self._close = close
        self._access.callers.setdefault(self.name, set()).add(self)
        if self.expires_ms is not None:
            self.renew(self.expires_ms)

    def renew(self, expires_ms: int) -> None:
        """The proof holds until then, and the connection with it."""
        self.expires_ms = expires_ms
        if self._timer is not None:
            self._timer.cancel()
        clock = self._access.clock
        wait_s = max(0.0, (expires_ms - clock.now_ms()) / 1000)
        self._timer = clock.call_later(wait_s, lambda: self.end("the token of the connection has expired"))

    def leave(self) -> None:
        """The connection is gone."""
        self._close = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        present = self._access.callers.get(self.name)
        if present is not None:
            present.discard(self)
            if not present:
                del self._access.callers[self.name]

    def end(self, reason: str) -> None:
        """May nothing more; a connection is closed."""
        self.is_ended = True
        close = self._close
        self.leave()
        if close is not None:
            close(reason)
