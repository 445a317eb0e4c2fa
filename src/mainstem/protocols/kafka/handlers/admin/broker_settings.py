"""The broker's settings under the names that Kafka has for them: what is set at the start, and cannot be changed after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mainstem.protocols.kafka.mapping import Endpoint, StoreFacts
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.wire.scram import HASHES

MINUTE_MS = 60_000
HTTP_ADDRESS = "mainstem.http.address"
"""Ours: so that who knows the one address finds the other."""


class BrokerSetting(NamedTuple):
    """One name, with its value and what it would be if nobody had set it."""

    name: str
    kind: str
    value: str
    default: str | None
    text: str


class BrokerSettings:
    """Told anew each time: addresses are known only when the listeners are there."""

    def __init__(
        self,
        settings: KafkaSettings,
        listeners: Callable[[], list[tuple[str, Endpoint]]],
        store: StoreFacts,
        http_address: Callable[[], str],
        node: int = 1,
    ) -> None:
        self._settings = settings
        self._listeners = listeners
        self._store = store
        self._http_address = http_address
        self._node = node

    def all(self) -> list[BrokerSetting]:
        """In the order of their names."""
        return sorted([*self._places(), *self._constants(), *self._limits()])

    def _places(self) -> list[BrokerSetting]:
        listeners = self._listeners()
        address = ",".join(
            f"{security}://{f'[{host}]' if ':' in host else host}:{port}" for security, (host, port) in listeners
        )
        security = next((security for security, _ in listeners), "PLAINTEXT")
        directory = self._store().directory
        mechanisms = "PLAIN," + ",".join(HASHES) if self._settings.user is not None else "GSSAPI"
        return [
            BrokerSetting("advertised.listeners", "list", address, None, "Where clients are told to connect."),
            BrokerSetting("listeners", "list", address, None, "Where clients connect."),
            BrokerSetting("log.dir", "string", directory, None, "Where the log is."),
            BrokerSetting(HTTP_ADDRESS, "string", self._http_address(), None, "Where the same broker serves HTTP."),
            BrokerSetting("log.dirs", "list", directory, None, "Where the log is."),
            BrokerSetting("sasl.enabled.mechanisms", "list", mechanisms, "GSSAPI", "How clients authenticate."),
            BrokerSetting(
                "security.inter.broker.protocol", "string", security, "PLAINTEXT", "How the listener is secured."
            ),
        ]

    def _constants(self) -> list[BrokerSetting]:
        node = str(self._node)
        return [
            BrokerSetting("broker.id", "int", node, "-1", "The one node."),
            BrokerSetting("node.id", "int", node, None, "The one node."),
            BrokerSetting("controller.quorum.voters", "list", "", "", "There is one node, and no vote."),
            BrokerSetting("process.roles", "list", "broker,controller", None, "What the one node does."),
            BrokerSetting("default.replication.factor", "int", "1", "1", "One copy of everything."),
            BrokerSetting("offsets.topic.replication.factor", "short", "1", "3", "One copy of everything."),
            BrokerSetting("transaction.state.log.replication.factor", "short", "1", "3", "One copy of everything."),
            BrokerSetting("transaction.state.log.min.isr", "int", "1", "2", "One copy of everything."),
            BrokerSetting("delete.topic.enable", "boolean", "true", "true", "Topics can be deleted."),
            BrokerSetting("group.coordinator.rebalance.protocols", "list", "classic,consumer,share,streams",
                          "classic,consumer,share,streams", "How members of groups share partitions."),
            BrokerSetting("log.retention.hours", "int", "168", "168", "See log.retention.ms."),
            BrokerSetting("log.roll.hours", "int", "168", "168", "See log.roll.ms."),
            BrokerSetting("quota.window.num", "int", "11", "11", "How quotas are measured."),
            BrokerSetting("quota.window.size.seconds", "int", "1", "1", "How quotas are measured."),
            BrokerSetting("transaction.max.timeout.ms", "int", "900000", "900000", "Longest transaction."),
            BrokerSetting("transactional.id.expiration.ms", "int", "604800000", "604800000",
                          "How long a transactional id may be silent."),
        ]  # fmt: skip

    def _limits(self) -> list[BrokerSetting]:
        chosen, usual = self._settings, KafkaSettings()

        def setting(name: str, kind: str, of: Callable[[KafkaSettings], object], text: str) -> BrokerSetting:
            return BrokerSetting(name, kind, str(of(chosen)).lower(), str(of(usual)).lower(), text)

        return [
            setting("auto.create.topics.enable", "boolean", lambda s: s.auto_create_topics,
                    "Whether a topic that a client asks for by name is created."),
            setting("fetch.max.bytes", "int", lambda s: s.fetch_bytes_max, "Most that one fetch answers."),
            setting("group.consumer.heartbeat.interval.ms", "int", lambda s: s.consumer_group_heartbeat_interval_ms,
                    "How often members show that they live."),
            setting("group.consumer.migration.policy", "string", lambda s: s.consumer_group_migration,
                    "Whether groups go from one protocol to the other while they work."),
            setting("group.consumer.session.timeout.ms", "int", lambda s: s.consumer_group_session_timeout_ms,
                    "After so long without a heartbeat a member is dropped."),
            setting("group.initial.rebalance.delay.ms", "int", lambda s: s.group_initial_delay_ms,
                    "How long a new group waits for members."),
            setting("group.max.session.timeout.ms", "int", lambda s: s.group_session_timeout_ms_max, "Longest session."),
            setting("group.max.size", "int", lambda s: s.group_members_max, "Members of one group."),
            setting("group.min.session.timeout.ms", "int", lambda s: s.group_session_timeout_ms_min, "Shortest session."),
            setting("group.share.delivery.count.limit", "int", lambda s: s.share_group_delivery_count_limit,
                    "How often a record is given out."),
            setting("group.share.heartbeat.interval.ms", "int", lambda s: s.share_group_heartbeat_interval_ms,
                    "How often members of share groups show that they live."),
            setting("group.share.max.size", "short", lambda s: s.share_group_members_max, "Members of one share group."),
            setting("group.share.partition.max.record.locks", "int", lambda s: s.share_group_partition_record_locks_max,
                    "How many records of a partition are held at a time."),
            setting("group.share.record.lock.duration.ms", "int", lambda s: s.share_group_record_lock_duration_ms,
                    "How long a member has a record."),
            setting("group.share.session.timeout.ms", "int", lambda s: s.share_group_session_timeout_ms,
                    "After so long without a heartbeat a member of a share group is dropped."),
            setting("group.streams.assignment.interval.ms", "int", lambda s: s.streams_group_assignment_interval_ms,
                    "The shortest time between two assignments of a streams group."),
            setting("group.streams.heartbeat.interval.ms", "int", lambda s: s.streams_group_heartbeat_interval_ms,
                    "How often members of streams groups show that they live."),
            setting("group.streams.initial.rebalance.delay.ms", "int", lambda s: s.streams_group_initial_delay_ms,
                    "How long the first assignment of a streams group waits for further members."),
            setting("group.streams.max.size", "int", lambda s: s.streams_group_members_max,
                    "Members of one streams group."),
            setting("group.streams.num.standby.replicas", "int", lambda s: s.streams_group_standby_replicas,
                    "In how many further processes the state of a task is kept."),
            setting("group.streams.session.timeout.ms", "int", lambda s: s.streams_group_session_timeout_ms,
                    "A member of a streams group is dropped after this time without a heartbeat."),
            setting("num.partitions", "int", lambda s: s.partitions_default,
                    "Partitions of a topic that does not say how many."),
            setting("offset.metadata.max.bytes", "int", lambda s: s.offset_metadata_bytes_max,
                    "Text that a client may store with an offset."),
            setting("offsets.retention.minutes", "int", lambda s: s.offsets_retention_ms // MINUTE_MS,
                    "How long the offsets of a group without members are kept."),
            setting("socket.request.max.bytes", "int", lambda s: s.request_bytes_max, "Largest request."),
        ]  # fmt: skip
