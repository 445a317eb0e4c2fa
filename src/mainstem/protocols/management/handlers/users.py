"""Users, permissions, limits: list, set, remove."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mainstem.broker.broker import Broker
from mainstem.broker.users.access import Access
from mainstem.protocols.management.errors import BadRequest, NotFound
from mainstem.protocols.management.handlers.paths import Call, Path, created
from mainstem.protocols.management.mapping import fields
from mainstem.protocols.management.mapping.administration import (
    permission_from,
    permission_row,
    topic_permission_from,
    topic_permission_row,
    user_from,
    user_row,
)
from mainstem.protocols.management.mapping.listing import listing
from mainstem.protocols.management.mapping.words import namespace_of
from mainstem.wire.http.messages import Response

NOBODY_THERE = "vhost_or_user_not_found"


class UserPaths:
    """/api/users, /api/permissions, /api/topic-permissions, /api/user-limits."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._access = broker.access

    def paths(self) -> list[Path]:
        """What is served here."""
        return [
            Path("GET", "/users", self.list),
            Path("GET", "/users/without-permissions", self.without_permissions),
            Path("POST", "/users/bulk-delete", self.delete_many),
            Path("GET", "/users/{}", self.get),
            Path("PUT", "/users/{}", self.put),
            Path("DELETE", "/users/{}", self.delete),
            Path("GET", "/users/{}/permissions", self.permissions_of_user),
            Path("GET", "/users/{}/topic-permissions", self.topic_permissions_of_user),
            Path("GET", "/permissions", self.permissions),
            Path("GET", "/permissions/{}/{}", self.permission),
            Path("PUT", "/permissions/{}/{}", self.put_permission),
            Path("DELETE", "/permissions/{}/{}", self.delete_permission),
            Path("GET", "/vhosts/{}/permissions", self.permissions_of_host),
            Path("GET", "/topic-permissions", self.topic_permissions),
            Path("GET", "/topic-permissions/{}/{}", self.topic_permission),
            Path("PUT", "/topic-permissions/{}/{}", self.put_topic_permission),
            Path("DELETE", "/topic-permissions/{}/{}", self.delete_topic_permissions),
            Path("DELETE", "/topic-permissions/{}/{}/{}", self.delete_topic_permission),
            Path("GET", "/vhosts/{}/topic-permissions", self.topic_permissions_of_host),
            Path("GET", "/user-limits", self.limits),
            Path("GET", "/user-limits/{}", self.limits_of),
            Path("PUT", "/user-limits/{}/{}", self.put_limit),
            Path("DELETE", "/user-limits/{}/{}", self.delete_limit),
        ]

    # Users

    def list(self, call: Call) -> Any:
        """All."""
        call.caller.need()
        return listing([user_row(user) for user in self._access.all()], call.query)

    def without_permissions(self, call: Call) -> Any:
        """Those who may do nothing yet."""
        call.caller.need()
        known = {permission.user for permission in self._access.permissions()}
        return [user_row(user) for user in self._access.all() if user.name not in known]

    def get(self, call: Call) -> Any:
        """One of them."""
        call.caller.need()
        for user in self._access.all():
            if user.name == call.steps[0]:
                return user_row(user)
        raise NotFound

    async def put(self, call: Call) -> Response:
        """Make a user, or change one."""
        call.caller.need()
        is_new = self._access.find(call.steps[0]) is None
        await put_user(self._access, call.steps[0], call.fields())
        return created(is_new)

    async def delete(self, call: Call) -> None:
        """Remove a user, with all that was permitted."""
        call.caller.need()
        await self._access.remove_user(call.steps[0])

    async def delete_many(self, call: Call) -> None:
        """Remove several."""
        call.caller.need()
        names = call.fields().get("users")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise BadRequest("users must be a list of strings")
        for name in names:
            if self._access.find(name) is not None:
                await self._access.remove_user(name)

    # Permissions

    def permissions(self, call: Call) -> Any:
        """All."""
        call.caller.need()
        return [permission_row(permission) for permission in self._access.permissions()]

    def permissions_of_user(self, call: Call) -> Any:
        """Of one user."""
        call.caller.need()
        return [
            permission_row(permission) for permission in self._access.permissions() if permission.user == call.steps[0]
        ]

    def permissions_of_host(self, call: Call) -> Any:
        """Of one virtual host."""
        namespace = call.caller.enter(call.steps[0])
        return [
            permission_row(permission) for permission in self._access.permissions() if permission.namespace == namespace
        ]

    def permission(self, call: Call) -> Any:
        """Of one user in one virtual host."""
        call.caller.need()
        wanted = (call.steps[1], namespace_of(call.steps[0]))
        for permission in self._access.permissions():
            if permission.key() == wanted:
                return permission_row(permission)
        raise NotFound

    async def put_permission(self, call: Call) -> Response:
        """Permit."""
        call.caller.need()
        namespace, user = self._pair(call)
        is_new = self._access.permission_of(user, namespace) is None
        await self._access.put(permission_from(user, namespace, call.fields()))
        return created(is_new)

    async def delete_permission(self, call: Call) -> None:
        """Permit nothing any more."""
        call.caller.need()
        found = self._access.permission_of(call.steps[1], self._broker.namespaces.get(namespace_of(call.steps[0])).name)
        if found is None:
            raise NotFound
        await self._access.remove([found])

    def topic_permissions(self, call: Call) -> Any:
        """All."""
        call.caller.need()
        return [topic_permission_row(permission) for permission in self._access.topic_permissions.values()]

    def topic_permissions_of_user(self, call: Call) -> Any:
        """Of one user."""
        call.caller.need()
        found = self._access.topic_permissions.values()
        return [topic_permission_row(permission) for permission in found if permission.user == call.steps[0]]

    def topic_permissions_of_host(self, call: Call) -> Any:
        """Of one virtual host."""
        namespace = call.caller.enter(call.steps[0])
        found = self._access.topic_permissions.values()
        return [topic_permission_row(permission) for permission in found if permission.namespace == namespace]

    def topic_permission(self, call: Call) -> Any:
        """Of one user in one virtual host."""
        call.caller.need()
        namespace = namespace_of(call.steps[0])
        found = self._access.topic_permissions.values()
        mine = [each for each in found if each.user == call.steps[1] and each.namespace == namespace]
        if not mine:
            raise NotFound
        return [topic_permission_row(permission) for permission in mine]

    async def put_topic_permission(self, call: Call) -> Response:
        """Permit routing keys of one exchange."""
        call.caller.need()
        namespace, user = self._pair(call)
        wanted = topic_permission_from(user, namespace, call.fields())
        is_new = wanted.key() not in self._access.topic_permissions
        await self._access.put(wanted)
        return created(is_new)

    async def delete_topic_permissions(self, call: Call) -> None:
        """Those of one user in one virtual host."""
        call.caller.need()
        namespace = namespace_of(call.steps[0])
        found = list(self._access.topic_permissions.values())
        mine = [each for each in found if each.user == call.steps[1] and each.namespace == namespace]
        if not mine:
            raise NotFound
        await self._access.remove(mine)

    async def delete_topic_permission(self, call: Call) -> None:
        """That of one exchange."""
        call.caller.need()
        key = (call.steps[1], namespace_of(call.steps[0]), call.steps[2])
        found = self._access.topic_permissions.get(key)
        if found is None:
            raise NotFound
        await self._access.remove([found])

    def _pair(self, call: Call) -> tuple[str, str]:
        namespace, user = namespace_of(call.steps[0]), call.steps[1]
        if self._broker.namespaces.find(namespace) is None or self._access.find(user) is None:
            raise BadRequest(NOBODY_THERE)
        return namespace, user

    # Limits

    def limits(self, call: Call) -> Any:
        """Of all users."""
        call.caller.need()
        return [{"user": user.name, "value": dict(user.limits)} for user in self._access.all() if user.limits]

    def limits_of(self, call: Call) -> Any:
        """Of one."""
        call.caller.need()
        user = self._access.get(call.steps[0])
        return [{"user": user.name, "value": dict(user.limits)}] if user.limits else []

    async def put_limit(self, call: Call) -> None:
        """Set one."""
        await self._change_limit(call, {call.steps[1]: fields.number(call.fields(), "value")})

    async def delete_limit(self, call: Call) -> None:
        """No limit any more."""
        await self._change_limit(call, {})

    async def _change_limit(self, call: Call, added: dict[str, int]) -> None:
        call.caller.need()
        user = self._access.get(call.steps[0])
        kept = {name: value for name, value in user.limits.items() if name != call.steps[1]}
        await self._access.put(msgspec.structs.replace(user, limits=kept | added))


async def put_user(access: Access, name: str, body: Mapping[str, Any]) -> None:
    """Make a user, or change one. Raises BadRequest, InvalidEntry."""
    user, password = user_from(name, body, access.find(name))
    if password:
        await access.set_password(user, password)
    else:
        await access.put(user)
