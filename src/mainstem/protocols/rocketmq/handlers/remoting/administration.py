"""What administrators ask for: topics made and removed, how full they are, who is connected."""

from __future__ import annotations

from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.log import Edge
from mainstem.protocols.rocketmq.codec.remoting.documents import (
    MessageQueue,
    decode_document,
    encode_document,
    encode_offset_table,
)
from mainstem.protocols.rocketmq.codec.remoting.request_codes import RequestCode
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.handlers.book import MESSAGE_TYPE, GroupBook
from mainstem.protocols.rocketmq.handlers.remoting.calls import Call, Handler
from mainstem.protocols.rocketmq.handlers.remoting.membership import Membership
from mainstem.protocols.rocketmq.handlers.remoting.routes import READ_AND_WRITE, topic_config
from mainstem.protocols.rocketmq.mapping.names import (
    DEFAULT_TOPIC,
    check_group,
    find_topic,
    name_of,
    new_topic,
    shown_topics,
)
from mainstem.protocols.rocketmq.session.settings import RemotingSettings

LANGUAGE = "JAVA"
RETRIES_LIMIT = 1_000
TYPES = frozenset({"NORMAL", "FIFO", "DELAY", "MIXED"})


class AdministrationHandlers:
    """Of the broker's listener."""

    def __init__(self, broker: Broker, settings: RemotingSettings, membership: Membership, version: str) -> None:
        self._broker = broker
        self._topics = broker.topics
        self._settings = settings
        self._membership = membership
        self._version = version
        self._started_ms = broker.clock.now_ms()
        self._book = GroupBook(broker)

    def handlers(self) -> dict[int, Handler]:
        """By code."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.put_topic,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete_topic,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.topic_configs,
            RequestCode.GET_TOPIC_CONFIG: self.one_topic_config,
            RequestCode.GET_TOPIC_STATS_INFO: self.topic_stats,
            RequestCode.GET_CONSUME_STATS: self.consume_stats,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumer_connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producer_connections,
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTION_GROUP: self.put_group,
            RequestCode.GET_ALL_SUBSCRIPTION_GROUP_CONFIG: self.groups,
            RequestCode.GET_SUBSCRIPTION_GROUP_CONFIG: self.one_group,
            RequestCode.DELETE_SUBSCRIPTION_GROUP: self.delete_group,
        }

    # Topics

    async def put_topic(self, call: Call) -> None:
        """Make a topic, or give it more queues."""
        name = call.text("topic")
        queues = max(call.number("readQueueNums", 8), call.number("writeQueueNums", 8))
        if call.number("perm", READ_AND_WRITE) != READ_AND_WRITE:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, "a topic is read and written here: perm is 6")
        if name == DEFAULT_TOPIC:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER, f"the topic {name} conflicts with system reserved words"
            )
        kind = _message_type(call.fields.get("attributes", ""))
        topic = await self._topics.ensure(new_topic(name, queues, self._settings.message_bytes_max))
        if queues < len(topic.logs):
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"topic {name} has {len(topic.logs)} queues, and queues are never removed",
            )
        if queues > len(topic.logs):
            await self._topics.expand(topic.name, queues)
        if kind:
            await self._book.put_type(topic, kind)
        call.answer()

    async def delete_topic(self, call: Call) -> None:
        """With all that is in it; one that is not there is no error."""
        topic = find_topic(self._topics, call.text("topic"))
        if topic is not None:
            await self._topics.delete(topic)
        call.answer()

    def topic_configs(self, call: Call) -> None:
        """Of all."""
        found = {name: topic_config(name, topic) for name, topic in shown_topics(self._topics).items()}
        version = {"counter": len(found), "stateVersion": 0, "timestamp": self._started_ms}
        call.answer(body=encode_document({"dataVersion": version, "topicConfigTable": found}))

    def one_topic_config(self, call: Call) -> None:
        """Of one."""
        topic = self._find(call.text("topic"))
        call.answer(body=encode_document(topic_config(name_of(topic), topic)))

    def _find(self, name: str) -> Topic:
        topic = find_topic(self._topics, name)
        if topic is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic {name} does not exist")
        return topic

    # Groups

    async def put_group(self, call: Call) -> None:
        """What a group may do that differs from the defaults: order, and how many retries there are."""
        wish = decode_document(bytes(call.command.body), dict[str, Any])
        group = check_group(str(wish.get("groupName", "")))
        if wish.get("consumeEnable") is False:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, "a group that may not consume is not supported")
        retries_max = wish.get("retryMaxTimes", self._settings.reconsume_times_max)
        if not isinstance(retries_max, int) or not 0 <= retries_max <= RETRIES_LIMIT:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"retryMaxTimes is within 0 and {RETRIES_LIMIT}")
        is_ordered = wish.get("consumeMessageOrderly") is True
        await self._book.put_group(group, is_ordered=is_ordered, retries_max=retries_max)
        call.answer()

    def groups(self, call: Call) -> None:
        """Those that were configured, have consumers, or have committed offsets."""
        names = {*self._book.groups(), *self._membership.groups(), *self._broker.groups.names()}
        table = {name: self._book.group(name) for name in sorted(names)}
        version = {"counter": len(table), "stateVersion": 0, "timestamp": self._started_ms}
        call.answer(body=encode_document({"dataVersion": version, "subscriptionGroupTable": table}))

    def one_group(self, call: Call) -> None:
        """Of one."""
        call.answer(body=encode_document(self._book.group(check_group(call.text("group")))))

    async def delete_group(self, call: Call) -> None:
        """Its configuration and, where the request says so, its offsets."""
        group = check_group(call.text("groupName"))
        await self._book.remove_group(group)
        if call.is_set("cleanOffset") and group in self._broker.groups:
            await self._broker.groups.delete(group)
        call.answer()

    # Numbers

    async def topic_stats(self, call: Call) -> None:
        """Where each queue begins and ends."""
        topic = self._find(call.text("topic"))
        table: dict[MessageQueue, Any] = {}
        for queue, log in enumerate(topic.logs):
            start, end, newest = [await self._broker.find(log, edge) for edge in (Edge.START, Edge.STABLE, Edge.NEWEST)]
            table[self._queue_of(topic, queue)] = {
                "minOffset": start.offset,
                "maxOffset": end.offset,
                "lastUpdateTimestamp": max(newest.timestamp_ms, 0),
            }
        call.answer(body=encode_offset_table(table))

    def _queue_of(self, topic: Topic, queue: int) -> MessageQueue:
        return MessageQueue(name_of(topic), self._settings.broker_name, queue)

    async def consume_stats(self, call: Call) -> None:
        """How far a group has come."""
        group, only = call.text("consumerGroup"), call.fields.get("topic")
        table: dict[MessageQueue, Any] = {}
        for place, committed in self._broker.groups.offsets(group).items():
            topic = self._topics.by_id.get(place.topic)
            if topic is None or place.partition >= len(topic.logs) or (only and name_of(topic) != only):
                continue
            end = await self._broker.find(topic.logs[place.partition], Edge.STABLE)
            table[self._queue_of(topic, place.partition)] = {
                "brokerOffset": end.offset,
                "consumerOffset": committed.offset,
                "pullOffset": committed.offset,
                "lastTimestamp": committed.committed_ms,
            }
        call.answer(body=encode_offset_table(table, consumeTps=0.0))

    # Clients

    def consumer_connections(self, call: Call) -> None:
        """The members of a group, and what they subscribe to."""
        group = call.text("consumerGroup")
        members = self._membership.consumers(group)
        if not members:
            raise RequestRefused(ResponseCode.CONSUMER_NOT_ONLINE, f"no consumer of group {group} is connected")
        consumer = next(reversed(members.values())).consumer
        table = {
            one.topic: {
                "topic": one.topic,
                "subString": one.sub_string,
                "expressionType": one.expression_type or "TAG",
                "subVersion": one.sub_version,
                "classFilterMode": False,
                "tagsSet": [],
                "codeSet": [],
            }
            for one in consumer.subscriptions
        }
        document = {
            "connectionSet": [
                _connection(
                    member.client_id, connection.endpoints.peer_host, connection.endpoints.peer_port, member.version
                )
                for connection, member in members.items()
            ],
            "consumeType": consumer.consume_type,
            "messageModel": consumer.model,
            "consumeFromWhere": consumer.start,
            "subscriptionTable": table,
        }
        call.answer(body=encode_document(document))

    def producer_connections(self, call: Call) -> None:
        """Clients with producers of a group."""
        group = call.text("producerGroup")
        found = self._membership.producers(group)
        if not found:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"no producer of group {group} is connected")
        connections = [
            _connection(client_id, connection.endpoints.peer_host, connection.endpoints.peer_port, version)
            for connection, (client_id, version) in found.items()
        ]
        call.answer(body=encode_document({"connectionSet": connections}))

    def runtime(self, call: Call) -> None:
        """A few facts about the broker."""
        table = {
            "brokerVersionDesc": f"Mainstem {self._version}",
            "bootTimestamp": str(self._started_ms),
            "brokerActive": "true",
        }
        call.answer(body=encode_document({"table": table}))


def _message_type(attributes: str) -> str:
    """Of attributes such as `+message.type=FIFO`; empty: they say nothing. Raises RequestRefused."""
    for attribute in filter(None, attributes.split(",")):
        name, _, value = attribute.partition("=")
        if name.strip() != f"+{MESSAGE_TYPE}":
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"the attribute {name} is not supported")
        if value not in TYPES:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"messages of type {value} are not supported")
        return value
    return ""


def _connection(client_id: str, host: str, port: int, version: int) -> dict[str, Any]:
    return {"clientId": client_id, "clientAddr": f"{host}:{port}", "language": LANGUAGE, "version": version}
