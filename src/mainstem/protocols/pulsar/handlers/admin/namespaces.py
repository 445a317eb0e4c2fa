"""Namespaces and what is set for them."""

from __future__ import annotations

from typing import Any, NamedTuple

from mainstem.protocols.pulsar.handlers.admin.paths import (
    BAD_REQUEST,
    CONFLICT,
    NOT_FOUND,
    PRECONDITION,
    AdminRefused,
    Call,
    Handler,
    Path,
    not_here,
)
from mainstem.protocols.pulsar.handlers.parts import PulsarParts
from mainstem.protocols.pulsar.mapping.names import PUBLIC, SYSTEM, namespace_of

BASE = "admin/v2/namespaces/{}/{}"


class Policy(NamedTuple):
    """Something that may be set for a namespace, and mostly for a topic."""

    path: str
    name: str
    """In the list of all policies."""
    kinds: tuple[type, ...]
    default: Any = None
    """What is answered where nothing is set."""
    is_for_topics: bool = True


POLICIES = (
    Policy("retention", "retention_policies", (dict,)),
    Policy("messageTTL", "message_ttl_in_seconds", (int,)),
    Policy("dispatchRate", "topicDispatchRate", (dict,)),
    Policy("subscriptionDispatchRate", "subscriptionDispatchRate", (dict,)),
    Policy("subscribeRate", "clusterSubscribeRate", (dict,)),
    Policy("publishRate", "publishMaxMessageRate", (dict,)),
    Policy("maxProducersPerTopic", "max_producers_per_topic", (int,)),
    Policy("maxProducers", "max_producers_per_topic", (int,)),
    Policy("maxConsumersPerTopic", "max_consumers_per_topic", (int,)),
    Policy("maxConsumers", "max_consumers_per_topic", (int,)),
    Policy("maxConsumersPerSubscription", "max_consumers_per_subscription", (int,)),
    Policy("maxSubscriptionsPerTopic", "max_subscriptions_per_topic", (int,)),
    Policy("maxUnackedMessagesPerConsumer", "max_unacked_messages_per_consumer", (int,)),
    Policy("maxUnackedMessagesPerSubscription", "max_unacked_messages_per_subscription", (int,)),
    Policy("delayedDelivery", "delayed_delivery_policies", (dict,)),
    Policy("inactiveTopicPolicies", "inactive_topic_policies", (dict,)),
    Policy("autoTopicCreation", "autoTopicCreationOverride", (dict,), is_for_topics=False),
    Policy("autoSubscriptionCreation", "autoSubscriptionCreationOverride", (dict,)),
    Policy("subscriptionTypesEnabled", "subscription_types_enabled", (list,), []),
    Policy("subscriptionExpirationTime", "subscription_expiration_time_minutes", (int,), is_for_topics=False),
    Policy("compactionThreshold", "compaction_threshold", (int,)),
    Policy("deduplication", "deduplicationEnabled", (bool,)),
    Policy("deduplicationEnabled", "deduplicationEnabled", (bool,)),
    Policy("deduplicationSnapshotInterval", "deduplicationSnapshotIntervalSeconds", (int,)),
    Policy("schemaValidationEnforced", "schema_validation_enforced", (bool,), default=False),
    Policy("schemaCompatibilityStrategy", "schema_compatibility_strategy", (str,), "UNDEFINED"),
    Policy("isAllowAutoUpdateSchema", "is_allow_auto_update_schema", (bool,), is_for_topics=False),
    Policy("encryptionRequired", "encryption_required", (bool,), default=False, is_for_topics=False),
    Policy("properties", "properties", (dict,), {}, is_for_topics=False),
    Policy("maxTopicsPerNamespace", "max_topics_per_namespace", (int,), is_for_topics=False),
)
"""Those that act are in docs/protocols/pulsar.md; the others are kept and shown."""
NOT_HERE = (
    ("persistence", "policies of bookies"),
    ("offloadPolicies", "offload policies"),
    ("offloadThreshold", "offload policies"),
    ("antiAffinity", "anti-affinity groups"),
    ("replicatorDispatchRate", "replicators"),
    ("resourcegroup", "resource groups"),
)


def check_policy(policy: Policy, call: Call) -> Any:
    """The value that a call sets. Raises AdminRefused."""
    found = call.body()
    is_flag = isinstance(found, bool)
    if not isinstance(found, policy.kinds) or (is_flag and bool not in policy.kinds):
        raise AdminRefused(BAD_REQUEST, f"{policy.path} is set to a value of another kind")
    if isinstance(found, int) and not is_flag and found < -1:
        raise AdminRefused(PRECONDITION, f"Invalid value for {policy.path}: {found}")
    return found


class NamespacePaths:
    """What is asked about namespaces."""

    def __init__(self, parts: PulsarParts) -> None:
        self._parts = parts
        self._book = parts.book

    def paths(self) -> list[Path]:
        """All of them."""
        policies = [path for policy in POLICIES for path in self._policy_paths(policy)]
        refused = [
            Path(method, f"{BASE}/{name}", not_here(what)) for name, what in NOT_HERE for method in ("POST", "PUT")
        ]
        return [
            Path("GET", "admin/v2/namespaces/{}", self.list_all),
            Path("GET", BASE, self.policies),
            Path("PUT", BASE, self.create),
            Path("DELETE", BASE, self.remove),
            Path("GET", f"{BASE}/topics", self.topics),
            Path("GET", f"{BASE}/bundles", lambda call: self._bundles()),
            Path("PUT", f"{BASE}/unload", self._known_only),
            Path("GET", f"{BASE}/replication", lambda call: [self._parts.settings.cluster_name]),
            Path("POST", f"{BASE}/replication", self.replicate),
            Path("GET", f"{BASE}/permissions", self.permissions),
            Path("POST", f"{BASE}/permissions/{{}}", self.permit),
            Path("DELETE", f"{BASE}/permissions/{{}}", self.forbid),
            Path("GET", f"{BASE}/backlogQuotaMap", self.quotas),
            Path("POST", f"{BASE}/backlogQuota", self.put_quota),
            Path("DELETE", f"{BASE}/backlogQuota", self.remove_quota),
            Path("POST", f"{BASE}/clearBacklog", self.clear_backlog),
            *policies,
            *refused,
        ]

    def _policy_paths(self, policy: Policy) -> list[Path]:
        def show(call: Call) -> Any:
            return self._book.policies(self._known(call)).get(policy.name, policy.default)

        async def put(call: Call) -> None:
            place = self._known(call)
            await self._book.put_policy(place, policy.name, check_policy(policy, call))

        async def remove(call: Call) -> None:
            await self._book.put_policy(self._known(call), policy.name, None)

        path = f"{BASE}/{policy.path}"
        changing: list[tuple[str, Handler]] = [("POST", put), ("PUT", put), ("DELETE", remove)]
        return [Path("GET", path, show), *(Path(method, path, handler) for method, handler in changing)]

    def _known(self, call: Call) -> str:
        place = call.place
        if not self._book.has_place(place):
            raise AdminRefused(NOT_FOUND, f"Namespace does not exist: {place}")
        return place

    def _known_only(self, call: Call) -> None:
        self._known(call)

    def list_all(self, call: Call) -> list[str]:
        """Of a tenant."""
        tenant = call.steps[0]
        if tenant not in self._book.tenants():
            raise AdminRefused(NOT_FOUND, f"Tenant does not exist: {tenant}")
        return [place for place in self._book.places() if place.startswith(f"{tenant}/")]

    def _bundles(self) -> dict[str, Any]:
        return {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}

    def policies(self, call: Call) -> dict[str, Any]:
        """All that is set for one."""
        stored = self._book.policies(self._known(call))
        permissions = stored.get("auth_policies", {})
        return {
            "auth_policies": {
                "namespace_auth": permissions,
                "destination_auth": {},
                "subscription_auth_roles": {},
            },
            "replication_clusters": [self._parts.settings.cluster_name],
            "bundles": self._bundles(),
            "backlog_quota_map": stored.get("backlog_quota_map", {}),
            "deleted": False,
            **{name: value for name, value in stored.items() if name not in ("auth_policies", "backlog_quota_map")},
        }

    async def create(self, call: Call) -> None:
        """One more, of a tenant that is there."""
        place = call.place
        if call.steps[0] not in self._book.tenants():
            raise AdminRefused(NOT_FOUND, f"Tenant does not exist: {call.steps[0]}")
        if self._book.has_place(place):
            raise AdminRefused(CONFLICT, "Namespace already exists")
        body = call.body()
        if isinstance(body, dict):
            self._check_clusters(body.get("replication_clusters") or [])
        await self._book.add_place(place)

    async def remove(self, call: Call) -> None:
        """One that has no topics; by force, with all that is in it."""
        place = self._known(call)
        if place in (PUBLIC, SYSTEM):
            raise AdminRefused(PRECONDITION, f"the namespace {place} stays")
        topics = list(self._parts.broker.topics.named(namespace_of(place)).values())
        if topics and not call.is_set("force"):
            raise AdminRefused(CONFLICT, "Cannot delete non empty namespace")
        for topic in topics:
            await self._parts.delete_topic(topic)
        await self._book.remove_place(place)

    def topics(self, call: Call) -> list[str]:
        """Each partition by its own name."""
        place = self._known(call)
        return [] if call.query.get("mode") == "NON_PERSISTENT" else self._parts.topics.names(place)

    def _check_clusters(self, clusters: list[Any]) -> None:
        if any(one != self._parts.settings.cluster_name for one in clusters):
            raise AdminRefused(PRECONDITION, "there is no geo-replication: only the own cluster can be named")

    def replicate(self, call: Call) -> None:
        """To our own cluster alone."""
        self._known(call)
        self._check_clusters(call.body() or [])

    # Permissions

    def permissions(self, call: Call) -> dict[str, Any]:
        """By role."""
        found: dict[str, Any] = self._book.policies(self._known(call)).get("auth_policies", {})
        return found

    async def permit(self, call: Call) -> None:
        """A role may do these things."""
        place = self._known(call)
        actions = call.body()
        if not isinstance(actions, list) or not all(isinstance(one, str) for one in actions):
            raise AdminRefused(BAD_REQUEST, "a list of actions is expected")
        permissions = {**self._book.policies(place).get("auth_policies", {}), call.steps[2]: sorted(set(actions))}
        await self._book.put_policy(place, "auth_policies", permissions)

    async def forbid(self, call: Call) -> None:
        """A role may do nothing."""
        place = self._known(call)
        permissions = dict(self._book.policies(place).get("auth_policies", {}))
        permissions.pop(call.steps[2], None)
        await self._book.put_policy(place, "auth_policies", permissions)

    # Quotas

    def quotas(self, call: Call) -> dict[str, Any]:
        """By type."""
        found: dict[str, Any] = self._book.policies(self._known(call)).get("backlog_quota_map", {})
        return found

    async def put_quota(self, call: Call) -> None:
        """One of its type."""
        place = self._known(call)
        kind = call.query.get("backlogQuotaType", "destination_storage")
        quotas = {**self._book.policies(place).get("backlog_quota_map", {}), kind: call.object()}
        await self._book.put_policy(place, "backlog_quota_map", quotas)

    async def remove_quota(self, call: Call) -> None:
        """It is not set."""
        place = self._known(call)
        quotas = dict(self._book.policies(place).get("backlog_quota_map", {}))
        quotas.pop(call.query.get("backlogQuotaType", "destination_storage"), None)
        await self._book.put_policy(place, "backlog_quota_map", quotas)

    async def clear_backlog(self, call: Call) -> None:
        """All subscriptions of all topics go to the end."""
        namespace = namespace_of(self._known(call))
        for subscription in self._parts.broker.topic_subscriptions.all():
            if subscription.entry.namespace == namespace:
                await self._parts.clear(subscription)
