"""What a client learns first: which APIs there are, which brokers, which topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic, Topic
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.handlers.cluster.features import FEATURES
from mainstem.protocols.kafka.handlers.cluster.topic_descriptions import TopicDescriptions, describe_partition
from mainstem.protocols.kafka.handlers.requests import announced
from mainstem.protocols.kafka.mapping import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
    Advertised,
    Brokers,
)
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.wire.kafka import ZERO_UUID, ApiKey, Encoded, ErrorCode

NAMES_OPTIONAL_FROM = 12
AUTO_CREATION_SAID_FROM = 4
BROKER_ENDPOINTS = 1
COORDINATOR_LISTS_FROM = 4
GROUP_COORDINATOR, TRANSACTION_COORDINATOR = 0, 1
ZERO_FEATURES_FROM = 4
PARTITIONS_PER_PAGE_MAX = 2_000


class ClusterHandlers:
    """ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions, FindCoordinator."""

    def __init__(self, broker: Broker, settings: KafkaSettings, advertised: Advertised, brokers: Brokers) -> None:
        self._broker = broker
        self._topics = broker.topics
        self._settings = settings
        self._advertised = advertised
        self._brokers = brokers
        self._served: Mapping[int, Served] = {}
        self._descriptions = TopicDescriptions(broker.node, broker.term)

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.API_VERSIONS: Served(self.api_versions, 0, 4),
            ApiKey.METADATA: Served(self.metadata, 0, 13),
            ApiKey.DESCRIBE_CLUSTER: Served(self.describe_cluster, 0, 2),
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: Served(self.describe_topic_partitions, 0, 0),
            ApiKey.FIND_COORDINATOR: Served(self.find_coordinator, 0, 6),
        }

    def announce(self, served: Mapping[int, Served]) -> None:
        """What ApiVersions is to say: known only when every family is there."""
        self._served = served

    def api_versions(self, call: Call) -> Body:
        """What is served, and nothing else."""
        if call.body.client_software_name:
            call.connection.peer.introduce(call.body.client_software_name, call.body.client_software_version)
        # KIP-1022: older clients do not understand a feature that may be off.
        understood = [f for f in FEATURES.values() if f.lowest or call.version >= ZERO_FEATURES_FROM]
        return {
            "error_code": ErrorCode.NONE,
            "api_keys": announced(self._served),
            "supported_features": [
                {"name": f.name, "min_version": f.lowest, "max_version": f.highest} for f in understood
            ],
            "finalized_features_epoch": 0,
            "finalized_features": [
                {"name": f.name, "max_version_level": f.level, "min_version_level": f.level}
                for f in FEATURES.values()
                if f.level
            ],
        }

    def _describe_brokers(self, id_name: str, call: Call) -> list[Body]:
        brokers = self._brokers(call.connection.endpoints)
        return [{id_name: number, "host": host, "port": port} for number, (host, port) in brokers.items()]

    # Metadata

    async def metadata(self, call: Call) -> Body:
        """Brokers, and the topics that were asked for."""
        body, version = call.body, call.version
        operations = TOPIC_OPERATIONS if body.include_topic_authorized_operations else NOT_ASKED
        may_create = self._settings.auto_create_topics and (
            version < AUTO_CREATION_SAID_FROM or body.allow_auto_topic_creation
        )
        topics: list[Body | Encoded]
        if body.topics is None or (version == 0 and not body.topics):
            topics = [self._describe(topic, version, operations) for topic in self._topics.named().values()]
        else:
            topics = [await self._describe_asked(asked, may_create, version, operations) for asked in body.topics]
        return {
            "brokers": self._describe_brokers("node_id", call),
            "cluster_id": self._broker.cluster_id,
            "controller_id": self._broker.node,
            "topics": topics,
            "cluster_authorized_operations": (
                CLUSTER_OPERATIONS if body.include_cluster_authorized_operations else NOT_ASKED
            ),
        }

    def _describe(self, topic: Topic, version: int, operations: int) -> Encoded:
        return self._descriptions.of(topic, version, operations, self._topics.by_id.values())

    async def _describe_asked(self, asked: Any, may_create: bool, version: int, operations: int) -> Body | Encoded:
        if asked.name is None or asked.topic_id != ZERO_UUID:
            topic = self._topics.by_id.get(asked.topic_id)
            if topic is None:
                name = None if version >= NAMES_OPTIONAL_FROM else ""
                return {"error_code": ErrorCode.UNKNOWN_TOPIC_ID, "name": name, "topic_id": asked.topic_id}
            return self._describe(topic, version, operations)
        topic = self._topics.named().get(asked.name)
        if topic is None and may_create:
            try:
                topic = await self._topics.ensure(NewTopic(asked.name, self._settings.partitions_default))
            except MainstemError as error:
                return {"error_code": code_of(error), "name": asked.name}
        if topic is None:
            return {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "name": asked.name}
        return self._describe(topic, version, operations)

    # The others

    def describe_cluster(self, call: Call) -> Body:
        """This broker, which leads, and those that stand by."""
        if call.body.endpoint_type != BROKER_ENDPOINTS:
            return {
                "error_code": ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                "error_message": "Controllers have no endpoint of their own.",
                "endpoint_type": call.body.endpoint_type,
                "cluster_id": self._broker.cluster_id,
            }
        asked = call.body.include_cluster_authorized_operations
        return {
            "cluster_id": self._broker.cluster_id,
            "controller_id": self._broker.node,
            "brokers": self._describe_brokers("broker_id", call),
            "cluster_authorized_operations": CLUSTER_OPERATIONS if asked else NOT_ASKED,
        }

    def describe_topic_partitions(self, call: Call) -> Body:
        """Topics in the order of their names, in pages of a bounded number of partitions."""
        body = call.body
        cursor = body.cursor
        names = sorted({topic.name for topic in body.topics} or self._topics.named())
        left = max(1, min(body.response_partition_limit, PARTITIONS_PER_PAGE_MAX))
        topics: list[Body] = []
        for name in names:
            if cursor is not None and name < cursor.topic_name:
                continue
            if left <= 0:
                return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": 0}}
            topic = self._topics.named().get(name)
            if topic is None:
                topics.append({"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "name": name})
                continue
            first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
            # Kafka's own clients take these lists for granted, empty where no leader was ever lost.
            partitions = [
                describe_partition(index, self._broker.node, self._broker.term)
                | {"eligible_leader_replicas": [], "last_known_elr": []}
                for index in range(first, min(first + left, len(topic.logs)))
            ]
            left -= len(partitions)
            described = {"name": name, "topic_id": topic.id, "topic_authorized_operations": TOPIC_OPERATIONS}
            topics.append(described | {"partitions": partitions})
            after = first + len(partitions)
            if after < len(topic.logs):
                return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": after}}
        return {"topics": topics, "next_cursor": None}

    def find_coordinator(self, call: Call) -> Body:
        """Always here."""
        body = call.body
        host, port = self._advertised(call.connection.endpoints)
        if body.key_type not in (GROUP_COORDINATOR, TRANSACTION_COORDINATOR):
            error, message = ErrorCode.INVALID_REQUEST, "Only groups and transactions have a coordinator here."
            place: Body = {"node_id": -1, "host": "", "port": -1, "error_code": error, "error_message": message}
        else:
            place = {"node_id": self._broker.node, "host": host, "port": port, "error_code": 0, "error_message": None}
        if call.version < COORDINATOR_LISTS_FROM:
            return place
        return {"coordinators": [place | {"key": key} for key in body.coordinator_keys]}
