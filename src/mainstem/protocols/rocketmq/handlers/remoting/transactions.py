"""Half messages of producers: how they are decided, and how producers are asked."""

from __future__ import annotations

import itertools

from mainstem.broker.broker import Broker
from mainstem.broker.subscriptions.undecided import Undecided, UndecidedMessage
from mainstem.protocols.rocketmq.codec.remoting.messages import encode_message
from mainstem.protocols.rocketmq.codec.remoting.request_codes import RequestCode
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.handlers.remoting.calls import Call, Handler
from mainstem.protocols.rocketmq.handlers.remoting.membership import Membership
from mainstem.protocols.rocketmq.handlers.remoting.sending import message_id
from mainstem.protocols.rocketmq.mapping.messages import IS_HALF, UNIQUE_KEY, stored_message
from mainstem.protocols.rocketmq.mapping.names import log_and_offset, physical_offset
from mainstem.protocols.rocketmq.session.settings import RemotingSettings
from mainstem.wire.record_batch import Record

COMMITTED, ROLLED_BACK, NOT_KNOWN = 8, 12, 0
PRODUCER_GROUP = "PGROUP"


class TransactionHandlers:
    """Of all connections."""

    def __init__(
        self, broker: Broker, settings: RemotingSettings, membership: Membership, undecided: Undecided
    ) -> None:
        self._topics = broker.topics
        self._settings = settings
        self._membership = membership
        self._undecided = undecided
        self._turn = itertools.count()
        undecided.on_check.append(self._ask)

    def handlers(self) -> dict[int, Handler]:
        """By code."""
        return {RequestCode.END_TRANSACTION: self.end}

    async def end(self, call: Call) -> None:
        """A producer decides, or says that it does not know yet."""
        decision = call.number("commitOrRollback")
        if decision not in (COMMITTED, ROLLED_BACK, NOT_KNOWN):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{decision} is no decision")
        if decision != NOT_KNOWN:
            _, offset = log_and_offset(max(call.number("commitLogOffset"), 0))
            await self._undecided.decide(offset, is_published=decision == COMMITTED)
        call.answer()

    def _ask(self, waiting: UndecidedMessage) -> bool:
        """One of the producers of the message's group."""
        message, facts = waiting.message, waiting.facts
        connections = list(self._membership.producers(facts.group)) if facts.group else []
        topic = self._topics.named(facts.namespace).get(facts.topic)
        if not connections or topic is None:
            return False
        connection = connections[next(self._turn) % len(connections)]
        log = message.lane.cursor.log
        record = Record(message.offset, facts.timestamp_ms, message.key, bytes(message.value), waiting.headers)
        shown = stored_message(topic, 0, record, connection.host)
        properties = {**shown.properties, IS_HALF: "true", PRODUCER_GROUP: facts.group}
        place = physical_offset(log, message.offset)
        body = encode_message(shown._replace(properties=properties, physical_offset=place))
        unique_key = properties.get(UNIQUE_KEY, "")
        offset_id = message_id(connection.host, log, message.offset)
        fields = {
            "topic": shown.topic,
            "msgId": unique_key or offset_id,
            "transactionId": unique_key,
            "offsetMsgId": offset_id,
            "tranStateTableOffset": str(message.offset),
            "commitLogOffset": str(place),
            "bname": self._settings.broker_name,
        }
        connection.push(RequestCode.CHECK_TRANSACTION_STATE, fields, body)
        return True
