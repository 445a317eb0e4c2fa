"""The things that are set, as they are stored: one record for each, under a key of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from mainstem.coordination.administration.errors import InvalidEntry
from mainstem.coordination.administration.patterns import check_pattern
from mainstem.wire.scram import Verifier

NAME_BYTES_MAX = 255
VALUE_BYTES_MAX = 64 << 10
"""Of one definition or parameter."""

ApplyTo: TypeAlias = Literal["queues", "classic_queues", "quorum_queues", "streams", "exchanges", "all"]
APPLY_TO: frozenset[str] = frozenset({"queues", "classic_queues", "quorum_queues", "streams", "exchanges", "all"})

Key: TypeAlias = tuple[str, ...]


class Entry(msgspec.Struct, frozen=True):
    """Anything that is set."""

    kind: ClassVar[str] = ""

    def key(self) -> Key:
        """What makes it the one that it is."""
        raise NotImplementedError

    def check(self) -> None:
        """Whether it can be. Raises InvalidEntry."""
        for part in self.key():
            check_name(part)


class Namespace(Entry, frozen=True):
    """Owns topics, queues, exchanges."""

    kind: ClassVar[str] = "namespace"
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_kind: str = ""
    """Of queues that are declared without one; empty: classic."""
    limits: Mapping[str, int] = {}
    """`max-connections`, `max-queues`; below 0: none."""
    metadata: Mapping[str, Any] = {}

    def key(self) -> Key:
        """Its name."""
        return (self.name,)

    def check(self) -> None:
        """Known limits only."""
        super().check()
        check_limits(self.limits, frozenset({"max-connections", "max-queues"}))


class User(Entry, frozen=True):
    """Somebody who can prove it, in any protocol."""

    kind: ClassVar[str] = "user"
    name: str
    password_hash: str = ""
    """As RabbitMQ stores it, so that definitions that are exported log in elsewhere; empty: there is none."""
    hashing: str = "rabbit_password_hashing_sha256"
    tags: tuple[str, ...] = ()
    limits: Mapping[str, int] = {}
    is_disabled: bool = False
    """Nothing proves this user, until it is enabled again."""
    is_removed: bool = False
    """Kept of `guest` alone, which would be there again without a record."""
    verifiers: Mapping[str, Verifier] = {}
    """Of SCRAM, by mechanism."""

    @property
    def has_password(self) -> bool:
        """Whether any password is right."""
        return bool(self.password_hash or self.verifiers)

    def key(self) -> Key:
        """The name."""
        return (self.name,)

    def check(self) -> None:
        """Known limits only."""
        super().check()
        check_limits(self.limits, frozenset({"max-connections", "max-channels"}))


class Permission(Entry, frozen=True):
    """What a user may do in a namespace: regular expressions over the names of queues and exchanges."""

    kind: ClassVar[str] = "permission"
    user: str
    namespace: str
    configure: str
    write: str
    read: str

    def key(self) -> Key:
        """Whose, and where."""
        return (self.user, self.namespace)

    def check(self) -> None:
        """Whether the expressions are any."""
        super().check()
        for pattern in (self.configure, self.write, self.read):
            check_pattern(pattern)


class TopicPermission(Entry, frozen=True):
    """What a user may do with the routing keys of a topic exchange."""

    kind: ClassVar[str] = "topic-permission"
    user: str
    namespace: str
    exchange: str
    write: str
    read: str

    def key(self) -> Key:
        """Whose, and where."""
        return (self.user, self.namespace, self.exchange)

    def check(self) -> None:
        """Whether the expressions are any."""
        for part in self.key()[:2]:
            check_name(part)
        for pattern in (self.write, self.read):
            check_pattern(pattern)


class Policy(Entry, frozen=True):
    """Properties for all queues and exchanges whose names fit."""

    kind: ClassVar[str] = "policy"
    namespace: str
    name: str
    pattern: str
    definition: Mapping[str, Any]
    priority: int = 0
    apply_to: ApplyTo = "all"
    is_operators: bool = False
    """Set by an operator: what it limits, others can only limit further."""

    def key(self) -> Key:
        """Operators have names of their own."""
        return (self.namespace, self.name, "operator" if self.is_operators else "user")


class Parameter(Entry, frozen=True):
    """A value for some component, kept for it."""

    kind: ClassVar[str] = "parameter"
    namespace: str
    """Empty: of no namespace."""
    component: str
    """Empty: a parameter of the whole."""
    name: str
    value: Any

    def key(self) -> Key:
        """Where, for whom, and its name."""
        return (self.namespace, self.component, self.name)

    def check(self) -> None:
        """Its name, and its size."""
        check_name(self.name)
        check_value(self.value)


class Secret(Entry, frozen=True):
    """Random bytes that stay in the broker."""

    kind: ClassVar[str] = "secret"
    name: str
    value: bytes

    def key(self) -> Key:
        """What it is for."""
        return (self.name,)


class Session(Entry, frozen=True):
    """Somebody who has logged in by a browser."""

    kind: ClassVar[str] = "session"
    id: str
    """A digest of what the browser has, so that nobody who reads the log can use it."""
    user: str
    created_ms: int
    expires_ms: int
    fingerprint: bytes = b""
    """Of the password by which it was begun: it ends with that."""
    roles: tuple[str, ...] = ()
    """Those that a token brought."""

    def key(self) -> Key:
        """The digest."""
        return (self.id,)


class DelegationToken(Entry, frozen=True):
    """Lets somebody act as its owner for a while. Its secret is not kept: it is made from the name and a key outside the log."""

    kind: ClassVar[str] = "delegation-token"
    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    """Nobody can renew it beyond this."""

    def key(self) -> Key:
        """Its name."""
        return (self.id,)

    def check(self) -> None:
        """Names that can be."""
        for name in (self.id, self.owner, self.requester, *self.renewers):
            check_name(name)


ALL_KINDS: tuple[type[Entry], ...] = (
    *(Namespace, User, Permission, TopicPermission, Policy, Parameter),
    *(Secret, Session, DelegationToken),
)
KINDS: dict[str, type[Entry]] = {kind.kind: kind for kind in ALL_KINDS}


def check_name(name: str) -> None:
    """Raises InvalidEntry."""
    if not name or len(name.encode()) > NAME_BYTES_MAX:
        raise InvalidEntry(f"a name has 1 to {NAME_BYTES_MAX} bytes")


def check_limits(limits: Mapping[str, int], known: frozenset[str]) -> None:
    """Raises InvalidEntry."""
    for name in limits:
        if name not in known:
            raise InvalidEntry(f"there is no limit {name!r}")


def check_value(value: Any) -> None:
    """Raises InvalidEntry."""
    try:
        size = len(msgspec.msgpack.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise InvalidEntry("the value cannot be kept") from None
    if size > VALUE_BYTES_MAX:
        raise InvalidEntry(f"a value has at most {VALUE_BYTES_MAX} bytes")
