"""A transactional producer, request by request."""

from __future__ import annotations

from typing import Any

from mainstem.wire.kafka import ApiKey
from tests.support.clients.kafka_client import Client, batch


class Producer:
    """A transactional producer, as far as its requests go."""

    def __init__(self, client: Client, name: str = "tx", *, second: bool) -> None:
        self.client = client
        self.name = name
        self.second = second
        """Whether it speaks the second version (KIP-890)."""
        self.id, self.epoch = -1, -1
        self.sequences: dict[str, int] = {}

    async def begin(self, timeout_ms: int = 60_000, **options: Any) -> int:
        answer = await self.client.ask(
            ApiKey.INIT_PRODUCER_ID, 5, transactional_id=self.name, transaction_timeout_ms=timeout_ms, **options
        )
        if answer.error_code == 0:
            self.id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
        return int(answer.error_code)

    async def add(self, topic: str, partition: int = 0, version: int = 3) -> int:
        answer = await self.client.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[{"name": topic, "partitions": [partition]}],
        )
        return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    async def write(self, topic: str, *values: bytes, version: int | None = None, add: bool = True) -> int:
        if add and not self.second:
            code = await self.add(topic)
            if code:
                return code
        sequence = self.sequences.get(topic, 0)
        records = batch(
            *values,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        answer = await self.client.produce(
            topic, records, version=version or (12 if self.second else 11), transactional_id=self.name
        )
        if answer.error_code == 0:
            self.sequences[topic] = sequence + len(values)
        return int(answer.error_code)

    async def end(self, *, commit: bool, version: int | None = None) -> int:
        answer = await self.client.ask(
            ApiKey.END_TXN,
            version or (5 if self.second else 4),
            transactional_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        if answer.error_code == 0 and self.second:
            if (answer.producer_id, answer.producer_epoch) != (self.id, self.epoch):
                self.sequences = {}
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    async def add_offset(self, group: str, offset: int, version: int | None = None, **options: Any) -> int:
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "note"}
        answer = await self.client.ask(
            ApiKey.TXN_OFFSET_COMMIT,
            version or (5 if self.second else 3),
            transactional_id=self.name,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[{"name": "t", "partitions": [partition]}],
            **options,
        )
        return int(answer.topics[0].partitions[0].error_code)
