"""Identities of idempotent producers."""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.requests import Body, Call, Served
from mainstem.wire.kafka import ApiKey, ErrorCode


class ProducerHandlers:
    """InitProducerId."""

    def __init__(self, broker: Broker) -> None:
        self._producers = broker.producers

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {ApiKey.INIT_PRODUCER_ID: Served(self.init_producer_id, 0, 5)}

    async def init_producer_id(self, call: Call) -> Body:
        """A new id, with epoch 0. Without a transactional id an old one is never continued, as in Kafka."""
        if call.body.transactional_id is not None:
            return {"error_code": ErrorCode.INVALID_REQUEST}
        try:
            return {"producer_id": await self._producers.new_id(), "producer_epoch": 0}
        except MainstemError as error:
            return {"error_code": code_of(error)}
