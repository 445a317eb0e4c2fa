"""Transactions as an administrator sees them."""

from __future__ import annotations

from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.errors import InvalidNamePattern
from mainstem.broker.transactions.transactions import Identity, NamePattern, Transaction, TransactionState
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.mapping import log_of
from mainstem.wire.kafka import ApiKey, ErrorCode

WORDS = {
    TransactionState.EMPTY: "Empty",
    TransactionState.OPEN: "Ongoing",
    TransactionState.COMMITTED: "CompleteCommit",
    TransactionState.ABORTED: "CompleteAbort",
}
NEVER_HERE = frozenset({"PrepareCommit", "PrepareAbort", "Dead", "PrepareEpochFence"})
"""Kafka's words for what lies between: known, and never the case."""
ANY_DURATION = -1
COMMIT = True
COORDINATOR_EPOCH, NO_COORDINATOR = 0, -1
"""There is one coordinator, and it never moves; who has no transactions has none."""


class TransactionListingHandlers:
    """ListTransactions, DescribeTransactions, DescribeProducers, WriteTxnMarkers."""

    def __init__(self, broker: Broker) -> None:
        self._transactions = broker.transactions
        self._producers = broker.producers
        self._topics = broker.topics.named()
        self._now_ms = broker.clock.now_ms

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.LIST_TRANSACTIONS: Served(self.list_transactions, 0, 2),
            ApiKey.DESCRIBE_TRANSACTIONS: Served(self.describe_transactions, 0, 0),
            ApiKey.DESCRIBE_PRODUCERS: Served(self.describe_producers, 0, 0),
            ApiKey.WRITE_TXN_MARKERS: Served(self.write_markers, 1, 2),
        }

    def list_transactions(self, call: Call) -> Body:
        """All of them, or those that match."""
        body = call.body
        now_ms = self._now_ms()
        text = body.transactional_id_pattern
        try:
            pattern = NamePattern.compile(text) if text else None
        except InvalidNamePattern as error:
            return {"error_code": code_of(error)}
        states = []
        for transaction in self._transactions.known():
            entry = transaction.entry
            assert entry is not None
            if pattern is not None and not pattern.matches(transaction.name):
                continue
            if body.state_filters and WORDS[entry.state] not in body.state_filters:
                continue
            if body.producer_id_filters and entry.producer not in body.producer_id_filters:
                continue
            if body.duration_filter > ANY_DURATION and now_ms - entry.started_ms <= body.duration_filter:
                continue
            states.append(
                {
                    "transactional_id": transaction.name,
                    "producer_id": entry.producer,
                    "transaction_state": WORDS[entry.state],
                }
            )
        unknown = sorted(set(body.state_filters) - NEVER_HERE - set(WORDS.values()))
        return {"unknown_state_filters": unknown, "transaction_states": states}

    def describe_transactions(self, call: Call) -> Body:
        """Each of them, with its partitions."""
        return {"transaction_states": [self._describe(name) for name in call.body.transactional_ids]}

    def _describe(self, name: str) -> Body:
        if not name:
            return {"transactional_id": name, "error_code": ErrorCode.INVALID_REQUEST}
        try:
            transaction = self._transactions.get(name)
        except MainstemError as error:
            return {"transactional_id": name, "error_code": code_of(error)}
        entry = transaction.entry
        assert entry is not None
        return {
            "transactional_id": name,
            "transaction_state": WORDS[entry.state],
            "transaction_timeout_ms": entry.timeout_ms,
            "transaction_start_time_ms": entry.started_ms,
            "producer_id": entry.producer,
            "producer_epoch": entry.epoch,
            "topics": self._topics_of(transaction),
        }

    def _topics_of(self, transaction: Transaction) -> list[Body]:
        found = []
        for topic in self._topics.values() if transaction.logs else ():
            partitions = [index for index, log in enumerate(topic.logs) if log in transaction.logs]
            if partitions:
                found.append({"topic": topic.name, "partitions": partitions})
        return found

    async def describe_producers(self, call: Call) -> Body:
        """Those that wrote to a partition recently, with or without a transaction."""
        topics = []
        for asked in call.body.topics:
            partitions = [await self._producers_of(asked.name, index) for index in asked.partition_indexes]
            topics.append({"name": asked.name, "partitions": partitions})
        return {"topics": topics}

    async def _producers_of(self, name: str, index: int) -> Body:
        topic = self._topics.get(name)
        log = None if topic is None else log_of(topic, index)
        if log is None:
            return {"partition_index": index, "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        transactional = {t.entry.producer for t in self._transactions.known() if t.entry is not None}
        active = [
            {
                "producer_id": producer,
                "producer_epoch": known.epoch,
                "last_sequence": known.last_sequence,
                "last_timestamp": known.last_ms,
                "coordinator_epoch": COORDINATOR_EPOCH if producer in transactional else NO_COORDINATOR,
                "current_txn_start_offset": known.open_from,
            }
            for producer, known in (await self._producers.active_in(log)).items()
        ]
        return {"partition_index": index, "active_producers": active}

    async def write_markers(self, call: Call) -> Body:
        """How administrators abort what hangs. Commits are not theirs to make: the coordinator is here."""
        markers = []
        for marker in call.body.markers:
            topics = []
            for topic in marker.topics:
                codes = [
                    (index, await self._write_marker(marker, topic.name, index)) for index in topic.partition_indexes
                ]
                partitions = [{"partition_index": index, "error_code": code} for index, code in codes]
                topics.append({"name": topic.name, "partitions": partitions})
            markers.append({"producer_id": marker.producer_id, "topics": topics})
        return {"markers": markers}

    async def _write_marker(self, marker: Any, name: str, index: int) -> ErrorCode:
        topic = self._topics.get(name)
        log = None if topic is None else log_of(topic, index)
        if log is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if marker.transaction_result == COMMIT:
            return ErrorCode.INVALID_REQUEST
        try:
            await self._transactions.abort_in(log, Identity(marker.producer_id, marker.producer_epoch))
        except MainstemError as error:
            return code_of(error)
        return ErrorCode.NONE
