"""What operators set, durable when answered: namespaces, policies, parameters; users are in `users`.

Changes are made one after the other and applied when they are durable, as those of the catalog are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

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
from mainstem.coordination.administration.errors import InvalidEntry, UnknownEntry, UnknownNamespace
from mainstem.coordination.administration.passwords import HASHINGS, SHA256, hashing_of, is_password_hash
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

_DEFAULT = Namespace(DEFAULT_NAMESPACE, "Default virtual host")


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
        await self.put_all([entry])

    async def put_all(self, entries: Iterable[Entry]) -> None:
        """Set all of them, or none. Raises InvalidEntry."""
        await self.replace((), entries)

    async def remove(self, entries: Iterable[Entry]) -> None:
        """They are not set any more."""
        await self.replace(entries, ())

    async def replace(self, gone: Iterable[Entry], entries: Iterable[Entry]) -> None:
        """The first are not set any more, the others are, by one commit. Raises InvalidEntry."""
        async with self._changes_lock:
            added = [self.registry.decide_put(entry) for entry in entries]
            replaced = {mutation.key for mutation in added}
            removed = [each for each in self.registry.decide_remove(gone) if each.key not in replaced]
            await self._commit([*removed, *added])

    async def take_over(self, entries: Iterable[Entry], others: Iterable[Mutation]) -> None:
        """Set what was kept elsewhere until now, and remove it there, by one commit. Raises InvalidEntry."""
        async with self._changes_lock:
            added = [self.registry.decide_put(entry) for entry in entries]
            await self._commit(added, others)

    async def _commit(self, state: list[Mutation], others: Iterable[Mutation] = ()) -> None:
        (outcome,) = await self._engine.commit([Commit(state=[*state, *others])])
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
    """Values that are kept for tools."""

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
