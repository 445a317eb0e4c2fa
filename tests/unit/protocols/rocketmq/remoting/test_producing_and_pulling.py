"""Messages in and out by the remoting protocol: every form of sending, pulls that wait, filters, positions."""

import asyncio
import zlib

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.records.publication import NewRecord
from tests.support.clients.remoting_client import BINARY, ONE_WAY, Heard, batch, messages, properties_text
from tests.support.worlds.brokers import with_broker
from tests.unit.protocols.rocketmq.remoting.serving import (
    ILLEGAL,
    MOVED,
    NO_TOPIC,
    NOT_FOUND,
    NOT_SUBSCRIBED,
    NOT_SUPPORTED,
    PARSE_FAILED,
    QUERY_NOT_FOUND,
    RETRY_AT_ONCE,
    SUCCESS,
    SYSTEM_ERROR,
    Served,
)

LONG_FIELDS = {
    "producerGroup": "p", "topic": "t", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 1, "sysFlag": 0,
    "bornTimestamp": 1_700_000_000_000, "flag": 7, "properties": "TAGS\x01a\x02", "reconsumeTimes": 0, "unitMode": "false",
}  # fmt: skip


@with_broker
async def test_a_message_comes_back_as_it_was_sent(broker: Broker) -> None:
    client = Served(broker).client()
    properties = {"TAGS": "a", "KEYS": "k1 k2", "UNIQ_KEY": "0A", "own": "ü", "WAIT": "true"}
    sent = await client.publish("t", b"body", properties, queue=2)
    assert (sent.code, sent.fields["queueId"], sent.fields["queueOffset"]) == (SUCCESS, "2", "0")
    assert sent.fields["transactionId"] == "0A"
    answer = await client.pull("t", 0, 2)
    assert (answer.code, answer.fields["nextBeginOffset"], answer.fields["maxOffset"]) == (SUCCESS, "1", "1")
    (message,) = messages(answer.body)
    assert (message.topic, message.queue, message.offset, message.body) == ("t", 2, 0, b"body")
    assert message.properties == {"TAGS": "a", "KEYS": "k1 k2", "UNIQ_KEY": "0A", "own": "ü"}
    assert message.born_ms == 1_700_000_000_000
    assert int(sent.fields["msgId"][16:], 16) == message.place
    viewed = await client.ask(33, {"offset": message.place})
    assert messages(viewed.body) == [message]


@with_broker
async def test_every_form_of_sending(broker: Broker) -> None:
    client = Served(broker).client()
    assert (await client.ask(10, LONG_FIELDS, b"one")).code == SUCCESS
    fields = {"a": "p", "b": "t", "c": "TBW102", "d": 4, "e": 1, "f": 0, "g": 1, "h": 0, "i": "", "j": 0, "m": "true"}
    many = await client.ask(320, fields, batch([(b"two", {"KEYS": "x"}), (b"three", {})]))
    assert many.fields["queueOffset"] == "1"
    assert len(many.fields["msgId"].split(",")) == 2
    client.send(310, {**fields, "m": "false"}, b"four", flag=ONE_WAY)
    zipped = await client.ask(310, {**fields, "m": "false", "f": 1}, zlib.compress(b"five" * 2000), kind=BINARY)
    assert (zipped.code, zipped.kind) == (SUCCESS, BINARY)
    found = messages((await client.pull("t", 0, 1)).body)
    assert [message.body for message in found] == [b"one", b"two", b"three", b"four", b"five" * 2000]
    assert found[0].flag == 7
    assert found[1].properties == {"KEYS": "x"}


@with_broker
async def test_what_is_wrong_is_refused_by_its_name(broker: Broker) -> None:
    client = Served(broker, message_bytes_max=1_000).client()
    await client.publish("t", b"x")
    assert (await client.publish("t", b"x" * 1_001)).code == ILLEGAL
    assert (await client.publish("t", zlib.compress(b"x" * 1_001), f=1)).code == ILLEGAL
    assert (await client.publish("t", b"not zipped", f=1)).code == ILLEGAL
    assert (await client.publish("bad topic", b"x")).code == ILLEGAL
    assert (await client.publish("t", b"x", queue=99)).code == SYSTEM_ERROR
    assert (await client.publish("t", b"x", e="many")).code == SYSTEM_ERROR
    assert (await client.ask(310, {"b": "t"}, b"x")).code == SUCCESS, "what is missing has a default"
    assert (await client.ask(310, {}, b"x")).code == SYSTEM_ERROR
    assert (await client.ask(320, {"b": "t"}, b"no batch")).code == ILLEGAL
    assert (await client.pull("nowhere", 0)).code == NO_TOPIC
    assert (await client.pull("t", 0, 99)).code == SYSTEM_ERROR
    assert (await client.ask(34, {}, b"{")).code == SYSTEM_ERROR
    assert (await client.ask(33, {"offset": 1 << 60})).code == SYSTEM_ERROR
    unknown = await client.ask(9_999)
    assert (unknown.code, unknown.remark) == (NOT_SUPPORTED, "request code 9999 is not supported")
    client.send(9_999, flag=ONE_WAY)
    assert (await client.publish("t", b"y")).code == SUCCESS


@with_broker
async def test_a_pull_waits_for_a_message_or_for_its_time(broker: Broker) -> None:
    served = Served(broker)
    client, producer = served.client(), served.client()
    await producer.publish("t", b"first")
    waiting = client.begin_pull("t", 1, wait_ms=60_000)
    late = client.begin_pull("t", 1, wait_ms=20)
    ended = await client.answer(late)
    assert (ended.code, ended.fields["nextBeginOffset"]) == (NOT_FOUND, "1")
    await producer.publish("t", b"second")
    answer = await client.answer(waiting)
    assert [message.body for message in messages(answer.body)] == [b"second"]
    assert (await client.pull("t", 9)).code == MOVED
    assert (await client.pull("t", 2)).code == NOT_FOUND


@with_broker
async def test_a_connection_that_ends_lets_its_pulls_go(broker: Broker) -> None:
    served = Served(broker)
    client, other = served.client(), served.client()
    await client.publish("t", b"x")
    number = other.begin_pull("t", 1, wait_ms=60_000)
    client.begin_pull("t", 1, wait_ms=60_000)
    client.session.closed()
    other.session.drain()
    assert (await other.answer(number)).code == NOT_FOUND
    assert other.session.finished
    assert not client.session.take_output()


@with_broker
async def test_tags_are_filtered_exactly(broker: Broker) -> None:
    client = Served(broker).client()
    for tag in ("a", "b", "c"):
        await client.publish("t", tag.encode(), {"TAGS": tag})
    await client.beat("c1", "g", "t", "a || c")
    answer = await client.pull("t", 0)
    assert [message.body for message in messages(answer.body)] == [b"a", b"c"]
    nothing = await client.pull("t", 1, sysFlag=4, subscription="none", expressionType="TAG")
    assert (nothing.code, nothing.fields["nextBeginOffset"]) == (RETRY_AT_ONCE, "3")


@with_broker
async def test_sql92_filters_are_applied_by_the_broker(broker: Broker) -> None:
    client = Served(broker).client()
    for size in ("1", "5", "9"):
        await client.publish("t", size.encode(), {"size": size})
    assert (await client.beat("c1", "g", "t", "size >", expressionType="SQL92")).code == PARSE_FAILED
    assert (await client.beat("c1", "g", "t", "size > 3 AND size < 8", expressionType="SQL92")).code == SUCCESS
    answer = await client.pull("t", 0)
    assert [message.body for message in messages(answer.body)] == [b"5"]
    assert (await client.pull("t", 0, group="other", expressionType="SQL92")).code == NOT_SUBSCRIBED


@with_broker
async def test_half_messages_are_decided_once_and_asked_about(broker: Broker) -> None:
    client = Served(broker).client()
    await client.beat("c1", "g", "t")
    await client.publish("t", b"plain")

    async def decide(sent: Heard, decision: int) -> Heard:
        place = int(sent.fields["msgId"][16:], 16)
        return await client.ask(37, {"producerGroup": "p", "commitLogOffset": place, "commitOrRollback": decision})

    kept = await client.publish("t", b"kept", {"TAGS": "a", "TRAN_MSG": "true", "UNIQ_KEY": "U"}, f=4, a="p")
    dropped = await client.publish("t", b"dropped", f=4, a="p")
    assert (await client.pull("t", 1)).code == NOT_FOUND
    assert (await decide(dropped, 12)).code == SUCCESS
    assert (await decide(kept, 8)).code == SUCCESS
    (message,) = messages((await client.pull("t", 1)).body)
    assert (message.body, message.properties) == (b"kept", {"TAGS": "a", "UNIQ_KEY": "U"})
    soon = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "0", "UNIQ_KEY": "V"}
    await client.publish("t", b"asked", soon, f=4, a="p")
    check = await client.pushed(39)
    (shown,) = messages(check.body)
    assert (shown.body, shown.properties["PGROUP"], check.fields["transactionId"]) == (b"asked", "p", "V")
    place = check.fields["commitLogOffset"]
    end = {"producerGroup": "p", "commitLogOffset": place, "commitOrRollback": 8, "fromTransactionCheck": "true"}
    assert (await client.ask(37, end)).code == SUCCESS
    assert [one.body for one in messages((await client.pull("t", 2)).body)] == [b"asked"]


@with_broker
async def test_messages_are_found_by_key_and_by_id(broker: Broker) -> None:
    client = Served(broker).client()
    await client.publish("t", b"1", {"KEYS": "a b", "UNIQ_KEY": "U1"}, g=100)
    await client.publish("t", b"2", {"KEYS": "b", "UNIQ_KEY": "U2"}, queue=1, g=200)
    asked = {"topic": "t", "maxNum": 10, "beginTimestamp": 0, "endTimestamp": 1_000}
    found = messages((await client.ask(12, {**asked, "key": "b"})).body)
    assert sorted(message.body for message in found) == [b"1", b"2"]
    by_id = await client.ask(12, {**asked, "key": "U2", "_UNIQUE_KEY_QUERY": "true"})
    assert [message.body for message in messages(by_id.body)] == [b"2"]
    assert (await client.ask(12, {**asked, "key": "c"})).code == QUERY_NOT_FOUND
    assert (await client.ask(12, {**asked, "key": "b", "endTimestamp": 50})).code == QUERY_NOT_FOUND


@with_broker
async def test_records_of_other_protocols_are_shown_as_far_as_they_can_be(broker: Broker) -> None:
    topic = await broker.topics.ensure(NewTopic("k", 1))
    headers = [("TAGS", b"old"), ("TAGS", b"t"), ("bytes", b"\xff"), ("split", b"a\x02b"), ("none", None)]
    await broker.publications.publish(topic, [NewRecord(b"key", b"v", headers), NewRecord(b"two words", None)])
    client = Served(broker).client()
    one, two = messages((await client.pull("k", 0)).body)
    assert one.properties == {"TAGS": "t", "none": "", "KEYS": "key"}
    assert (two.body, two.properties) == (b"", {})


@pytest.mark.parametrize(("properties", "due_s"), [({"DELAY": "1"}, 1.0), ({"TIMER_DELAY_MS": "150"}, 0.15)])
def test_a_message_comes_when_it_is_due(properties: dict[str, str], due_s: float) -> None:
    @with_broker
    async def check(broker: Broker) -> None:
        client = Served(broker).client()
        await client.publish("t", b"now")
        begun = asyncio.get_running_loop().time()
        assert (await client.publish("t", b"later", {**properties, "TAGS": "x"})).code == SUCCESS
        answer = await client.answer(client.begin_pull("t", 1, wait_ms=30_000))
        (message,) = messages(answer.body)
        assert (message.body, message.properties) == (b"later", {"TAGS": "x"})
        assert asyncio.get_running_loop().time() - begun >= due_s * 0.9

    check()


@with_broker
async def test_a_wrong_delay_is_refused(broker: Broker) -> None:
    client = Served(broker).client()
    assert (await client.publish("t", b"x", {"DELAY": "soon"})).code == ILLEGAL
    assert (await client.publish("t", b"x", {"TIMER_DELIVER_MS": "-1"})).code == ILLEGAL
    text = properties_text({"DELAY": "2"})
    assert (await client.publish("t", b"x", i=text, g="now")).code == SYSTEM_ERROR
