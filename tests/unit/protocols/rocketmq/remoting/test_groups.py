"""Groups of the remoting protocol: members, notifications, offsets, locks, retries and dead letters; names and administration."""

import json
import re
from typing import Any

from mainstem.broker.administration import User
from mainstem.broker.broker import Broker
from mainstem.broker.groups.groups import JoinWish
from tests.support.clients.remoting_client import ONE_WAY, Heard, messages
from tests.support.worlds.brokers import with_broker
from tests.unit.protocols.rocketmq.remoting.serving import (
    MOVED,
    NO_PERMISSION,
    NO_TOPIC,
    SUCCESS,
    SYSTEM_ERROR,
    Served,
)

IDS_CHANGED = 40


def offset_table(answer: Heard) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Its keys are objects, as Java's library writes them."""
    pairs = re.findall(rb"({[^{}]*}):({[^{}]*})", answer.body)
    return [(json.loads(key), json.loads(row)) for key, row in pairs]


@with_broker
async def test_members_are_notified_of_each_other(broker: Broker) -> None:
    served = Served(broker)
    one, two = served.client(), served.client()
    await one.publish("t", b"x")
    assert (await one.ask(38, {"consumerGroup": "g"})).code == SYSTEM_ERROR
    await one.beat("c1", "g", "t")
    await two.beat("c2", "g", "t")
    assert (await one.pushed(IDS_CHANGED)).fields == {"consumerGroup": "g"}
    assert (await one.ask(38, {"consumerGroup": "g"})).document == {"consumerIdList": ["c1", "c2"]}
    one.kept.clear()
    two.session.closed()
    await one.pushed(IDS_CHANGED)
    assert (await one.ask(38, {"consumerGroup": "g"})).document == {"consumerIdList": ["c1"]}
    await one.ask(35, {"clientID": "c1", "consumerGroup": "g"})
    assert (await one.ask(38, {"consumerGroup": "g"})).code == SYSTEM_ERROR


@with_broker
async def test_offsets_are_committed_and_found_again(broker: Broker) -> None:
    client = Served(broker).client()
    for body in (b"1", b"2", b"3"):
        await client.publish("t", body)
    place = {"consumerGroup": "g", "topic": "t", "queueId": 0}
    assert (await client.ask(14, place)).fields == {"offset": "0"}, "a young queue is read from its beginning"
    assert (await client.ask(15, {**place, "commitOffset": 2})).code == SUCCESS
    assert (await client.ask(14, place)).fields == {"offset": "2"}
    client.send(15, {**place, "commitOffset": 3}, flag=ONE_WAY)
    assert (await client.ask(14, place)).fields == {"offset": "3"}
    await client.pull("t", 3, sysFlag=1, commitOffset=1)
    assert (await client.ask(14, place)).fields == {"offset": "1"}
    assert (await client.ask(15, {**place, "commitOffset": -5})).code == SYSTEM_ERROR
    topic = broker.topics.get("t")
    assert [found.offset for found in broker.groups.offsets("g").values()] == [1]
    assert next(iter(broker.groups.offsets("g"))).topic == topic.id


@with_broker
async def test_positions(broker: Broker) -> None:
    client = Served(broker).client()
    for at in (10, 20, 30):
        await client.publish("t", b"x", g=at)
    place = {"topic": "t", "queueId": 0}
    assert (await client.ask(30, place)).fields == {"offset": "3"}
    assert (await client.ask(31, place)).fields == {"offset": "0"}
    assert (await client.ask(32, place)).fields == {"timestamp": "10"}
    assert (await client.ask(29, {**place, "timestamp": 15})).fields == {"offset": "1"}
    assert (await client.ask(29, {**place, "timestamp": 99})).fields == {"offset": "3"}
    await broker.trim(broker.topics.get("t").logs[0], 2)
    moved = await client.pull("t", 0)
    assert (moved.code, moved.fields["nextBeginOffset"]) == (MOVED, "2")


@with_broker
async def test_a_queue_is_locked_for_one_client(broker: Broker) -> None:
    served = Served(broker)
    one, two = served.client(), served.client()
    await one.beat("c1", "g", "t")
    queue = {"topic": "t", "brokerName": "mainstem", "queueId": 0}

    def wish(client_id: str) -> bytes:
        return json.dumps({"consumerGroup": "g", "clientId": client_id, "mqSet": [queue]}).encode()

    assert (await one.ask(41, {}, wish("c1"))).document == {"lockOKMQSet": [queue]}
    assert (await two.ask(41, {}, wish("c2"))).document == {"lockOKMQSet": []}
    assert (await two.ask(42, {}, wish("c2"))).code == SUCCESS
    assert (await two.ask(41, {}, wish("c2"))).document == {"lockOKMQSet": []}
    one.session.closed()
    assert (await two.ask(41, {}, wish("c2"))).document == {"lockOKMQSet": [queue]}


@with_broker
async def test_what_failed_comes_again_and_ends_among_dead_letters(broker: Broker) -> None:
    client = Served(broker).client()
    await client.publish("t", b"x", {"UNIQ_KEY": "U", "KEYS": "k"})
    await client.beat("c1", "g", "t")
    (message,) = messages((await client.pull("t", 0)).body)
    back = {"group": "g", "offset": message.place, "originMsgId": "U", "originTopic": "t", "maxReconsumeTimes": 1}
    assert (await client.ask(36, {**back, "delayLevel": 1})).code == SUCCESS
    answer = await client.answer(client.begin_pull("%RETRY%g", 0, wait_ms=30_000))
    (again,) = messages(answer.body)
    assert (again.topic, again.body, again.reconsume_times) == ("%RETRY%g", b"x", 1)
    assert again.properties == {"UNIQ_KEY": "U", "KEYS": "k", "RETRY_TOPIC": "t", "ORIGIN_MESSAGE_ID": "U"}
    assert (await client.ask(36, {**back, "offset": again.place, "delayLevel": 0})).code == SUCCESS
    (dead,) = messages((await client.pull("%DLQ%g", 0)).body)
    assert (dead.body, dead.reconsume_times, dead.properties["RETRY_TOPIC"]) == (b"x", 1, "t")
    assert (await client.ask(36, {**back, "offset": 12345, "delayLevel": 0})).code == SYSTEM_ERROR


@with_broker
async def test_names(broker: Broker) -> None:
    served = Served(broker)
    client, names = served.client(), served.name_client()
    assert (await names.ask(105, {"topic": "t"})).code == NO_TOPIC
    assert (await names.ask(105, {"topic": "TBW102"})).document["queueDatas"][0]["writeQueueNums"] == 8
    await client.publish("t", b"x", d=4)
    route = (await names.ask(105, {"topic": "t"})).document
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:10911"}
    assert route["queueDatas"][0]["readQueueNums"] == 4
    assert (await names.ask(105, {"topic": "%RETRY%g"})).code == SUCCESS
    assert (await names.ask(206)).document == {"topicList": ["%RETRY%g", "t"]}
    assert (await names.ask(106)).document["clusterAddrTable"] == {"DefaultCluster": ["mainstem"]}
    assert (await names.ask(310, {"b": "t"}, b"x")).code == 3, "a name server takes no messages"
    assert list(broker.topics.named()) == ["t"], "retry topics are not shown to others"


@with_broker
async def test_topics_are_administered(broker: Broker) -> None:
    client = Served(broker).client()
    wish = {"topic": "t", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "order": "false"}
    assert (await client.ask(17, wish)).code == SUCCESS
    assert (await client.ask(17, {**wish, "readQueueNums": 3})).code == SUCCESS
    assert len(broker.topics.get("t").logs) == 3
    refused = await client.ask(17, wish)
    assert (refused.code, refused.remark) == (29, "topic t has 3 queues, and queues are never removed")
    await client.publish("t", b"x", queue=1)
    stats = offset_table(await client.ask(202, {"topic": "t"}))
    assert [(place["queueId"], row["maxOffset"]) for place, row in stats] == [(0, 0), (1, 1), (2, 0)]
    await client.ask(15, {"consumerGroup": "g", "topic": "t", "queueId": 1, "commitOffset": 1})
    ((_, lag),) = offset_table(await client.ask(208, {"consumerGroup": "g"}))
    assert (lag["brokerOffset"], lag["consumerOffset"]) == (1, 1)
    assert (await client.ask(351, {"topic": "t"})).document["readQueueNums"] == 3
    await client.beat("c1", "g", "t", "a")
    connected = (await client.ask(203, {"consumerGroup": "g"})).document
    assert [one["clientId"] for one in connected["connectionSet"]] == ["c1"]
    assert connected["subscriptionTable"]["t"]["subString"] == "a"
    assert (await client.ask(204, {"producerGroup": "p"})).code == SUCCESS
    assert (await client.ask(215, {"topic": "t"})).code == SUCCESS
    assert "t" not in broker.topics.named()


@with_broker
async def test_groups_are_administered(broker: Broker) -> None:
    client = Served(broker).client()
    wish = {"groupName": "g", "consumeEnable": True, "consumeMessageOrderly": True, "retryMaxTimes": 0}
    assert (await client.ask(200, {}, json.dumps(wish).encode())).code == SUCCESS
    shown = (await client.ask(201)).document["subscriptionGroupTable"]["g"]
    assert (shown["consumeMessageOrderly"], shown["retryMaxTimes"]) == (True, 0)
    await client.publish("t", b"x")
    (message,) = messages((await client.pull("t", 0)).body)
    await client.ask(36, {"group": "g", "offset": message.place, "delayLevel": 0})
    assert len(messages((await client.pull("%DLQ%g", 0)).body)) == 1, "no retries"
    assert (await client.ask(200, {}, json.dumps({**wish, "consumeEnable": False}).encode())).code == 29
    assert (await client.ask(207, {"groupName": "g", "cleanOffset": "true"})).code == SUCCESS
    assert (await client.ask(352, {"group": "g"})).document["retryMaxTimes"] == 16
    fifo = {"topic": "f", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "attributes": "+message.type=FIFO"}
    assert (await client.ask(17, fifo)).code == SUCCESS
    assert (await client.ask(17, {**fifo, "attributes": "+message.type=LITE"})).code == 29


@with_broker
async def test_a_group_with_members_of_another_protocol_is_theirs(broker: Broker) -> None:
    client = Served(broker).client()
    await client.publish("t", b"x")
    wish = JoinWish("", None, "client", "host", 10_000, 10_000, "consumer", (("range", b""),), False, False)
    await broker.groups.join("g", wish)
    refused = await client.ask(15, {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": 1})
    assert refused.code == NO_PERMISSION


@with_broker
async def test_who_must_log_in_is_refused(broker: Broker) -> None:
    served = Served(broker)
    client, names = served.client(), served.name_client()
    assert (await client.publish("t", b"x")).code == SUCCESS
    await broker.access.put(User("anonymous", is_disabled=True))
    assert (await client.publish("t", b"x")).code == NO_PERMISSION, "the connection that was open too"
    assert (await names.ask(206)).code == NO_PERMISSION
