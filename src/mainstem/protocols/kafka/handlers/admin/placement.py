"""Where partitions are: all on the one node, in the one directory. A client that moves them there is answered: done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mainstem.broker.broker import Broker
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.mapping import StoreFacts, log_of
from mainstem.wire.kafka import ApiKey, ErrorCode

PREFERRED, UNCLEAN = 0, 1
ELECTION_ERRORS_FROM = 1
UNKNOWN_TOLD_FROM = 2
"""AlterReplicaLogDirs before it had no better word than that the replica is not here."""


class PlacementAnswer(NamedTuple):
    """A code, with what is said beside it."""

    code: ErrorCode
    message: str | None = None


DONE = PlacementAnswer(ErrorCode.NONE)


class PlacementHandlers:
    """ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments, AlterReplicaLogDirs."""

    def __init__(self, broker: Broker, store: StoreFacts) -> None:
        self._topics = broker.topics.named()
        self._node = broker.node
        self._store = store

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.ALTER_REPLICA_LOG_DIRS: Served(self.alter_replica_log_dirs, 1, 2),
            ApiKey.ELECT_LEADERS: Served(self.elect_leaders, 0, 2),
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: Served(self.alter_reassignments, 0, 1),
            ApiKey.LIST_PARTITION_REASSIGNMENTS: Served(self.list_reassignments, 0, 0),
        }

    def _missing(self, name: str, partition: int) -> PlacementAnswer | None:
        topic = self._topics.get(name)
        if topic is None:
            return PlacementAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        if log_of(topic, partition) is None:
            return PlacementAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{partition}")
        return None

    def elect_leaders(self, call: Call) -> Body:
        """Every partition has its preferred leader. A client that asks for all gets those that changed: none."""
        if call.version >= ELECTION_ERRORS_FROM and call.body.election_type not in (PREFERRED, UNCLEAN):
            return {"error_code": ErrorCode.INVALID_REQUEST, "replica_election_results": []}
        needless = PlacementAnswer(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
        results = []
        for topic in call.body.topic_partitions or ():
            verdicts = [(index, self._missing(topic.topic, index) or needless) for index in topic.partitions]
            answers = [{"partition_id": index} | _error_fields(verdict) for index, verdict in verdicts]
            results.append({"topic": topic.topic, "partition_result": answers})
        return {"error_code": ErrorCode.NONE, "replica_election_results": results}

    # Reassignments

    def alter_reassignments(self, call: Call) -> Body:
        """To where the partition is already, at once; to anywhere else, never."""
        responses = []
        for topic in call.body.topics:
            verdicts = [(p.partition_index, self._reassign(topic.name, p)) for p in topic.partitions]
            answers = [{"partition_index": index} | _error_fields(verdict) for index, verdict in verdicts]
            responses.append({"name": topic.name, "partitions": answers})
        return {
            "allow_replication_factor_change": call.body.allow_replication_factor_change,
            "error_message": None,
            "responses": responses,
        }

    def _reassign(self, name: str, partition: Any) -> PlacementAnswer:
        missing = self._missing(name, partition.partition_index)
        if missing is not None:
            return missing
        if partition.replicas is None:
            return PlacementAnswer(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
        return _judge_replicas(partition.replicas, self._node)

    def list_reassignments(self, call: Call) -> Body:
        """None is ever under way."""
        return {"error_code": ErrorCode.NONE, "error_message": None, "topics": []}

    # Directories

    def alter_replica_log_dirs(self, call: Call) -> Body:
        """To the directory where the partition is; there is no other."""
        here = self._store().directory
        results = []
        for directory in call.body.dirs:
            for topic in directory.topics:
                partitions = []
                for index in topic.partitions:
                    missing = self._missing(topic.name, index)
                    code = ErrorCode.NONE if directory.path == here else ErrorCode.LOG_DIR_NOT_FOUND
                    if missing is not None and call.version < UNKNOWN_TOLD_FROM:
                        code = ErrorCode.REPLICA_NOT_AVAILABLE
                    elif missing is not None:
                        code = missing.code
                    partitions.append({"partition_index": index, "error_code": code})
                results.append({"topic_name": topic.name, "partitions": partitions})
        return {"results": results}


def _judge_replicas(replicas: Sequence[int], node: int) -> PlacementAnswer:
    says = "The manual partition assignment includes"
    if not replicas:
        return PlacementAnswer(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{says} an empty replica list.")
    strange = next((replica for replica in replicas if replica != node), None)
    if strange is not None:
        message = f"{says} broker {strange}, but no such broker is registered."
        return PlacementAnswer(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    if len(replicas) > 1:
        return PlacementAnswer(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{says} the broker {node} more than once.")
    return DONE


def _error_fields(verdict: PlacementAnswer) -> Body:
    return {"error_code": verdict.code, "error_message": verdict.message}
