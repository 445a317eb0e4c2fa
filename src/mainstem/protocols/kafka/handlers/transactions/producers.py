"""Identities of idempotent and of transactional producers."""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.broker.transactions.transactions import Identity
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.handlers.transactions.transactions import transaction_code
from mainstem.wire.kafka import ApiKey, ErrorCode

FENCED_FROM = 4
NONE = -1


class ProducerHandlers:
    """InitProducerId."""

    def __init__(self, broker: Broker) -> None:
        self._producers = broker.producers
        self._transactions = broker.transactions

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {ApiKey.INIT_PRODUCER_ID: Served(self.init_producer_id, 0, 5)}

    async def init_producer_id(self, call: Call) -> Body:
        """A new id, with epoch 0; or, with a transactional id, the next epoch of the producer of that name.

        Without a transactional id an old one is never continued, as in Kafka.
        """
        body = call.body
        name = body.transactional_id
        if name == "" or (body.producer_id == NONE) != (body.producer_epoch == NONE):
            return {"error_code": ErrorCode.INVALID_REQUEST}
        try:
            if name is None:
                return {"producer_id": await self._producers.new_id(), "producer_epoch": 0}
        except MainstemError as error:
            return {"error_code": code_of(error)}
        expected = None if body.producer_id == NONE else Identity(body.producer_id, body.producer_epoch)
        try:
            identity = await self._transactions.begin(name, body.transaction_timeout_ms, expected)
            return {"producer_id": identity.producer, "producer_epoch": identity.epoch}
        except MainstemError as error:
            return {"error_code": transaction_code(error, says_fenced=call.version >= FENCED_FROM)}
