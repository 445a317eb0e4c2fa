"""The whole at a glance: overview, nodes, who one is, health."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path as PathOfFile
from typing import Any, Protocol

from mainstem.broker.broker import CLUSTER_NAME, Broker
from mainstem.broker.queues import QueueProperties
from mainstem.broker.routes import KINDS
from mainstem.protocols.management.codec import encode_json
from mainstem.protocols.management.errors import NotFound
from mainstem.protocols.management.handlers.callers import MONITORING
from mainstem.protocols.management.handlers.definitions import COMPATIBLE_VERSION
from mainstem.protocols.management.handlers.parameters import put_global
from mainstem.protocols.management.handlers.paths import OK, Call, Meter, Path
from mainstem.protocols.management.mapping import fields
from mainstem.protocols.management.mapping.amqp_words import connections_of
from mainstem.protocols.management.mapping.listing import Row, one
from mainstem.protocols.management.mapping.rates import Rates, counts_of, lengths_of
from mainstem.protocols.management.mapping.rows import NODE
from mainstem.wire.http.messages import Response

UNAVAILABLE = 503
ALIVENESS_QUEUE = "aliveness-test"


SHOWN = {"management": "http", "management+tls": "https", "amqp+tls": "amqp/ssl"}
"""Names of listeners that RabbitMQ has others for."""


class Listening(Protocol):
    """A listening socket."""

    @property
    def name(self) -> str:
        """Of the protocol."""

    @property
    def address(self) -> Any:
        """With a host and a port."""

    @property
    def connections(self) -> int:
        """How many are open."""


class Operations(Protocol):
    """What the server tells about itself."""

    @property
    def listeners(self) -> Sequence[Listening]:
        """Where clients connect."""

    def version(self) -> str:
        """Of this program."""

    def condition(self) -> str:
        """`ready`, or why not."""

    def request_meter(self, protocol: str, operation: str, untimed: int = 0) -> Meter:
        """Where requests of one kind are counted."""


class OverviewPaths:
    """/api/overview, /api/nodes, /api/whoami, /api/health."""

    def __init__(self, broker: Broker, operations: Operations) -> None:
        self._broker = broker
        self._operations = operations
        self._begun_ms = broker.clock.now_ms()
        self._rates = Rates(broker.clock.now_ms)

    def paths(self) -> list[Path]:
        """What is served here."""
        checks = "/health/checks"
        always = ("virtual-hosts", "node-is-quorum-critical", "node-is-mirror-sync-critical", "is-in-service",
                  "below-node-connection-limit", "metadata-store/initialized",
                  "metadata-store/initialized/with-data", "quorum-queues-without-elected-leaders/all-vhosts")  # fmt: skip
        return [
            Path("GET", "/overview", self.overview),
            Path("GET", "/whoami", self.whoami),
            Path("GET", "/auth", lambda call: {"oauth_enabled": False}),
            Path("GET", "/auth/attempts/{}", lambda call: []),
            Path("GET", "/version", lambda call: COMPATIBLE_VERSION),
            Path("GET", "/cluster-name", self.cluster_name),
            Path("PUT", "/cluster-name", self.name_cluster),
            Path("GET", "/nodes", self.nodes),
            Path("GET", "/nodes/{}", self.node),
            Path("GET", "/nodes/{}/memory", self.memory),
            Path("GET", "/extensions", lambda call: []),
            Path("GET", "/feature-flags", lambda call: []),
            Path("GET", "/deprecated-features", lambda call: []),
            Path("GET", "/deprecated-features/used", lambda call: []),
            Path("POST", "/rebalance/queues", lambda call: None),
            Path("GET", "/aliveness-test/{}", self.aliveness),
            Path("GET", f"{checks}/alarms", self.alarms),
            Path("GET", f"{checks}/local-alarms", self.alarms),
            Path("GET", f"{checks}/ready-to-serve-clients", self.ready),
            Path("GET", f"{checks}/port-listener/{{}}", self.port),
            Path("GET", f"{checks}/protocol-listener/{{}}", self.protocol),
            Path("GET", f"{checks}/certificate-expiration/{{}}/{{}}", lambda call: {"status": "ok"}),
            *(Path("GET", f"{checks}/{name}", lambda call: {"status": "ok"}) for name in always),
        ]

    async def overview(self, call: Call) -> Any:
        """Versions, counts, listeners."""
        broker, caller = self._broker, call.caller
        names = [namespace.name for namespace in broker.namespaces.all() if caller.may_see(namespace.name)]
        queues = [queue for name in names for queue in broker.queues.all(name)]
        await broker.queues.know(queues)
        lengths, stats = self._rates.describe(caller.name, lengths_of(queues), counts_of(queues))
        connections = connections_of(broker)
        seen = [facts for facts in connections if caller.sees_all() or facts.user == caller.name]
        channels = [channel for facts in seen for channel in facts.channels]
        row: Row = {
            "management_version": COMPATIBLE_VERSION,
            "rabbitmq_version": COMPATIBLE_VERSION,
            "product_name": "RabbitMQ",
            "product_version": COMPATIBLE_VERSION,
            "mainstem_version": self._operations.version(),
            "rates_mode": "basic",
            "disable_stats": False,
            "is_op_policy_updating_enabled": True,
            "cluster_name": broker.cluster_name,
            "erlang_version": "",
            "erlang_full_version": f"none: this is Mainstem on Python {sys.version.split()[0]}",
            "exchange_types": [{"name": kind, "description": "", "enabled": True} for kind in sorted(KINDS)],
            "sample_retention_policies": {"global": [], "basic": [], "detailed": []},
            "message_stats": stats,
            "churn_rates": {},
            "queue_totals": lengths,
            "object_totals": {
                "channels": len(channels),
                "connections": len(seen),
                "consumers": sum(len(channel.consumers) for channel in channels),
                "exchanges": sum(len(broker.routes.of(name).exchanges()) for name in names),
                "queues": len(queues),
            },
            "statistics_db_event_queue": 0,
            "node": NODE,
            "listeners": self._listeners(),
            "contexts": [],
        }
        return one(row, call.query)

    def _listeners(self) -> list[Row]:
        return [
            {
                "node": NODE,
                "protocol": SHOWN.get(listener.name, listener.name),
                "ip_address": listener.address.host,
                "port": listener.address.port,
                "socket_opts": {},
            }
            for listener in self._operations.listeners
        ]

    def whoami(self, call: Call) -> Row:
        """Who asks."""
        return {"name": call.caller.name, "tags": list(call.caller.tags), "is_internal_user": True}

    def cluster_name(self, call: Call) -> Row:
        """As clients are told it."""
        return {"name": self._broker.cluster_name}

    async def name_cluster(self, call: Call) -> None:
        """Kept as a global parameter, as RabbitMQ keeps it."""
        call.caller.need()
        await put_global(self._broker, CLUSTER_NAME, fields.text(call.fields(), "name"))

    def nodes(self, call: Call) -> list[Row]:
        """This one."""
        call.caller.need(MONITORING)
        return [self._node()]

    def node(self, call: Call) -> Any:
        """This one."""
        call.caller.need(MONITORING)
        if call.steps[0] != NODE:
            raise NotFound
        return one(self._node(), call.query)

    def memory(self, call: Call) -> Row:
        """By kinds of Erlang's processes and tables, of which there are none; the whole is with the node."""
        self.node(call)
        return {"memory": "not_available"}

    def _node(self) -> Row:
        sockets = sum(listener.connections for listener in self._operations.listeners)
        return {
            "name": NODE,
            "type": "disc",
            "running": True,
            "being_drained": self._operations.condition() == "draining",
            "os_pid": str(os.getpid()),
            "uptime": self._broker.clock.now_ms() - self._begun_ms,
            "processors": os.cpu_count() or 1,
            "sockets_used": sockets,
            "fd_used": sockets,
            "fd_total": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "mem_used": _resident_bytes(),
            "mem_alarm": False,
            "disk_free_alarm": self._broker.queues.outbox.is_full,
            "partitions": [],
            "enabled_plugins": [
                "rabbitmq_management",
                "rabbitmq_consistent_hash_exchange",
                "rabbitmq_delayed_message_exchange",
            ],
            "applications": [],
            "exchange_types": [{"name": kind, "description": "", "enabled": True} for kind in sorted(KINDS)],
            "auth_mechanisms": [{"name": name, "description": "", "enabled": True} for name in ("PLAIN", "AMQPLAIN")],
            "rates_mode": "none",
            "config_files": [],
            "log_files": [],
            "cluster_links": [],
        }

    # Health

    async def aliveness(self, call: Call) -> Row:
        """Declares a queue and writes to it: answered when that is durable."""
        namespace = call.caller.enter(call.steps[0])
        queue = await self._broker.queues.declare(namespace, ALIVENESS_QUEUE, QueueProperties(length_max=1))
        self._broker.queues.outbox.put([queue], b"\0", b"test_message")
        await self._broker.queues.outbox.wait_durable()
        return {"status": "ok"}

    def alarms(self, call: Call) -> Response:
        """A full disk is the one alarm."""
        return _health(self._broker.queues.outbox.is_full, "There are alarms in effect in the cluster: disk")

    def ready(self, call: Call) -> Response:
        """Whether clients are served."""
        return _health(self._operations.condition() != "ready", "the node is not ready")

    def port(self, call: Call) -> Response:
        """Whether something listens on a port."""
        wanted = fields.number({"port": call.steps[0]}, "port")
        ports = [listener.address.port for listener in self._operations.listeners]
        return _health(wanted not in ports, "No active listener", port=wanted, missing=wanted, ports=ports)

    def protocol(self, call: Call) -> Response:
        """Whether a protocol is spoken."""
        wanted = call.steps[0].lower()
        spoken = [row["protocol"] for row in self._listeners()]
        aliases = {"amqp091": "amqp", "amqp0.9.1": "amqp", "management": "http"}
        is_missing = aliases.get(wanted, wanted) not in spoken
        return _health(is_missing, "No active listener", missing=wanted, protocols=spoken)


def _resident_bytes() -> int:
    """Of this process; 0 where the system does not tell."""
    try:
        return int(PathOfFile("/proc/self/statm").read_bytes().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def _health(failed: bool, reason: str, **facts: Any) -> Response:
    if failed:
        return encode_json(UNAVAILABLE, {"status": "failed", "reason": reason, **facts})
    return encode_json(OK, {"status": "ok"})
