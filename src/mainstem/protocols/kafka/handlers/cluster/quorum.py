"""The cluster as its administrators see it: a quorum of one, whose features are all on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.model.endpoints import Endpoints
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.handlers.cluster.features import FEATURES
from mainstem.protocols.kafka.mapping import Advertised, StoreFacts
from mainstem.wire.kafka import ApiKey, ErrorCode

METADATA_LOG = "__cluster_metadata"
"""What Kafka calls the log of the catalog. Here it is the one log of everything."""
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
UPGRADE_TYPES_FROM = 1
WHOLE_FROM = 2
"""From here on UpdateFeatures does not list the features."""
FIXED_VOTERS = "The voters are fixed: the one node."


class QuorumHandlers:
    """DescribeQuorum, UpdateFeatures, UnregisterBroker, AddRaftVoter, RemoveRaftVoter."""

    def __init__(
        self, broker: Broker, store: StoreFacts, advertised: Advertised, security: Callable[[Endpoints], str]
    ) -> None:
        self._broker = broker
        self._store = store
        self._advertised = advertised
        self._security = security

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.DESCRIBE_QUORUM: Served(self.describe_quorum, 0, 2),
            ApiKey.UPDATE_FEATURES: Served(self.update_features, 0, 2),
            ApiKey.UNREGISTER_BROKER: Served(self.unregister_broker, 0, 0),
            ApiKey.ADD_RAFT_VOTER: Served(self.refuse_voter, 0, 1),
            ApiKey.REMOVE_RAFT_VOTER: Served(self.refuse_voter, 0, 0),
        }

    def describe_quorum(self, call: Call) -> Body:
        """The one node leads, and has all of it."""
        topics = [
            {
                "topic_name": topic.topic_name,
                "partitions": [self._quorum(topic.topic_name, p.partition_index) for p in topic.partitions],
            }
            for topic in call.body.topics
        ]
        endpoints = call.connection.endpoints
        host, port = self._advertised(endpoints)
        listener = {"name": self._security(endpoints), "host": host, "port": port}
        return {
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "topics": topics,
            "nodes": [{"node_id": self._broker.node, "listeners": [listener]}],
        }

    def _quorum(self, name: str, index: int) -> Body:
        answer: Body = {"partition_index": index, "error_code": ErrorCode.NONE, "error_message": None}
        if (name, index) != (METADATA_LOG, 0):
            return answer | {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        end, now_ms = self._store().commit_groups, self._broker.clock.now_ms()
        voter = {
            "replica_id": self._broker.node,
            "log_end_offset": end,
            "last_fetch_timestamp": now_ms,
            "last_caught_up_timestamp": now_ms,
        }
        return answer | {
            "leader_id": self._broker.node,
            "leader_epoch": self._broker.term,
            "high_watermark": end,
            "current_voters": [voter],
            "observers": [],
        }

    # Features

    def update_features(self, call: Call) -> Body:
        """To where they are. None can be switched off: what is served is served."""
        updates = call.body.feature_updates
        reasons = (_reason_against(update, call.version, self._broker.node) for update in updates)
        reason = next((told for told in reasons if told is not None), None)
        if reason is not None:
            message = f"The update failed for all features since the following feature had an error: {reason}"
            return {"error_code": ErrorCode.INVALID_UPDATE_VERSION, "error_message": message, "results": []}
        results = [{"feature": u.feature, "error_code": ErrorCode.NONE, "error_message": None} for u in updates]
        return {
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "results": results if call.version < WHOLE_FROM else [],
        }

    # Brokers and voters

    def unregister_broker(self, call: Call) -> Body:
        """There is one, and it answers."""
        if call.body.broker_id != self._broker.node:
            message = f"Broker ID {call.body.broker_id} is not currently registered"
            return {"error_code": ErrorCode.BROKER_ID_NOT_REGISTERED, "error_message": message}
        message = "The one broker cannot be unregistered."
        return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": message}

    def refuse_voter(self, call: Call) -> Body:
        """As Kafka does where the voters are fixed."""
        cluster_id = call.body.cluster_id
        if cluster_id is not None and cluster_id != self._broker.cluster_id:
            return {"error_code": ErrorCode.INCONSISTENT_CLUSTER_ID, "error_message": None}
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "error_message": FIXED_VOTERS}


def _reason_against(update: Any, version: int, node: int) -> str | None:
    """Why a feature cannot be set to this level; None if it has it."""
    name, wanted = update.feature, update.max_version_level
    kind = update.upgrade_type if version >= UPGRADE_TYPES_FROM else UPGRADE
    if version < UPGRADE_TYPES_FROM and update.allow_downgrade:
        kind = SAFE_DOWNGRADE
    feature = FEATURES.get(name)
    reason = None
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        reason = "The upgrade type is not known."
    elif wanted < 0:
        reason = "A feature version cannot be less than 0."
    elif feature is None:
        reason = f"Broker {node} does not support this feature."
    elif not feature.lowest <= wanted <= feature.highest:
        reason = f"Broker {node} only supports versions {feature.lowest}-{feature.highest}."
    elif wanted < feature.level and kind == UPGRADE:
        reason = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    elif wanted != feature.level:
        reason = f"It is always at {feature.level} here."
    return None if reason is None else f"Invalid update version {wanted} for feature {name}. {reason}"
