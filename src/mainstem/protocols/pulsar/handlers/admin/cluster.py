"""Lookups, clusters, brokers, tenants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainstem.protocols.pulsar.handlers.admin.paths import (
    CONFLICT,
    NOT_FOUND,
    PRECONDITION,
    AdminRefused,
    Call,
    Path,
    not_here,
)
from mainstem.protocols.pulsar.handlers.parts import PulsarParts
from mainstem.protocols.pulsar.mapping.names import is_part, local_name
from mainstem.wire.http.messages import PLAIN_TEXT, Response

ALL_BUNDLES = "0x00000000_0xffffffff"
REFUSED = (
    ("functions", "functions"),
    ("sources", "sources"),
    ("sinks", "sinks"),
    ("packages", "packages"),
    ("bookies", "bookies"),
    ("resourcegroups", "resource groups"),
)


class ClusterPaths:
    """What is asked about the broker itself."""

    def __init__(self, parts: PulsarParts, version: str, address: Callable[[], str | None]) -> None:
        self._parts = parts
        self._book = parts.book
        self._version = version
        self._address = address

    def paths(self) -> list[Path]:
        """All of them."""
        refused = [
            Path(method, f"admin/{version}/{name}{more}", not_here(what))
            for name, what in REFUSED
            for version in ("v2", "v3")
            for more in ("", "/{}", "/{}/{}", "/{}/{}/{}")
            for method in ("GET", "POST", "PUT", "DELETE")
        ]
        return [
            Path("GET", "lookup/v2/topic/{}/{}/{}/{}", self.lookup),
            Path("GET", "lookup/v2/topic/{}/{}/{}/{}/bundle", self.bundle),
            Path("GET", "admin/v2/clusters", self.clusters),
            Path("GET", "admin/v2/clusters/{}", self.cluster),
            Path("PUT", "admin/v2/clusters/{}", self.put_cluster),
            Path("POST", "admin/v2/clusters/{}", self.put_cluster),
            Path("DELETE", "admin/v2/clusters/{}", self.remove_cluster),
            Path("GET", "admin/v2/clusters/{}/namespaceIsolationPolicies", lambda call: {}),
            Path("GET", "admin/v2/clusters/{}/failureDomains", lambda call: {}),
            Path("GET", "admin/v2/brokers", self.brokers),
            Path("GET", "admin/v2/brokers/{}", self.brokers),
            Path("GET", "admin/v2/brokers/leaderBroker", self.leader),
            Path("GET", "admin/v2/brokers/health", self.health),
            Path("GET", "admin/v2/brokers/ready", self.health),
            Path("GET", "admin/v2/brokers/version", lambda call: _text(f"Mainstem {self._version}")),
            Path("GET", "admin/v2/brokers/configuration/runtime", self.configuration),
            Path("GET", "admin/v2/tenants", lambda call: self._book.tenants()),
            Path("GET", "admin/v2/tenants/{}", self.tenant),
            Path("PUT", "admin/v2/tenants/{}", self.create_tenant),
            Path("POST", "admin/v2/tenants/{}", self.change_tenant),
            Path("DELETE", "admin/v2/tenants/{}", self.remove_tenant),
            *refused,
        ]

    def lookup(self, call: Call) -> dict[str, Any]:
        """Where a topic is: here."""
        domain, tenant, namespace, local = call.steps
        name = local_name(domain, f"{tenant}/{namespace}", local)
        self._parts.topics.check_place(name)
        url = self._parts.lookups.url()
        web = f"http://{self._address()}"
        return {"brokerUrl": url, "brokerUrlTls": "", "httpUrl": web, "httpUrlTls": "", "nativeUrl": url}

    def bundle(self, call: Call) -> Response:
        """All topics are in one."""
        return _text(ALL_BUNDLES)

    @property
    def _cluster(self) -> str:
        return self._parts.settings.cluster_name

    def clusters(self, call: Call) -> list[str]:
        """There is one."""
        return [self._cluster]

    def cluster(self, call: Call) -> dict[str, Any]:
        """Where it is."""
        self._check_cluster(call.steps[0])
        return {
            "serviceUrl": f"http://{self._address()}",
            "brokerServiceUrl": self._parts.lookups.url(),
            "brokerClientTlsEnabled": False,
        }

    def _check_cluster(self, name: str) -> None:
        if name != self._cluster:
            raise AdminRefused(NOT_FOUND, f"Cluster does not exist: {name}")

    def put_cluster(self, call: Call) -> None:
        """Ours is there already; others are replication, which is not."""
        if call.steps[0] != self._cluster:
            raise AdminRefused(PRECONDITION, "other clusters are not supported: there is no geo-replication")

    def remove_cluster(self, call: Call) -> None:
        """It stays."""
        self._check_cluster(call.steps[0])
        raise AdminRefused(PRECONDITION, "the cluster of the broker stays")

    def brokers(self, call: Call) -> list[str]:
        """There is one."""
        if call.steps:
            self._check_cluster(call.steps[0])
        return [str(self._address())]

    def leader(self, call: Call) -> dict[str, Any]:
        """It is us."""
        return {"brokerId": str(self._address()), "serviceUrl": f"http://{self._address()}"}

    def health(self, call: Call) -> Response:
        """Who answers is well."""
        return _text("ok")

    def configuration(self, call: Call) -> dict[str, str]:
        """In Pulsar's words, as far as it has any for ours."""
        settings = self._parts.settings
        return {
            "clusterName": settings.cluster_name,
            "maxMessageSize": str(settings.message_bytes_max),
            "allowAutoTopicCreation": str(settings.topic_auto_creation).lower(),
            "maxUnackedMessagesPerConsumer": str(settings.unacknowledged_max),
        }

    # Tenants

    def tenant(self, call: Call) -> dict[str, Any]:
        """What is set for one."""
        name = self._known(call)
        return {"adminRoles": [], "allowedClusters": [self._cluster], **self._book.tenant(name)}

    def _known(self, call: Call) -> str:
        name = call.steps[0]
        if name not in self._book.tenants():
            raise AdminRefused(NOT_FOUND, f"Tenant does not exist: {name}")
        return name

    def _wish(self, call: Call) -> dict[str, Any]:
        body = call.body() or {}
        clusters = body.get("allowedClusters") or [self._cluster]
        if any(one != self._cluster for one in clusters):
            raise AdminRefused(PRECONDITION, "Clusters do not exist")
        return {"adminRoles": list(body.get("adminRoles") or []), "allowedClusters": clusters}

    async def create_tenant(self, call: Call) -> None:
        """One more."""
        name = call.steps[0]
        if not is_part(name):
            raise AdminRefused(PRECONDITION, f"Tenant name is not valid: {name}")
        if name in self._book.tenants():
            raise AdminRefused(CONFLICT, "Tenant already exists")
        await self._book.put_tenant(name, self._wish(call))

    async def change_tenant(self, call: Call) -> None:
        """What is set for one."""
        await self._book.put_tenant(self._known(call), self._wish(call))

    async def remove_tenant(self, call: Call) -> None:
        """One that has no namespaces."""
        name = self._known(call)
        if any(place.startswith(f"{name}/") for place in self._book.places()):
            raise AdminRefused(CONFLICT, "The tenant still has active namespaces")
        await self._book.remove_tenant(name)


def _text(text: str) -> Response:
    return Response(200, text.encode(), PLAIN_TEXT)
