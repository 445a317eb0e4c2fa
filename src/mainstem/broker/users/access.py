"""Users and what they may do. What is not known may nothing."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import msgspec

from mainstem.broker.administration import Administration, Namespaces
from mainstem.broker.clock import Clock
from mainstem.broker.users.callers import ADMINISTRATOR, Action, Caller
from mainstem.broker.users.passwords import Passwords
from mainstem.coordination.administration.entries import (
    DelegationToken,
    Entry,
    Key,
    Permission,
    Secret,
    Session,
    TopicPermission,
    User,
)
from mainstem.coordination.administration.errors import UnknownUser
from mainstem.model.errors import MainstemError

log = logging.getLogger(__name__)

GUEST = "guest"
"""Is there from the start, with its name as password, and may do everything; is let in from this machine alone."""
ANONYMOUS = "anonymous"
"""Who does not say who it is. May do everything, and is let in from this machine alone; a user of this name that is disabled
closes the door to all of them."""
STRANGERS = "strangers"
"""Names the secret from which salts of users are made who are not here."""
SECRET_BYTES = 32


class Access:
    """Users, their permissions, and the callers that are connected."""

    def __init__(
        self,
        administration: Administration,
        namespaces: Namespaces,
        clock: Clock,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._administration = administration
        self._namespaces = namespaces
        self._random = random
        self.clock = clock
        self.passwords = Passwords(random)
        self._secrets: Mapping[Key, Secret] = administration.registry.all(Secret)
        self._strangers = Secret(STRANGERS, random(SECRET_BYTES))
        self._users: Mapping[Key, User] = administration.registry.all(User)
        self._permissions: Mapping[Key, Permission] = administration.registry.all(Permission)
        self.topic_permissions: Mapping[Key, TopicPermission] = administration.registry.all(TopicPermission)
        self._guest = User(GUEST, self.passwords.hash(GUEST), tags=(ADMINISTRATOR,))
        self._changes_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.callers: dict[str, set[Caller]] = {}
        """Those with a connection, by name; as many as there are connections."""

    # Users

    def find(self, name: str) -> User | None:
        """The user of this name."""
        found = self._users.get((name,))
        if found is None:
            return self._guest if name == GUEST else None
        return None if found.is_removed else found

    def get(self, name: str) -> User:
        """The user of this name. Raises UnknownUser."""
        found = self.find(name)
        if found is None:
            raise UnknownUser(f"no user {name!r}")
        return found

    def all(self) -> list[User]:
        """All users; `guest` is among them until it is removed."""
        stored = self.stored()
        return [self._guest, *stored] if (GUEST,) not in self._users else stored

    def stored(self) -> list[User]:
        """Those that somebody made or changed."""
        return [user for user in self._users.values() if not user.is_removed]

    @property
    def has_anonymous(self) -> bool:
        """Whether anybody may come in without saying who it is."""
        found = self.find(ANONYMOUS)
        return found is None or not found.is_disabled

    def is_first(self, user: User) -> bool:
        """Whether it is `guest` as the broker made it, with the password that everybody knows."""
        return user is self._guest

    def is_first_password(self, user: User, password: bytes) -> bool:
        """Whether it is that password."""
        return user.name.encode() == password

    @property
    def strangers_secret(self) -> bytes:
        """What is told to strangers as if they were users is made from it. It stays the same once a user is stored."""
        return self._secrets.get((STRANGERS,), self._strangers).value

    async def keep_secret(self) -> None:
        """Store it, if that has not happened yet."""
        async with self._changes_lock:
            if unkept := self._unkept_secret():
                await self._administration.put_all(unkept)

    def _unkept_secret(self) -> list[Entry]:
        return [] if (STRANGERS,) in self._secrets else [self._strangers]

    def admit(self, name: str, host: str = "", *, is_superuser: bool = False) -> Caller:
        """Somebody has proven to be this user."""
        return Caller(self, name, host, is_superuser=is_superuser)

    # Permissions

    def permission_of(self, name: str, namespace: str) -> Permission | None:
        """What a user may do in a namespace."""
        if self.find(name) is None:
            return None
        if self._is_first_guest(name):
            return Permission(GUEST, namespace, ".*", ".*", ".*")
        return self._permissions.get((name, namespace))

    def permissions(self) -> list[Permission]:
        """All of them, with those of `guest`."""
        return [*self._of_first_guest(), *self._permissions.values()]

    def stored_permissions(self) -> list[Permission]:
        """Those that somebody gave."""
        return list(self._permissions.values())

    def permits(self, name: str, namespace: str, action: Action, resource: str) -> bool:
        """Whether the user may do this with a queue or an exchange of this name."""
        permission = self.permission_of(name, namespace)
        # RabbitMQ lets the exchange without a name be matched by its alias.
        return permission is not None and _matches(getattr(permission, action), resource or "amq.default")

    def permits_key(
        self, name: str, namespace: str, exchange: str, action: Action, routing_key: str, host: str
    ) -> bool:
        """Whether the user may use this routing key of a topic exchange; where nothing was set, any."""
        permission = self.topic_permissions.get((name, namespace, exchange))
        if permission is None:
            return self.find(name) is not None
        pattern = permission.write if action == "write" else permission.read
        return _matches(_expanded(pattern, name, host), routing_key)

    # Changes

    async def put(self, entry: User | Permission | TopicPermission) -> None:
        """Set it. Raises InvalidEntry, UnknownUser."""
        async with self._changes_lock:
            if isinstance(entry, User):
                name = entry.name
            else:
                name = self.get(entry.user).name
            kept = self.kept_of_guest() if name == GUEST else []
            await self._administration.put_all([*self._unkept_secret(), *kept, entry])
        if isinstance(entry, User) and entry.is_disabled:
            self.end_callers(name, f"user '{name}' is disabled")

    async def set_password(self, user: User, password: str) -> User:
        """Set the user, with this password and no other; the name may be new. Raises InvalidEntry."""
        made = (await self.passwords.keep(password)).put_into(user)
        await self.put(made)
        return made

    def keep_verifiers_later(self, user: User, password: bytes) -> None:
        """A user with nothing but a hash has given the right password: from now on SCRAM knows it, too."""
        task = asyncio.get_running_loop().create_task(self._keep_verifiers(user, password.decode("utf-8", "replace")))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep_verifiers(self, user: User, password: str) -> None:
        made = await self.passwords.keep(password)
        async with self._changes_lock:
            if self._users.get(user.key()) is not user:
                return
            try:
                await self._administration.put(msgspec.structs.replace(user, verifiers=dict(made.verifiers)))
            except MainstemError as error:
                log.warning("what SCRAM needs of user %r is not stored: %s", user.name, error)

    async def remove_user(self, name: str) -> None:
        """With all that was permitted; its connections are closed. Raises UnknownUser."""
        self.get(name)
        await self.alter([], [name])
        self.end_callers(name, f"user '{name}' is deleted")

    async def alter(self, changed: Iterable[User], removed: Iterable[str]) -> None:
        """Set some users and remove others, by one commit. Connections stay; `end_callers` closes them. Raises InvalidEntry."""
        async with self._changes_lock:
            gone: list[Entry] = []
            put: list[Entry] = self._unkept_secret()
            for user in changed:
                put += [*self.kept_of_guest(), user] if user.name == GUEST else [user]
            for name in removed:
                gone += [user for user in self._users.values() if user.name == name]
                gone += [entry for entry in self._permissions.values() if entry.user == name]
                gone += [entry for entry in self.topic_permissions.values() if entry.user == name]
                registry = self._administration.registry
                gone += [entry for entry in registry.all(Session).values() if entry.user == name]
                gone += [entry for entry in registry.all(DelegationToken).values() if entry.owner == name]
                # That there is no guest must be kept: without a record there is one.
                put += [User(GUEST, is_removed=True)] if name == GUEST else []
            await self._administration.replace(gone, put)

    def has_rights(self, name: str) -> bool:
        """Whether anything was given to a user beside a password."""
        user = self.find(name)
        if user is None:
            return False
        given: list[Permission | TopicPermission] = [*self._permissions.values(), *self.topic_permissions.values()]
        return bool(user.tags or user.limits or user.is_disabled) or any(entry.user == name for entry in given)

    async def remove(self, entries: Iterable[Permission | TopicPermission]) -> None:
        """These are not permitted any more; who has lost a namespace leaves it."""
        gone = list(entries)
        async with self._changes_lock:
            kept = self.kept_of_guest() if any(entry.user == GUEST for entry in gone) else []
            await self._administration.replace(gone, [entry for entry in kept if entry not in gone])
        for entry in gone:
            if isinstance(entry, Permission):
                reason = f"user '{entry.user}' has lost its permissions on the virtual host"
                self.end_callers(entry.user, reason, entry.namespace)

    def end_callers(self, name: str, reason: str, namespace: str | None = None) -> None:
        """Close the connections of a user: all of them, or those that work in a namespace."""
        for caller in list(self.callers.get(name, ())):
            # Who the settings name stays, whatever happens to a record of the same name.
            is_of_settings = caller.is_superuser and caller.name != ANONYMOUS
            if not is_of_settings and namespace in (None, caller.namespace):
                caller.end(reason)

    # The guest of the first start

    def _is_first_guest(self, name: str) -> bool:
        """Whether it is `guest` as the broker made it: nobody has changed it yet."""
        return name == GUEST and (GUEST,) not in self._users

    def _of_first_guest(self) -> list[Permission]:
        if not self._is_first_guest(GUEST):
            return []
        return [Permission(GUEST, each.name, ".*", ".*", ".*") for each in self._namespaces.all()]

    def kept_of_guest(self) -> list[Entry]:
        """What must be stored before anything about `guest` changes, so that nobody is locked out by a new password."""
        return [self._guest, *self._of_first_guest()] if self._is_first_guest(GUEST) else []


def _expanded(pattern: str, user: str, host: str) -> str:
    """RabbitMQ's variables in topic permissions; names are matched as they are written."""
    if "{" not in pattern:
        return pattern
    return pattern.replace("{username}", re.escape(user)).replace("{vhost}", re.escape(host))


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _matches(pattern: str, name: str) -> bool:
    """An empty expression fits nothing, as in RabbitMQ; others fit where they are found."""
    if not pattern:
        return False
    return _compiled(pattern).search(name) is not None
