"""What a transactional producer asks for, from what takes part to the end."""

from __future__ import annotations

from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.errors import (
    FencedProducer,
    InvalidGroupName,
    InvalidTransactionState,
    RebalanceUnderWay,
    StaleGeneration,
    StaleMember,
)
from mainstem.broker.transactions.transactions import Identity
from mainstem.model.errors import MainstemError, UnavailableError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.handlers.groups.committed_offsets import CommittedOffsets
from mainstem.protocols.kafka.mapping import log_of
from mainstem.wire.kafka import ApiKey, ErrorCode

FENCED_FROM = 2
"""Before, clients know only of the epoch (KIP-588)."""
BATCHES_FROM = 4
"""AddPartitionsToTxn: many transactions at once, as brokers ask each other."""
RAISES_EPOCH_FROM = 5
"""EndTxn: each transaction has an epoch of its own (KIP-890)."""
IMPLICIT_FROM = 5
"""TxnOffsetCommit: a group takes part by its offsets (KIP-890)."""
ABORTABLE_FROM = 4


class TransactionHandlers:
    """AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn."""

    def __init__(self, broker: Broker) -> None:
        self._transactions = broker.transactions
        self._groups = broker.groups
        self._topics = broker.topics.named()
        self._broker = broker

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.ADD_PARTITIONS_TO_TXN: Served(self.add_partitions, 0, 5),
            ApiKey.ADD_OFFSETS_TO_TXN: Served(self.add_offsets, 0, 4),
            ApiKey.TXN_OFFSET_COMMIT: Served(self.commit_offsets, 0, 5),
            ApiKey.END_TXN: Served(self.end, 0, 5),
        }

    # Partitions

    async def add_partitions(self, call: Call) -> Body:
        """Partitions take part: all of a transaction's, or none."""
        body = call.body
        says_fenced = call.version >= FENCED_FROM
        if call.version >= BATCHES_FROM:
            results = []
            for asked in body.transactions:
                identity = Identity(asked.producer_id, asked.producer_epoch)
                add = self._verify if asked.verify_only else self._add
                topics = await add(asked.transactional_id, identity, asked.topics, says_fenced)
                results.append({"transactional_id": asked.transactional_id, "topic_results": topics})
            return {"results_by_transaction": results}
        identity = Identity(body.v3_and_below_producer_id, body.v3_and_below_producer_epoch)
        name, topics = body.v3_and_below_transactional_id, body.v3_and_below_topics
        return {"results_by_topic_v3_and_below": await self._add(name, identity, topics, says_fenced)}

    async def _add(self, name: str, identity: Identity, topics: list[Any], says_fenced: bool) -> list[Body]:
        logs = {(topic.name, index): self._log(topic.name, index) for topic in topics for index in topic.partitions}
        known = [log for log in logs.values() if log is not None]
        refusal = ErrorCode.NONE if name else ErrorCode.INVALID_REQUEST
        if len(known) < len(logs):
            refusal = ErrorCode.OPERATION_NOT_ATTEMPTED
        elif name:
            try:
                await self._transactions.add(name, identity, known)
            except MainstemError as error:
                refusal = transaction_code(error, says_fenced=says_fenced)

        def code(topic: str, index: int) -> int:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if logs[topic, index] is None else refusal

        return [_result(topic, [code(topic.name, index) for index in topic.partitions]) for topic in topics]

    async def _verify(self, name: str, identity: Identity, topics: list[Any], says_fenced: bool) -> list[Body]:
        def code(topic: str, index: int) -> int:
            log = self._log(topic, index)
            if log is None:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            try:
                is_added = self._transactions.is_added(name, identity, log)
            except MainstemError as error:
                return transaction_code(error, says_fenced=says_fenced)
            return ErrorCode.NONE if is_added else ErrorCode.TRANSACTION_ABORTABLE

        return [_result(topic, [code(topic.name, index) for index in topic.partitions]) for topic in topics]

    def _log(self, topic: str, partition: int) -> int | None:
        known = self._topics.get(topic)
        return None if known is None else log_of(known, partition)

    # Offsets

    async def add_offsets(self, call: Call) -> Body:
        """Offsets of a group may take part."""
        body = call.body
        if not body.transactional_id:
            return {"error_code": ErrorCode.INVALID_REQUEST}
        if not body.group_id:
            return {"error_code": ErrorCode.INVALID_GROUP_ID}
        identity = Identity(body.producer_id, body.producer_epoch)
        try:
            await self._transactions.add_group(body.transactional_id, identity, body.group_id)
            return {"error_code": ErrorCode.NONE}
        except MainstemError as error:
            return {"error_code": transaction_code(error, says_fenced=call.version >= FENCED_FROM)}

    async def commit_offsets(self, call: Call) -> Body:
        """Offsets that count when the transaction commits."""
        body = call.body
        offsets = CommittedOffsets(self._broker)
        codes = {
            (topic.name, asked.partition_index): offsets.take(self._topics.get(topic.name), asked)
            for topic in body.topics
            for asked in topic.partitions
        }
        refusal = ErrorCode.NONE
        try:
            self._check_member(body)
            await self._transactions.add_offsets(
                body.transactional_id,
                Identity(body.producer_id, body.producer_epoch),
                body.group_id,
                offsets.taken,
                implicitly=call.version >= IMPLICIT_FROM,
            )
        except InvalidTransactionState:
            is_abortable = call.version >= ABORTABLE_FROM
            refusal = ErrorCode.TRANSACTION_ABORTABLE if is_abortable else ErrorCode.INVALID_TXN_STATE
        except MainstemError as error:
            # The group's side of Kafka speaks of the epoch alone, in all versions.
            refusal = transaction_code(error, says_fenced=False)
        return {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "partition_index": asked.partition_index,
                            "error_code": refusal or codes[topic.name, asked.partition_index],
                        }
                        for asked in topic.partitions
                    ],
                }
                for topic in body.topics
            ]
        }

    def _check_member(self, body: Any) -> None:
        """Who says which member it is, must be it (KIP-447); a rebalance does not stop it."""
        if not body.group_id:
            raise InvalidGroupName("a group has a name")
        if body.generation_id < 0 and not body.member_id and body.group_instance_id is None:
            return
        try:
            places = [(topic.name, asked.partition_index) for topic in body.topics for asked in topic.partitions]
            self._groups.check_commit(body.group_id, body.member_id, body.group_instance_id, body.generation_id, places)
        except RebalanceUnderWay:
            return
        except StaleMember as error:
            raise StaleGeneration(str(error)) from None  # as producers know it, whatever the kind of group

    # The end

    async def end(self, call: Call) -> Body:
        """Commit or abort."""
        body = call.body
        if not body.transactional_id:
            return {"error_code": ErrorCode.INVALID_REQUEST}
        identity = Identity(body.producer_id, body.producer_epoch)
        try:
            following = await self._transactions.end(
                body.transactional_id,
                identity,
                commit=body.committed,
                raises_epoch=call.version >= RAISES_EPOCH_FROM,
            )
            return {"producer_id": following.producer, "producer_epoch": following.epoch}
        except MainstemError as error:
            return {"error_code": transaction_code(error, says_fenced=call.version >= FENCED_FROM)}


def transaction_code(error: MainstemError, *, says_fenced: bool) -> ErrorCode:
    """The code of a coordinator's refusal."""
    if isinstance(error, UnavailableError):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE  # retried by clients, unlike those of a log
    if isinstance(error, FencedProducer) and not says_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code_of(error)


def _result(topic: Any, codes: list[int]) -> Body:
    return {
        "name": topic.name,
        "results_by_partition": [
            {"partition_index": index, "partition_error_code": code}
            for index, code in zip(topic.partitions, codes, strict=True)
        ],
    }
