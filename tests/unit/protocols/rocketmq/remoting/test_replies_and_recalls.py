"""Replies to the client that asked, and messages that are recalled before they are due."""

import base64

from mainstem.broker.broker import Broker
from tests.support.clients.remoting_client import messages, properties_text
from tests.support.worlds.brokers import with_broker
from tests.unit.protocols.rocketmq.remoting.serving import SUCCESS, SYSTEM_ERROR, Served

REPLY, REPLY_SHORT, PUSH, RECALL = 324, 325, 326, 370
INVALID = 29


def reply_fields(client_id: str) -> dict[str, object]:
    properties = properties_text({"REPLY_TO_CLIENT": client_id, "CORRELATION_ID": "7"})
    return {"a": "p", "b": "DefaultCluster_REPLY_TOPIC", "e": 2, "f": 0, "g": 5, "h": 0, "i": properties, "j": 0}


@with_broker
async def test_a_reply_goes_to_the_client_that_asked(broker: Broker) -> None:
    served = Served(broker)
    asking, answering = served.client(), served.client()
    await asking.publish("t", b"question", {"REPLY_TO_CLIENT": "c1", "CORRELATION_ID": "7"}, queue=0)
    (question,) = messages((await answering.pull("t", 0)).body)
    assert question.properties["CLUSTER"] == "DefaultCluster"
    refused = await answering.ask(REPLY_SHORT, reply_fields("c1"), b"answer")
    assert (refused.code, "c1" in (refused.remark or "")) == (SYSTEM_ERROR, True)
    await asking.beat("c1", "g", "t")
    assert (await answering.ask(REPLY_SHORT, reply_fields("c1"), b"answer")).code == SUCCESS
    pushed = await asking.pushed(PUSH)
    assert (pushed.body, pushed.fields["topic"], pushed.fields["queueId"]) == (
        b"answer",
        "DefaultCluster_REPLY_TOPIC",
        "2",
    )
    assert "CORRELATION_ID\x017" in pushed.fields["properties"]
    asking.session.closed()
    assert (await answering.ask(REPLY_SHORT, reply_fields("c1"), b"late")).code == SYSTEM_ERROR


@with_broker
async def test_a_reply_is_bounded(broker: Broker) -> None:
    client = Served(broker, message_bytes_max=10).client()
    await client.beat("c1", "g", "t")
    assert (await client.ask(REPLY, {"properties": ""}, b"x" * 11)).code != SUCCESS


@with_broker
async def test_a_delayed_message_is_recalled_once(broker: Broker) -> None:
    client = Served(broker).client()
    sent = await client.publish("t", b"later", {"TIMER_DELAY_SEC": "60"})
    handle = sent.fields["recallHandle"]
    version, topic, name, due_ms, _ = base64.urlsafe_b64decode(handle).decode().split(" ")
    assert (version, topic, name, int(due_ms) > broker.clock.now_ms()) == ("v1", "t", "mainstem", True)
    assert (await client.ask(RECALL, {"topic": "other", "recallHandle": handle})).code == INVALID
    assert (await client.ask(RECALL, {"topic": "t", "recallHandle": handle})).code == SUCCESS
    assert (await client.ask(RECALL, {"topic": "t", "recallHandle": handle})).code != SUCCESS


@with_broker
async def test_what_is_no_handle_is_refused(broker: Broker) -> None:
    client = Served(broker).client()
    unreadable = base64.urlsafe_b64encode(b"v1 t b 1 zz").decode()
    for handle in ("", "x", "djEgdCBi", unreadable, "x" * 9_999):
        assert (await client.ask(RECALL, {"topic": "t", "recallHandle": handle})).code == INVALID, handle
