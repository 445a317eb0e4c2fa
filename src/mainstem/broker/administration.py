"""What operators set, durable when answered: namespaces, users and what they may do, policies, parameters.

Changes are made one after the other and applied when they are durable, as those of the catalog are.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Literal, TypeAlias

from mainstem.coordination.administration.entries import (
    ApplyTo,
    Entry,
    Key,
    Namespace,
    Parameter,
    Permission,
    Policy,
    TopicPermission,
    User,
)
from mainstem.coordination.administration.errors import InvalidEntry, UnknownEntry, UnknownNamespace, UnknownUser
from mainstem.coordination.administration.passwords import (
    HASHINGS,
    SHA256,
    hash_password,
    hashing_of,
    is_password,
    is_password_hash,
)
from mainstem.coordination.administration.patterns import check_pattern
from mainstem.coordination.administration.policies import KIND_OF_QUEUE, PolicySet, check_policy
from mainstem.coordination.administration.registry import SCOPE, Registry
from mainstem.coordination.catalog.catalog import DEFAULT_NAMESPACE
from mainstem.model.errors import MainstemError
from mainstem.storage.contract import Commit, Engine, Mutation

__all__ = [
    "HASHINGS",
    "KIND_OF_QUEUE",
    "SHA256",
    "Access",
    "Action",
    "Administration",
    "ApplyTo",
    "InvalidEntry",
    "Namespace",
    "Namespaces",
    "Parameter",
    "Parameters",
    "Permission",
    "Policies",
    "Policy",
    "TopicPermission",
    "User",
    "check_pattern",
    "hashing_of",
    "is_password_hash",
]

Action: TypeAlias = Literal["configure", "write", "read"]
_DEFAULT = Namespace(DEFAULT_NAMESPACE, "Default virtual host")
_SALT_BYTES = 4


class Administration:
    """Holds what is set, and makes changes durable."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.registry = Registry()
        self._changes_lock = asyncio.Lock()

    async def load(self) -> None:
        """Take in what is stored."""
        for key, value in (await self._engine.load(SCOPE)).entries.items():
            self.registry.replay(key, value)

    async def put(self, entry: Entry) -> None:
        """Set it. Raises InvalidEntry."""
        async with self._changes_lock:
            await self._commit([self.registry.decide_put(entry)])

    async def remove(self, entries: Iterable[Entry]) -> None:
        """They are not set any more."""
        async with self._changes_lock:
            await self._commit(self.registry.decide_remove(entries))

    async def _commit(self, state: list[Mutation]) -> None:
        (outcome,) = await self._engine.commit([Commit(state=state)])
        if isinstance(outcome, MainstemError):
            raise outcome
        for mutation in state:
            self.registry.replay(mutation.key, mutation.value)


class Namespaces:
    """Those that there are; the default one always is."""

    def __init__(self, administration: Administration) -> None:
        self._administration = administration
        self._stored = administration.registry.all(Namespace)

    def find(self, name: str) -> Namespace | None:
        """The namespace of this name."""
        found = self._stored.get((name,))
        return _DEFAULT if found is None and name == DEFAULT_NAMESPACE else found

    def get(self, name: str) -> Namespace:
        """The namespace of this name. Raises UnknownNamespace."""
        found = self.find(name)
        if found is None:
            raise UnknownNamespace(f"no namespace {name!r}")
        return found

    def all(self) -> list[Namespace]:
        """By name, the default one first."""
        others = sorted(key[0] for key in self._stored if key[0] != DEFAULT_NAMESPACE)
        return [self.get(name) for name in (DEFAULT_NAMESPACE, *others)]

    async def put(self, namespace: Namespace) -> None:
        """Create it, or change what is known of it."""
        await self._administration.put(namespace)

    async def remove(self, name: str) -> None:
        """What was set for it goes too; what is in it must be gone already. Raises InvalidEntry, UnknownNamespace."""
        if name == DEFAULT_NAMESPACE:
            raise InvalidEntry("the default namespace stays")
        gone: list[Entry] = [self.get(name)]
        registry = self._administration.registry
        gone += [entry for entry in registry.all(Permission).values() if entry.namespace == name]
        gone += [entry for entry in registry.all(TopicPermission).values() if entry.namespace == name]
        gone += [entry for entry in registry.all(Policy).values() if entry.namespace == name]
        gone += [entry for entry in registry.all(Parameter).values() if entry.namespace == name]
        await self._administration.remove(gone)


class Access:
    """Users and what they may do."""

    def __init__(self, administration: Administration, random: Callable[[int], bytes] = os.urandom) -> None:
        self._administration = administration
        self._random = random
        self.users: Mapping[Key, User] = administration.registry.all(User)
        self.permissions: Mapping[Key, Permission] = administration.registry.all(Permission)
        self.topic_permissions: Mapping[Key, TopicPermission] = administration.registry.all(TopicPermission)

    def find(self, name: str) -> User | None:
        """The user of this name, if one was made."""
        return self.users.get((name,))

    def get(self, name: str) -> User:
        """The user of this name. Raises UnknownUser."""
        found = self.find(name)
        if found is None:
            raise UnknownUser(f"no user {name!r}")
        return found

    def is_right(self, name: str, password: bytes) -> bool | None:
        """Whether this is the user's password; None: no such user was made, so that others may know."""
        user = self.find(name)
        return None if user is None else is_password(password, user.password_hash, user.hashing)

    def may_enter(self, name: str, namespace: str) -> bool:
        """Whether the user may use a namespace at all. Who was not made here but configured may."""
        return self.find(name) is None or (name, namespace) in self.permissions

    def may(self, name: str, namespace: str, action: Action, resource: str) -> bool:
        """Whether the user may do this with a queue or an exchange of this name. Who was not made here may."""
        if self.find(name) is None:
            return True
        permission = self.permissions.get((name, namespace))
        # RabbitMQ lets the exchange without a name be matched by its alias.
        return permission is not None and _matches(getattr(permission, action), resource or "amq.default")

    def may_use_key(self, name: str, namespace: str, exchange: str, action: Action, routing_key: str) -> bool:
        """Whether the user may use this routing key of a topic exchange; where nothing was set, any."""
        permission = self.topic_permissions.get((name, namespace, exchange))
        return permission is None or _matches(permission.write if action == "write" else permission.read, routing_key)

    def hash_password(self, password: str) -> str:
        """A password to be stored."""
        return hash_password(password.encode(), self._random(_SALT_BYTES))

    async def put(self, entry: User | Permission | TopicPermission) -> None:
        """Set it. Raises InvalidEntry."""
        await self._administration.put(entry)

    async def remove_user(self, name: str) -> None:
        """With all that was permitted. Raises UnknownUser."""
        gone: list[Entry] = [self.get(name)]
        gone += [entry for entry in self.permissions.values() if entry.user == name]
        gone += [entry for entry in self.topic_permissions.values() if entry.user == name]
        await self._administration.remove(gone)

    async def remove(self, entries: Iterable[Permission | TopicPermission]) -> None:
        """These are not permitted any more."""
        await self._administration.remove(entries)


class Policies:
    """Policies of all namespaces, users' and operators'."""

    def __init__(self, administration: Administration) -> None:
        self._administration = administration
        self.entries: Mapping[Key, Policy] = administration.registry.all(Policy)
        self._sets: dict[str, PolicySet] = {}
        self.on_change: list[Callable[[str], None]] = []
        """Told the namespace in which something else may hold now."""

    def of(self, namespace: str) -> PolicySet:
        """Those of a namespace, ready for use."""
        found = self._sets.get(namespace)
        if found is None:
            here = [policy for policy in self.entries.values() if policy.namespace == namespace]
            found = self._sets[namespace] = PolicySet(here)
        return found

    def find(self, namespace: str, name: str, *, is_operators: bool) -> Policy:
        """One of them. Raises UnknownEntry."""
        found = self.entries.get((namespace, name, "operator" if is_operators else "user"))
        if found is None:
            raise UnknownEntry(f"no policy {name!r}")
        return found

    async def put(self, policy: Policy) -> None:
        """Set it; it holds when this is answered. Raises InvalidEntry."""
        check_policy(policy)
        await self._administration.put(policy)
        self.changed(policy.namespace)

    async def remove(self, policy: Policy) -> None:
        """It does not hold any more."""
        await self._administration.remove([policy])
        self.changed(policy.namespace)

    def changed(self, namespace: str) -> None:
        """Look anew."""
        self._sets.pop(namespace, None)
        for tell in self.on_change:
            tell(namespace)


class Parameters:
    """Values that are kept for whoever asks."""

    def __init__(self, administration: Administration) -> None:
        self._administration = administration
        self.entries: Mapping[Key, Parameter] = administration.registry.all(Parameter)

    def find(self, namespace: str, component: str, name: str) -> Parameter:
        """One of them. Raises UnknownEntry."""
        found = self.entries.get((namespace, component, name))
        if found is None:
            raise UnknownEntry(f"no parameter {name!r}")
        return found

    async def put(self, parameter: Parameter) -> None:
        """Set it. Raises InvalidEntry."""
        await self._administration.put(parameter)

    async def remove(self, parameter: Parameter) -> None:
        """It is not set any more."""
        await self._administration.remove([parameter])


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _matches(pattern: str, name: str) -> bool:
    """An empty expression fits nothing, as in RabbitMQ; others fit where they are found."""
    if not pattern:
        return False
    return _compiled(pattern).search(name) is not None
