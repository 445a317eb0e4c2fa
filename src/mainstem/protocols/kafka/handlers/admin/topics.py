"""Creating, deleting and expanding topics."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic, Topic
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.admin.config_entries import describe_topic_options
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.handlers.throttles import Throttles
from mainstem.protocols.kafka.mapping import REPLICATION_FACTOR
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.wire.kafka import ZERO_UUID, ApiKey, ErrorCode

DEFAULT = -1
TOPIC_STATES_FROM = 6
STRICT_CREATION_FROM, STRICT_DELETION_FROM, STRICT_EXPANSION_FROM = 6, 5, 3
"""From here on a client understands that a change was refused because it makes too many (KIP-599)."""


class RefusedWish(Exception):
    """A topic that cannot be asked for like this."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class TopicHandlers:
    """CreateTopics, DeleteTopics, CreatePartitions."""

    def __init__(self, broker: Broker, settings: KafkaSettings, throttles: Throttles) -> None:
        self._topics = broker.topics
        self._throttles = throttles
        self._partitions_default = settings.partitions_default

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.CREATE_TOPICS: Served(self.create_topics, 2, 7),
            ApiKey.DELETE_TOPICS: Served(self.delete_topics, 1, 6),
            ApiKey.CREATE_PARTITIONS: Served(self.create_partitions, 0, 3),
        }

    def _charge(self, call: Call, partitions: int, strict_from: int) -> None:
        """A client wants to change `count` partitions. Raises RefusedWish where its quota does not allow it."""
        allowance = self._throttles.mutations(call.connection.user, call.client_id)
        if allowance is None:
            return
        may = allowance.take(partitions, is_strict=call.version >= strict_from)
        self._throttles.throttle(call.reply, allowance.wait_s())
        if not may:
            raise RefusedWish(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")

    # Create

    async def create_topics(self, call: Call) -> Body:
        """Each succeeds or fails alone; those that succeed are created by one commit."""
        results: dict[str, Body] = {}
        wishes: list[NewTopic] = []
        asked = Counter(topic.name for topic in call.body.topics)
        for topic in call.body.topics:
            try:
                if asked[topic.name] > 1:
                    raise RefusedWish(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                wish = self._wish(topic)
                if call.body.validate_only:
                    self._topics.check_create(wish)
                    results[topic.name] = self._created(wish)
                else:
                    self._charge(call, wish.partitions, STRICT_CREATION_FROM)
                    results[topic.name] = {}
                    wishes.append(wish)
            except RefusedWish as refusal:
                results[topic.name] = _refused(topic.name, refusal.code, str(refusal))
            except MainstemError as error:
                results[topic.name] = _refused(topic.name, code_of(error), str(error))
        for wish, outcome in zip(wishes, await self._topics.create(wishes) if wishes else (), strict=True):
            if isinstance(outcome, Topic):
                results[wish.name] = self._created(wish) | {"topic_id": outcome.id}
            else:
                results[wish.name] = _refused(wish.name, code_of(outcome), str(outcome))
        return {"topics": list(results.values())}

    def _wish(self, topic: Any) -> NewTopic:
        configs = {}
        for config in topic.configs:
            if config.value is None:
                raise RefusedWish(
                    ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {config.name}"
                )
            configs[config.name] = config.value
        partitions = topic.num_partitions
        if topic.assignments:
            if (topic.num_partitions, topic.replication_factor) != (DEFAULT, DEFAULT):
                message = "Both partitions or replicationFactor and replicasAssignments were set."
                raise RefusedWish(ErrorCode.INVALID_REQUEST, message)
            partitions = self._assigned(topic.assignments)
        elif topic.replication_factor not in (DEFAULT, REPLICATION_FACTOR):
            message = f"Unable to replicate the partition {topic.replication_factor} time(s): there is one broker."
            raise RefusedWish(ErrorCode.INVALID_REPLICATION_FACTOR, message)
        if partitions == DEFAULT:
            partitions = self._partitions_default
        return NewTopic(topic.name, partitions, configs)

    def _assigned(self, assignments: list[Any]) -> int:
        if sorted(a.partition_index for a in assignments) != list(range(len(assignments))):
            message = "Partitions should be a consecutive 0-based integer sequence."
            raise RefusedWish(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        if any(list(a.broker_ids) != [self._topics.node] for a in assignments):
            raise RefusedWish(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The one broker has the id {self._topics.node}.")
        return len(assignments)

    def _created(self, wish: NewTopic) -> Body:
        kept = ("name", "value", "read_only", "config_source", "is_sensitive")
        described = describe_topic_options(self._topics, wish.configs)
        return {
            "name": wish.name,
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "num_partitions": wish.partitions,
            "replication_factor": REPLICATION_FACTOR,
            "configs": [{key: option[key] for key in kept} for option in described],
        }

    # Delete

    async def delete_topics(self, call: Call) -> Body:
        """By name or by id."""
        if call.version < TOPIC_STATES_FROM:
            asked = [(name, ZERO_UUID) for name in call.body.topic_names]
        else:
            asked = [(state.name, state.topic_id) for state in call.body.topics]
        return {"responses": [await self._delete(call, name, topic_id) for name, topic_id in asked]}

    async def _delete(self, call: Call, name: str | None, topic_id: Any) -> Body:
        def answer(code: int, message: str | None = None) -> Body:
            return {"name": name, "topic_id": topic_id, "error_code": code, "error_message": message}

        if name is not None and topic_id != ZERO_UUID:
            return answer(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        topic = self._topics.by_id.get(topic_id) if name is None else self._topics.named().get(name)
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return answer(code)
        try:
            self._charge(call, len(topic.logs), STRICT_DELETION_FROM)
            await self._topics.delete(topic)
        except RefusedWish as refusal:
            return answer(refusal.code, str(refusal))
        except MainstemError as error:
            return answer(code_of(error), str(error))
        name, topic_id = topic.name, topic.id
        return answer(ErrorCode.NONE)

    # Expand

    async def create_partitions(self, call: Call) -> Body:
        """There are never fewer partitions than before."""
        results = []
        for topic in call.body.topics:
            code, message = ErrorCode.NONE, None
            try:
                if any(list(assignment.broker_ids) != [self._topics.node] for assignment in topic.assignments or ()):
                    raise RefusedWish(
                        ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The one broker has the id {self._topics.node}."
                    )
                if not call.body.validate_only:
                    have = self._topics.named().get(topic.name)
                    added = topic.count - (len(have.logs) if have is not None else 0)
                    self._charge(call, max(added, 0), STRICT_EXPANSION_FROM)
                await self._topics.expand(topic.name, topic.count, dry_run=call.body.validate_only)
            except RefusedWish as refusal:
                code, message = refusal.code, str(refusal)
            except MainstemError as error:
                code, message = code_of(error), str(error)
            results.append({"name": topic.name, "error_code": code, "error_message": message})
        return {"results": results}


def _refused(name: str, code: int, message: str) -> Body:
    return {"name": name, "error_code": code, "error_message": message, "configs": []}
