"""Virtual hosts, users, permissions, limits, policies, parameters: list, set, remove."""

from __future__ import annotations

from typing import Any

import msgspec

from mainstem.broker.administration import Namespace, Parameter, Policy, User
from mainstem.broker.broker import Broker
from mainstem.protocols.management.errors import BadRequest, NotFound
from mainstem.protocols.management.handlers.callers import ADMINISTRATOR, GUEST, MONITORING, POLICYMAKER, Caller
from mainstem.protocols.management.handlers.paths import Call, Path, created
from mainstem.protocols.management.mapping import fields
from mainstem.protocols.management.mapping.administration import (
    namespace_from,
    namespace_row,
    parameter_row,
    permission_from,
    permission_row,
    policy_from,
    policy_row,
    topic_permission_from,
    topic_permission_row,
    user_from,
    user_row,
)
from mainstem.protocols.management.mapping.listing import Row, listing, one
from mainstem.protocols.management.mapping.words import host_of, namespace_of
from mainstem.wire.http.messages import Response


class HostPaths:
    """/api/vhosts, /api/vhost-limits."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def paths(self) -> list[Path]:
        """What is served here."""
        return [
            Path("GET", "/vhosts", self.list),
            Path("GET", "/vhosts/{}", self.get),
            Path("PUT", "/vhosts/{}", self.put),
            Path("DELETE", "/vhosts/{}", self.delete),
            Path("GET", "/vhost-limits", self.limits),
            Path("GET", "/vhost-limits/{}", self.limits_of),
            Path("PUT", "/vhost-limits/{}/{}", self.put_limit),
            Path("DELETE", "/vhost-limits/{}/{}", self.delete_limit),
        ]

    def list(self, call: Call) -> Any:
        """Those that the caller may see."""
        seen = call.caller.visible(self._broker.namespaces.all(), lambda namespace: namespace.name)
        return listing([self._row(namespace) for namespace in seen], call.query)

    def get(self, call: Call) -> Any:
        """One of them."""
        return one(self._row(self._broker.namespaces.get(call.caller.enter(call.steps[0]))), call.query)

    async def put(self, call: Call) -> Response:
        """Create it, or change what is said of it."""
        call.caller.need()
        namespace = namespace_of(call.steps[0])
        present = self._broker.namespaces.find(namespace)
        await self._broker.namespaces.put(namespace_from(namespace, call.fields(), present))
        return created(present is None)

    async def delete(self, call: Call) -> None:
        """Remove it with all that is in it."""
        call.caller.need()
        namespace = self._broker.namespaces.get(call.caller.enter(call.steps[0])).name
        if call.steps[0] == "/":
            raise BadRequest("the default virtual host stays")
        if self._broker.dialect is not None:
            for facts in self._broker.dialect.connections():
                if facts.namespace == namespace:
                    facts.close(f"vhost '{call.steps[0]}' is deleted")
        for queue in self._broker.queues.all(namespace):
            await self._broker.queues.delete(queue)
        await self._broker.routes.of(namespace).clear()
        await self._broker.namespaces.remove(namespace)
        self._broker.routes.forget(namespace)

    def _row(self, namespace: Namespace) -> Row:
        queues = self._broker.queues.all(namespace.name)
        ready = sum(queue.ready_count for queue in queues)
        unsettled = sum(queue.unsettled_count for queue in queues)
        counts = {"messages": ready + unsettled, "messages_ready": ready, "messages_unacknowledged": unsettled}
        return {**namespace_row(namespace), **counts}

    def limits(self, call: Call) -> Any:
        """Of all virtual hosts that the caller may see."""
        seen = call.caller.visible(self._broker.namespaces.all(), lambda namespace: namespace.name)
        return [_limits_row(namespace) for namespace in seen if namespace.limits]

    def limits_of(self, call: Call) -> Any:
        """Of one."""
        namespace = self._broker.namespaces.get(call.caller.enter(call.steps[0]))
        return [_limits_row(namespace)] if namespace.limits else []

    async def put_limit(self, call: Call) -> None:
        """Set one."""
        value = fields.number(call.fields(), "value")
        await self._change_limit(call, {call.steps[1]: value})

    async def delete_limit(self, call: Call) -> None:
        """No limit any more."""
        await self._change_limit(call, {})

    async def _change_limit(self, call: Call, added: dict[str, int]) -> None:
        call.caller.need()
        namespace = self._broker.namespaces.get(call.caller.enter(call.steps[0]))
        kept = {name: value for name, value in namespace.limits.items() if name != call.steps[1]}
        await self._broker.namespaces.put(msgspec.structs.replace(namespace, limits=kept | added))


def _limits_row(namespace: Namespace) -> Row:
    return {"vhost": host_of(namespace.name), "value": dict(namespace.limits)}


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
            Path("GET", "/vhosts/{}/topic-permissions", self.topic_permissions_of_host),
            Path("GET", "/user-limits", self.limits),
            Path("GET", "/user-limits/{}", self.limits_of),
            Path("PUT", "/user-limits/{}/{}", self.put_limit),
            Path("DELETE", "/user-limits/{}/{}", self.delete_limit),
        ]

    # Users

    def _users(self) -> list[User]:
        """Those that were made; and `guest`, who is there from the start."""
        made = list(self._access.users.values())
        guest = User(GUEST, tags=(ADMINISTRATOR,))
        return made if self._access.find(GUEST) else [guest, *made]

    def list(self, call: Call) -> Any:
        """All."""
        call.caller.need(MONITORING)
        return listing([user_row(user) for user in self._users()], call.query)

    def without_permissions(self, call: Call) -> Any:
        """Those who may do nothing yet."""
        call.caller.need(MONITORING)
        known = {permission.user for permission in self._access.permissions.values()}
        return [user_row(user) for user in self._access.users.values() if user.name not in known]

    def get(self, call: Call) -> Any:
        """One of them."""
        call.caller.need(MONITORING)
        for user in self._users():
            if user.name == call.steps[0]:
                return user_row(user)
        raise NotFound("Not Found")

    async def put(self, call: Call) -> Response:
        """Make a user, or change one."""
        call.caller.need()
        is_new = self._access.find(call.steps[0]) is None
        await self._access.put(user_from(call.steps[0], call.fields(), self._access))
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
        call.caller.need(MONITORING)
        return [permission_row(permission) for permission in self._access.permissions.values()]

    def permissions_of_user(self, call: Call) -> Any:
        """Of one user."""
        call.caller.need(MONITORING)
        found = self._access.permissions.values()
        return [permission_row(permission) for permission in found if permission.user == call.steps[0]]

    def permissions_of_host(self, call: Call) -> Any:
        """Of one virtual host."""
        namespace = call.caller.enter(call.steps[0])
        found = self._access.permissions.values()
        return [permission_row(permission) for permission in found if permission.namespace == namespace]

    def permission(self, call: Call) -> Any:
        """Of one user in one virtual host."""
        call.caller.need(MONITORING)
        found = self._access.permissions.get((call.steps[1], namespace_of(call.steps[0])))
        if found is None:
            raise NotFound("Not Found")
        return permission_row(found)

    async def put_permission(self, call: Call) -> Response:
        """Permit."""
        call.caller.need()
        namespace, user = self._pair(call)
        is_new = (user, namespace) not in self._access.permissions
        await self._access.put(permission_from(user, namespace, call.fields()))
        return created(is_new)

    async def delete_permission(self, call: Call) -> None:
        """Permit nothing any more."""
        call.caller.need()
        found = self._access.permissions.get((call.steps[1], namespace_of(call.steps[0])))
        if found is None:
            raise NotFound("Not Found")
        await self._access.remove([found])

    def topic_permissions(self, call: Call) -> Any:
        """All."""
        call.caller.need(MONITORING)
        return [topic_permission_row(permission) for permission in self._access.topic_permissions.values()]

    def topic_permissions_of_user(self, call: Call) -> Any:
        """Of one user."""
        call.caller.need(MONITORING)
        found = self._access.topic_permissions.values()
        return [topic_permission_row(permission) for permission in found if permission.user == call.steps[0]]

    def topic_permissions_of_host(self, call: Call) -> Any:
        """Of one virtual host."""
        namespace = call.caller.enter(call.steps[0])
        found = self._access.topic_permissions.values()
        return [topic_permission_row(permission) for permission in found if permission.namespace == namespace]

    def topic_permission(self, call: Call) -> Any:
        """Of one user in one virtual host."""
        call.caller.need(MONITORING)
        namespace = namespace_of(call.steps[0])
        found = self._access.topic_permissions.values()
        mine = [each for each in found if each.user == call.steps[1] and each.namespace == namespace]
        if not mine:
            raise NotFound("Not Found")
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
            raise NotFound("Not Found")
        await self._access.remove(mine)

    def _pair(self, call: Call) -> tuple[str, str]:
        namespace = self._broker.namespaces.get(namespace_of(call.steps[0])).name
        return namespace, self._access.get(call.steps[1]).name

    # Limits

    def limits(self, call: Call) -> Any:
        """Of all users."""
        call.caller.need(MONITORING)
        return [{"user": user.name, "value": dict(user.limits)} for user in self._access.users.values() if user.limits]

    def limits_of(self, call: Call) -> Any:
        """Of one."""
        call.caller.need(MONITORING)
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


class PolicyPaths:
    """/api/policies, or /api/operator-policies."""

    def __init__(self, broker: Broker, *, is_operators: bool) -> None:
        self._broker = broker
        self._is_operators = is_operators

    def paths(self) -> list[Path]:
        """What is served here."""
        root = "/operator-policies" if self._is_operators else "/policies"
        return [
            Path("GET", root, self.list),
            Path("GET", root + "/{}", self.list_host),
            Path("GET", root + "/{}/{}", self.get),
            Path("PUT", root + "/{}/{}", self.put),
            Path("DELETE", root + "/{}/{}", self.delete),
        ]

    def _all(self) -> list[Policy]:
        return [
            policy for policy in self._broker.policies.entries.values() if policy.is_operators is self._is_operators
        ]

    def list(self, call: Call) -> Any:
        """Of all virtual hosts that the caller may see."""
        self._need(call.caller)
        seen = call.caller.visible(self._all(), lambda policy: policy.namespace)
        return listing([policy_row(policy) for policy in seen], call.query)

    def list_host(self, call: Call) -> Any:
        """Of one virtual host."""
        self._need(call.caller)
        namespace = call.caller.enter(call.steps[0])
        return [policy_row(policy) for policy in self._all() if policy.namespace == namespace]

    def get(self, call: Call) -> Any:
        """One of them."""
        self._need(call.caller)
        return policy_row(self._find(call))

    async def put(self, call: Call) -> Response:
        """Set it; it holds at once."""
        self._need(call.caller)
        namespace = call.caller.enter(call.steps[0])
        wanted = policy_from(namespace, call.steps[1], call.fields(), is_operators=self._is_operators)
        is_new = wanted.key() not in self._broker.policies.entries
        await self._broker.policies.put(wanted)
        return created(is_new)

    async def delete(self, call: Call) -> None:
        """It does not hold any more."""
        self._need(call.caller)
        await self._broker.policies.remove(self._find(call))

    def _need(self, caller: Caller) -> None:
        if self._is_operators:
            caller.need()
        else:
            caller.need(POLICYMAKER)

    def _find(self, call: Call) -> Policy:
        namespace = call.caller.enter(call.steps[0])
        return self._broker.policies.find(namespace, call.steps[1], is_operators=self._is_operators)


class ParameterPaths:
    """/api/parameters, /api/global-parameters."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._parameters = broker.parameters

    def paths(self) -> list[Path]:
        """What is served here."""
        return [
            Path("GET", "/parameters", self.list),
            Path("GET", "/parameters/{}", self.list),
            Path("GET", "/parameters/{}/{}", self.list),
            Path("GET", "/parameters/{}/{}/{}", self.get),
            Path("PUT", "/parameters/{}/{}/{}", self.put),
            Path("DELETE", "/parameters/{}/{}/{}", self.delete),
            Path("GET", "/global-parameters", self.list_global),
            Path("GET", "/global-parameters/{}", self.get_global),
            Path("PUT", "/global-parameters/{}", self.put_global),
            Path("DELETE", "/global-parameters/{}", self.delete_global),
        ]

    def list(self, call: Call) -> Any:
        """All, of one component, or of one component in one virtual host."""
        call.caller.need(POLICYMAKER)
        steps = [*call.steps, "", ""]
        found = [each for each in self._parameters.entries.values() if each.component]
        if steps[0]:
            found = [each for each in found if each.component == steps[0]]
        if steps[1]:
            namespace = call.caller.enter(steps[1])
            found = [each for each in found if each.namespace == namespace]
        return [parameter_row(each) for each in found]

    def get(self, call: Call) -> Any:
        """One of them."""
        call.caller.need(POLICYMAKER)
        return parameter_row(self._find(call))

    async def put(self, call: Call) -> Response:
        """Set it."""
        call.caller.need(POLICYMAKER)
        component, host, name = call.steps
        namespace = call.caller.enter(host)
        body = call.fields()
        if "value" not in body:
            raise BadRequest("key_missing: value")
        wanted = Parameter(namespace, component, name, body["value"])
        is_new = wanted.key() not in self._parameters.entries
        await self._parameters.put(wanted)
        return created(is_new)

    async def delete(self, call: Call) -> None:
        """It is not set any more."""
        call.caller.need(POLICYMAKER)
        await self._parameters.remove(self._find(call))

    def _find(self, call: Call) -> Parameter:
        component, host, name = call.steps
        return self._parameters.find(call.caller.enter(host), component, name)

    def list_global(self, call: Call) -> Any:
        """Those of no component."""
        call.caller.need(POLICYMAKER)
        found = self._parameters.entries.values()
        return [{"name": each.name, "value": each.value} for each in found if not each.component]

    def get_global(self, call: Call) -> Any:
        """One of them."""
        call.caller.need(POLICYMAKER)
        found = self._parameters.find("", "", call.steps[0])
        return {"name": found.name, "value": found.value}

    async def put_global(self, call: Call) -> Response:
        """Set it."""
        call.caller.need(POLICYMAKER)
        body = call.fields()
        if "value" not in body:
            raise BadRequest("key_missing: value")
        wanted = Parameter("", "", call.steps[0], body["value"])
        is_new = wanted.key() not in self._parameters.entries
        await self._parameters.put(wanted)
        return created(is_new)

    async def delete_global(self, call: Call) -> None:
        """It is not set any more."""
        call.caller.need(POLICYMAKER)
        await self._parameters.remove(self._parameters.find("", "", call.steps[0]))
