"""Callers: made at login, asked before everything that is done for a client, ended with the user.

What a caller may do is looked up each time, so that a change of permissions holds for open connections. A caller that has
ended may do nothing, whatever happens to its name afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from mainstem.broker.users.access import Access

Action: TypeAlias = Literal["configure", "write", "read"]
Close: TypeAlias = Callable[[str], None]
"""Closes the connection of a caller; is given the reason."""

ADMINISTRATOR = "administrator"
IMPERSONATOR = "impersonator"


class Caller:
    """Somebody who was let in."""

    __slots__ = ("_access", "_close", "host", "is_ended", "is_superuser", "name", "namespace")

    def __init__(self, access: Access, name: str, host: str = "", *, is_superuser: bool = False) -> None:
        self._access = access
        self._close: Close | None = None
        self.name = name
        self.host = host
        """The peer's address."""
        self.namespace: str | None = None
        """Where the connection works, if it works in one namespace alone."""
        self.is_superuser = is_superuser
        """Whether the settings of the broker name this user: then everything is allowed, and no API changes that."""
        self.is_ended = False

    @property
    def tags(self) -> tuple[str, ...]:
        """Roles, in RabbitMQ's words."""
        if self.is_ended:
            return ()
        if self.is_superuser:
            return (ADMINISTRATOR,)
        user = self._access.find(self.name)
        return () if user is None else user.tags

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

    def leave(self) -> None:
        """The connection is gone."""
        self._close = None
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
