"""Who asks, and what they may do. Tags decide, as in RabbitMQ: administrator, monitoring, policymaker, management."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from mainstem.broker.administration import Permission
from mainstem.broker.broker import Broker
from mainstem.broker.users import callers as broker_callers
from mainstem.broker.users.access import GUEST
from mainstem.broker.users.callers import ADMINISTRATOR, Action, LoginRefused
from mainstem.model.endpoints import Endpoints
from mainstem.protocols.management.errors import Forbidden, NotAuthorised
from mainstem.protocols.management.mapping.words import namespace_of
from mainstem.wire.http.messages import Request

T = TypeVar("T")

NAME = "management"
MONITORING, POLICYMAKER, MANAGEMENT = "monitoring", "policymaker", "management"
KNOWN_TAGS = frozenset({ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT})


class Caller(msgspec.Struct, frozen=True):
    """Somebody who was let in."""

    who: broker_callers.Caller
    broker: Broker
    is_restoring: bool = False
    """Whether they import definitions, for which permissions do not count."""

    @property
    def name(self) -> str:
        """By which they are known."""
        return self.who.name

    @property
    def tags(self) -> tuple[str, ...]:
        """As they are now."""
        return self.who.tags

    def need(self, *tags: str) -> None:
        """Whether one of these, or the administrator's, is among the tags. Raises Forbidden."""
        if ADMINISTRATOR not in self.tags and not set(tags) & set(self.tags):
            raise Forbidden(f"Not {tags[0] if tags else ADMINISTRATOR} user")

    def sees_all(self) -> bool:
        """Whether they see what is others'."""
        return ADMINISTRATOR in self.tags or MONITORING in self.tags

    def may_see(self, namespace: str) -> bool:
        """Whether they see what is in a namespace."""
        return self.sees_all() or self.who.may_enter(namespace)

    def enter(self, host: str) -> str:
        """The namespace of a virtual host that they may see. Raises UnknownNamespace, Forbidden."""
        namespace = self.broker.namespaces.get(namespace_of(host)).name
        if not self.may_see(namespace):
            raise Forbidden("User can not access virtual host")
        return namespace

    def check(self, namespace: str, action: Action, resource: str, kind: str = "queue") -> None:
        """Whether they may do this. Raises Forbidden."""
        if not self.is_restoring and not self.who.may(namespace, action, resource):
            raise Forbidden(f"access to {kind} '{resource}' refused for user '{self.name}'")

    async def own(self, namespace: str) -> None:
        """They made a namespace: so they may do everything in it. `guest` of the first start may anyway."""
        if not self.who.is_superuser and not self.who.may_enter(namespace):
            await self.broker.access.put(Permission(self.name, namespace, ".*", ".*", ".*"))

    def visible(self, items: Iterable[T], namespace_of_item: Callable[[T], str]) -> list[T]:
        """Those that they may see."""
        return [item for item in items if self.may_see(namespace_of_item(item))]


class Callers:
    """Lets callers in; `guest` never from elsewhere: everybody knows that password, and definitions bring it along."""

    def __init__(self, broker: Broker, has_guest: bool, is_here_alone: Callable[[], bool]) -> None:
        self._broker = broker
        self._has_guest = has_guest
        self._is_here_alone = is_here_alone

    def admit(
        self, name: str | None, password: bytes, endpoints: Endpoints, done: Callable[[Caller | NotAuthorised], None]
    ) -> None:
        """Who asks, now or later: `done` is told. Without a name the password is a token."""

        def told(caller: broker_callers.Caller | LoginRefused) -> None:
            done(NotAuthorised("Login failed") if isinstance(caller, LoginRefused) else self._admitted(caller))

        if name is None:
            self._broker.door.ask_token(NAME, password.decode("ascii", "replace"), endpoints, told)
        else:
            self._broker.door.ask_password(NAME, name, password, endpoints, told)

    def _admitted(self, who: broker_callers.Caller) -> Caller | NotAuthorised:
        if who.name == GUEST and not (self._has_guest and self._is_here_alone()):
            return NotAuthorised("User can only log in via localhost")
        if not KNOWN_TAGS & set(who.tags):
            return NotAuthorised("Not management user")
        return Caller(who, self._broker)


def credentials_of(request: Request) -> tuple[str | None, bytes]:
    """Name and password, or a token without a name. Raises NotAuthorised."""
    scheme, _, encoded = (request.header(b"authorization") or "").partition(" ")
    if scheme.lower() == "bearer":
        return None, encoded.strip().encode("latin-1")
    if scheme.lower() != "basic":
        raise NotAuthorised("Login failed")
    try:
        name, _, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except binascii.Error:
        raise NotAuthorised("Login failed") from None
    return name.decode("utf-8", "replace"), password
