"""What a name server is asked: where topics are. There is one broker, and it has all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.model.endpoints import Endpoints
from mainstem.protocols.rocketmq.codec.remoting.documents import encode_document
from mainstem.protocols.rocketmq.codec.remoting.request_codes import RequestCode
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.handlers.remoting.calls import Call, Handler
from mainstem.protocols.rocketmq.mapping.names import (
    DEFAULT_TOPIC,
    RETRY_PREFIX,
    check_name,
    find_topic,
    new_topic,
    shown_topics,
)
from mainstem.protocols.rocketmq.session.settings import RemotingSettings

READ_AND_WRITE = 6
MASTER = "0"


class RouteHandlers:
    """Of both listeners."""

    def __init__(
        self, broker: Broker, settings: RemotingSettings, advertised: Callable[[Endpoints], str | None]
    ) -> None:
        self._topics = broker.topics
        self._settings = settings
        self._advertised = advertised

    def handlers(self) -> dict[int, Handler]:
        """By code."""
        return {
            RequestCode.GET_ROUTE_INFO_BY_TOPIC: self.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster,
            RequestCode.GET_ALL_TOPIC_LIST: self.list_topics,
            RequestCode.GET_KV_CONFIG: self.get_config,
        }

    def names_handlers(self) -> dict[int, Handler]:
        """What a name server has besides: topics that are removed there have no trace."""
        return {**self.handlers(), RequestCode.DELETE_TOPIC_IN_NAMES: self.forget}

    def forget(self, call: Call) -> None:
        """The broker's topics are the only ones."""
        call.answer()

    def _broker(self, call: Call) -> dict[str, Any]:
        address = self._advertised(call.connection.endpoints)
        if address is None:
            raise RequestRefused(ResponseCode.SERVICE_NOT_AVAILABLE, "the listener rocketmq-broker is off")
        return {
            "brokerAddrs": {MASTER: address},
            "brokerName": self._settings.broker_name,
            "cluster": self._settings.cluster_name,
            "enableActingMaster": False,
        }

    async def route(self, call: Call) -> None:
        """The queues of a topic. The retry topic of a group comes with the first question for it."""
        name = check_name(call.text("topic"))
        topic = find_topic(self._topics, name)
        if topic is None and name.startswith(RETRY_PREFIX):
            topic = await self._topics.ensure(new_topic(name, 1, self._settings.message_bytes_max))
        if topic is None and name != DEFAULT_TOPIC:
            raise RequestRefused(
                ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {name}"
            )
        queues = self._settings.queues_default if topic is None else len(topic.logs)
        queue_data = {
            "brokerName": self._settings.broker_name,
            "perm": READ_AND_WRITE,
            "readQueueNums": queues,
            "topicSysFlag": 0,
            "writeQueueNums": queues,
        }
        document = {"brokerDatas": [self._broker(call)], "filterServerTable": {}, "queueDatas": [queue_data]}
        call.answer(body=encode_document(document))

    def cluster(self, call: Call) -> None:
        """The one broker."""
        settings = self._settings
        document = {
            "brokerAddrTable": {settings.broker_name: self._broker(call)},
            "clusterAddrTable": {settings.cluster_name: [settings.broker_name]},
        }
        call.answer(body=encode_document(document))

    def list_topics(self, call: Call) -> None:
        """All of them."""
        call.answer(body=encode_document({"topicList": sorted(shown_topics(self._topics))}))

    def get_config(self, call: Call) -> None:
        """Nothing is configured here."""
        raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, f"No config item: {call.fields.get('key', '')[:100]}")


def topic_config(name: str, topic: Topic) -> dict[str, Any]:
    """A topic as administrators see it."""
    return {
        "topicName": name,
        "readQueueNums": len(topic.logs),
        "writeQueueNums": len(topic.logs),
        "perm": READ_AND_WRITE,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
        "attributes": {},
    }
