"""RocketMQ's Python client, which speaks gRPC, against the real program."""

import threading
import time
from typing import Any

import pytest
from rocketmq import ConsumeResult, FilterExpression, MessageListener, PushConsumer

from tests.clients.rocketmq.python_client import (
    INVISIBLE_S,
    PATIENCE_S,
    configuration,
    consuming,
    message,
    producing,
    receive,
    started,
)
from tests.support.serving.rocketmq import RocketmqBroker

pytestmark = [pytest.mark.conformance, pytest.mark.system, pytest.mark.slow]


def test_a_message_comes_back_as_it_was_sent(broker: RocketmqBroker, name: str) -> None:
    with producing(broker, name) as producer, consuming(broker, name, name) as consumer:
        receipt = producer.send(message(name, b"body", own="value"))
        (found,) = receive(consumer, 1)
        assert (found.body, found.tag, found.keys, found.properties) == (b"body", "a", {"k"}, {"own": "value"})
        assert (found.message_id, found.topic, found.delivery_attempt) == (receipt.message_id, name, 1)
        assert not found.corrupted
        consumer.ack(found)
        assert consumer.receive(16, INVISIBLE_S) == []


def test_tags_are_filtered_before_messages_are_given(broker: RocketmqBroker, name: str) -> None:
    with producing(broker, name) as producer, consuming(broker, name, name, "a || c") as consumer:
        for tag in ("a", "b", "c", "b"):
            producer.send(message(name, tag.encode(), tag))
        found = receive(consumer, 2)
        assert sorted(one.body for one in found) == [b"a", b"c"]
        for one in found:
            consumer.ack(one)
        assert consumer.receive(16, INVISIBLE_S) == []


def test_a_message_comes_again_when_its_time_is_over(broker: RocketmqBroker, name: str) -> None:
    with producing(broker, name) as producer, consuming(broker, name, name) as consumer:
        producer.send(message(name, b"again"))
        (first,) = receive(consumer, 1)
        consumer.change_invisible_duration(first, 1)
        (second,) = receive(consumer, 1)
        assert (second.body, second.delivery_attempt) == (b"again", 2)
        with pytest.raises(Exception, match="handle"):
            consumer.ack(first)
        consumer.ack(second)


def test_a_delayed_message_comes_when_it_is_due(broker: RocketmqBroker, name: str) -> None:
    with producing(broker, name) as producer, consuming(broker, name, name) as consumer:
        begun = time.time()
        later = message(name, b"later")
        later.delivery_timestamp = int(begun) + 3
        producer.send(later)
        recalled = message(name, b"never")
        recalled.delivery_timestamp = int(begun) + 3
        handle = producer.send(recalled).recall_handle
        producer.recall_message(name, handle)
        (found,) = receive(consumer, 1)
        assert found.body == b"later"
        assert time.time() >= int(begun) + 2.9
        consumer.ack(found)
        assert consumer.receive(16, INVISIBLE_S) == []


def test_a_push_consumer_tries_again(broker: RocketmqBroker, name: str) -> None:
    done = threading.Event()
    attempts: list[int] = []

    class Listener(MessageListener):  # type: ignore[misc]
        def consume(self, found: Any) -> Any:
            attempts.append(found.delivery_attempt)
            if len(attempts) == 3:
                done.set()
            return ConsumeResult.SUCCESS

    consumer = PushConsumer(configuration(broker), name, Listener(), {name: FilterExpression()})
    with producing(broker, name) as producer:
        producer.send(message(name, b"1"))
        with started(consumer):
            producer.send(message(name, b"2"))
            producer.send(message(name, b"3"))
            assert done.wait(PATIENCE_S), attempts
    assert attempts == [1, 1, 1]


def test_a_large_message(broker: RocketmqBroker, name: str) -> None:
    body = bytes(range(256)) * 4_000
    with producing(broker, name) as producer, consuming(broker, name, name) as consumer:
        producer.send(message(name, body))
        (found,) = receive(consumer, 1)
        assert found.body == body
        consumer.ack(found)


def test_messages_survive_a_kill(broker: RocketmqBroker, name: str) -> None:
    with producing(broker, name) as producer:
        producer.send(message(name, b"kept"))
    broker.restart()
    with consuming(broker, name, name) as consumer:
        (found,) = receive(consumer, 1)
        assert found.body == b"kept"
        consumer.ack(found)
    broker.restart()
    with consuming(broker, name, name) as consumer:
        assert consumer.receive(16, INVISIBLE_S) == []
