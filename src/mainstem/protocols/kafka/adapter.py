"""What the server registers for Kafka."""

from __future__ import annotations

import asyncio
import ipaddress
import shutil
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from mainstem.broker.broker import Broker
from mainstem.broker.dead_letters.topics import LetterRules
from mainstem.broker.groups.group_configs import BeatRules
from mainstem.broker.groups.groups import GroupRules
from mainstem.broker.groups.streams_groups import StreamsRules
from mainstem.broker.subscriptions.subscriptions import DeliveryPolicy
from mainstem.broker.users.door import Entrance
from mainstem.model.endpoints import TLS_SUFFIX, UNKNOWN, Endpoints, address_to_tell
from mainstem.protocols.kafka.handlers.admin.broker_settings import BrokerSettings
from mainstem.protocols.kafka.handlers.admin.configs import ConfigHandlers
from mainstem.protocols.kafka.handlers.admin.log_dirs import LogDirHandlers
from mainstem.protocols.kafka.handlers.admin.placement import PlacementHandlers
from mainstem.protocols.kafka.handlers.admin.quotas import QuotaHandlers
from mainstem.protocols.kafka.handlers.admin.topics import TopicHandlers
from mainstem.protocols.kafka.handlers.calls import Served, Spawn
from mainstem.protocols.kafka.handlers.cluster.cluster import ClusterHandlers
from mainstem.protocols.kafka.handlers.cluster.quorum import QuorumHandlers
from mainstem.protocols.kafka.handlers.groups.classic_groups import GroupHandlers
from mainstem.protocols.kafka.handlers.groups.consumer_groups import ConsumerGroupHandlers
from mainstem.protocols.kafka.handlers.groups.offsets import GroupOffsetHandlers
from mainstem.protocols.kafka.handlers.groups.streams_groups import StreamsGroupHandlers
from mainstem.protocols.kafka.handlers.records.fetch import FetchHandler
from mainstem.protocols.kafka.handlers.records.positions import PositionHandlers
from mainstem.protocols.kafka.handlers.records.produce import ProduceHandler
from mainstem.protocols.kafka.handlers.requests import Requests
from mainstem.protocols.kafka.handlers.security.access import AccessHandlers
from mainstem.protocols.kafka.handlers.security.authentication import AuthenticationHandlers
from mainstem.protocols.kafka.handlers.security.delegation import DelegationHandlers, read_key
from mainstem.protocols.kafka.handlers.security.users import UserHandlers
from mainstem.protocols.kafka.handlers.shares.fetch import ShareFetchHandlers
from mainstem.protocols.kafka.handlers.shares.groups import ShareGroupHandlers
from mainstem.protocols.kafka.handlers.shares.offsets import ShareOffsetHandlers
from mainstem.protocols.kafka.handlers.throttles import Throttles
from mainstem.protocols.kafka.handlers.transactions.listing import TransactionListingHandlers
from mainstem.protocols.kafka.handlers.transactions.producers import ProducerHandlers
from mainstem.protocols.kafka.handlers.transactions.transactions import TransactionHandlers
from mainstem.protocols.kafka.mapping import Endpoint, Store
from mainstem.protocols.kafka.session.machine import KafkaSession, Meter
from mainstem.protocols.kafka.session.settings import KafkaSettings

NAME = "kafka"
DEFAULT_PORT = 9092


class Operations(Protocol):
    """What the server tells about itself."""

    def advertised(self) -> Mapping[str, list[str]]:
        """The addresses clients are shown, by listener name."""

    def brokers(self, protocol: str) -> Mapping[int, str]:
        """Where brokers that share the log serve a protocol, or lead to the one who does, by number: this one, and others."""

    def data_directory(self) -> str:
        """Where the log is, as an absolute path."""

    def storage(self) -> Mapping[str, float]:
        """Measurements of the storage engine."""

    def request_meter(self, protocol: str, operation: str, untimed: int) -> Meter:
        """What counts requests of one kind, and times some of them."""


class SettingsUnusable(ValueError):
    """What was set cannot be served."""


def read_password(settings: KafkaSettings) -> str:
    """The first line of the password file. Raises SettingsUnusable."""
    if settings.password_file is None:
        raise SettingsUnusable("kafka.user needs kafka.password_file")
    try:
        lines = Path(settings.password_file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsUnusable(f"kafka.password_file cannot be read: {error}") from None
    if not lines or not lines[0]:
        raise SettingsUnusable("kafka.password_file is empty")
    return lines[0]


def entrance_of(settings: KafkaSettings) -> Entrance:
    """How the settings let clients in. Raises SettingsUnusable."""
    if settings.user is None:
        return Entrance(is_wide=settings.anybody_from_anywhere)
    return Entrance(settings.user, read_password(settings).encode(), needs_proof=True)


def check_listening(settings: KafkaSettings, hosts: Iterable[str]) -> None:
    """Whether it is safe to listen there. Raises SettingsUnusable."""
    if settings.password_file is not None and settings.user is None:
        raise SettingsUnusable("kafka.password_file needs kafka.user")
    try:
        read_key(settings)
    except ValueError as error:
        raise SettingsUnusable(str(error)) from None
    if settings.user is not None:
        read_password(settings)
        return
    for host in hosts:
        if not settings.anybody_from_anywhere and not is_loopback(host):
            raise SettingsUnusable(
                f"kafka would be open to anybody who reaches {host}: set kafka.user and kafka.password_file, "
                "or kafka.anybody_from_anywhere=true"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def govern(broker: Broker, settings: KafkaSettings) -> None:
    """Set the rules of groups and their dead letters, which other protocols share.

    The server calls this whether Kafka listens or not: offsets of groups expire without it, too.
    """
    broker.group_configs.govern(
        BeatRules(
            settings.group_members_max,
            settings.consumer_group_session_timeout_ms,
            settings.consumer_group_heartbeat_interval_ms,
            may_upgrade=settings.consumer_group_migration in ("bidirectional", "upgrade"),
            may_downgrade=settings.consumer_group_migration in ("bidirectional", "downgrade"),
        ),
        BeatRules(
            settings.share_group_members_max,
            settings.share_group_session_timeout_ms,
            settings.share_group_heartbeat_interval_ms,
        ),
        DeliveryPolicy(
            lease_ms=settings.share_group_record_lock_duration_ms,
            deliveries_max=settings.share_group_delivery_count_limit,
            leases_max=settings.share_group_partition_record_locks_max,
        ),
        StreamsRules(
            settings.streams_group_members_max,
            settings.streams_group_session_timeout_ms,
            settings.streams_group_heartbeat_interval_ms,
            settings.streams_group_standby_replicas,
            settings.streams_group_initial_delay_ms,
            settings.streams_group_assignment_interval_ms,
        ),
    )
    broker.groups.govern(
        GroupRules(
            members_max=settings.group_members_max,
            session_timeout_ms_min=settings.group_session_timeout_ms_min,
            session_timeout_ms_max=settings.group_session_timeout_ms_max,
            initial_delay_ms=settings.group_initial_delay_ms,
            offsets_retention_ms=settings.offsets_retention_ms,
            offset_note_bytes_max=settings.offset_metadata_bytes_max,
        )
    )
    broker.dead_letters.govern(
        LetterRules(settings.dead_letter_topic_prefix, settings.dead_letter_topics_create, settings.partitions_default)
    )


def _endpoint(address: str) -> Endpoint:
    host, _, port = address.rpartition(":")
    return Endpoint(host.removeprefix("[").removesuffix("]"), int(port))


class KafkaAdapter:
    """Opens a session per connection."""

    def __init__(
        self, settings: KafkaSettings, broker: Broker, operations: Operations, spawn: Spawn | None = None
    ) -> None:
        self._settings = settings
        self._operations = operations
        self._clock = broker.clock
        self._tasks: set[asyncio.Task[None]] = set()
        govern(broker, settings)
        self._throttles = Throttles(broker)
        shown = BrokerSettings(settings, self._listeners, self._store_facts, self._http_address, broker.node)
        cluster = ClusterHandlers(broker, settings, self._advertised, self._brokers)
        served: dict[int, Served] = {
            **cluster.apis(),
            **PositionHandlers(broker).apis(),
            **TopicHandlers(broker, settings, self._throttles).apis(),
            **ConfigHandlers(broker, shown).apis(),
            **ProducerHandlers(broker).apis(),
            **TransactionHandlers(broker).apis(),
            **TransactionListingHandlers(broker).apis(),
            **GroupHandlers(broker).apis(),
            **GroupOffsetHandlers(broker).apis(),
            **ConsumerGroupHandlers(broker).apis(),
            **ShareGroupHandlers(broker).apis(),
            **StreamsGroupHandlers(broker).apis(),
            **ShareFetchHandlers(broker, settings).apis(),
            **ShareOffsetHandlers(broker).apis(),
            **LogDirHandlers(broker, self._store_facts).apis(),
            **PlacementHandlers(broker, self._store_facts).apis(),
            **QuorumHandlers(broker, self._store_facts, self._advertised, self._security).apis(),
            **QuotaHandlers(broker).apis(),
            **UserHandlers(broker, settings.user).apis(),
            **AccessHandlers().apis(),
            **DelegationHandlers(broker, settings).apis(),
        }
        broker.door.open(NAME, entrance_of(settings))
        authentication = AuthenticationHandlers(broker)
        served |= authentication.apis()
        cluster.announce(served)
        self._requests = Requests(
            ProduceHandler(broker),
            FetchHandler(broker, settings),
            served,
            spawn or self._spawn_task,
            self._throttles,
            lambda operation, untimed: operations.request_meter(NAME, operation, untimed),
            authentication.admit_silent,
        )

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> KafkaSession:
        """For a new connection between these two ends."""
        session = KafkaSession(wake, self._settings, self._requests.handle, endpoints)
        wait_s = self._throttles.connection_wait_s(endpoints.peer_host)
        if wait_s > 0:
            # As Kafka does: one connection too many is kept from coming again at once, and then closed.
            session.mute()
            self._clock.call_later(wait_s, session.refuse)
        return session

    def _http_address(self) -> str:
        return (self._operations.advertised().get("http") or [""])[0]

    def _advertised(self, endpoints: Endpoints) -> Endpoint:
        told = address_to_tell(self._operations.advertised(), NAME, endpoints)
        assert told is not None, "asked through no listener"
        return _endpoint(told)

    def _brokers(self, endpoints: Endpoints) -> dict[int, Endpoint]:
        brokers = self._operations.brokers(endpoints.listener or NAME)
        return {number: _endpoint(address) for number, address in sorted(brokers.items())}

    def _listeners(self) -> list[tuple[str, Endpoint]]:
        advertised = self._operations.advertised()
        return [
            (self._security(Endpoints(is_encrypted=is_encrypted)), _endpoint(address))
            for name, is_encrypted in ((NAME, False), (NAME + TLS_SUFFIX, True))
            for address in advertised.get(name, ())[:1]
        ]

    def _security(self, endpoints: Endpoints) -> str:
        """What Kafka calls it."""
        return ("SASL_" if self._settings.user is not None else "") + ("SSL" if endpoints.is_encrypted else "PLAINTEXT")

    def _store_facts(self) -> Store:
        directory = self._operations.data_directory()
        disk = shutil.disk_usage(directory)
        return Store(directory, disk.total, disk.free, int(self._operations.storage().get("commit_groups", 0)))

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> None:
        # The loop itself holds tasks only weakly.
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
