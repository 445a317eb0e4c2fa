"""Replies to requests: a consumer sends one to the broker, which hands it to the client that asked.

A reply is not stored. A client that asked waits on its connection, for seconds.
"""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.protocols.rocketmq.codec.remoting.properties import decode_properties
from mainstem.protocols.rocketmq.codec.remoting.request_codes import RequestCode
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.handlers.remoting.calls import Call, Handler
from mainstem.protocols.rocketmq.handlers.remoting.membership import Membership
from mainstem.protocols.rocketmq.handlers.remoting.sending import field_names, message_id
from mainstem.protocols.rocketmq.mapping.messages import REPLY_TO_CLIENT, too_large
from mainstem.protocols.rocketmq.session.settings import RemotingSettings

PASSED_ON = {
    "producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d", "queueId": "e",
    "sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i", "reconsumeTimes": "j", "unitMode": "k",
}  # fmt: skip
"""Fields of a reply that its receiver is given, and their short names."""


class ReplyHandlers:
    """Of all connections."""

    def __init__(self, broker: Broker, settings: RemotingSettings, membership: Membership) -> None:
        self._now_ms = broker.clock.now_ms
        self._settings = settings
        self._membership = membership

    def handlers(self) -> dict[int, Handler]:
        """By code."""
        return {RequestCode.SEND_REPLY_MESSAGE: self.reply, RequestCode.SEND_REPLY_MESSAGE_V2: self.reply}

    def reply(self, call: Call) -> None:
        """Hand it to the client that asked. Raises RequestRefused."""
        body = bytes(call.command.body)
        if len(body) > self._settings.message_bytes_max:
            raise too_large(self._settings.message_bytes_max)
        names = field_names(call)
        asked_by = decode_properties(call.fields.get(names["properties"], "")).get(REPLY_TO_CLIENT, "")
        receiver = self._membership.client(asked_by)
        if receiver is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"the client {asked_by[:200]!r} that waits for the reply is not connected"
            )
        is_short = call.command.code == RequestCode.SEND_REPLY_MESSAGE_V2
        fields = {name: call.fields.get(short if is_short else name) for name, short in PASSED_ON.items()}
        here, there = call.connection.endpoints, receiver.endpoints
        receiver.push(
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
            {name: text for name, text in fields.items() if text is not None}
            | {
                "bornHost": f"{here.peer_host}:{here.peer_port}",
                "storeHost": f"{there.host}:{there.port}",
                "storeTimestamp": str(self._now_ms()),
            },
            body,
        )
        queue = max(call.number(names["queue"], 0), 0)
        call.answer({"msgId": message_id(call.connection.host, 0, 0), "queueId": queue, "queueOffset": 0})
