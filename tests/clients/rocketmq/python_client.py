"""What tests do with RocketMQ's Python client."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from rocketmq import ClientConfiguration, Credentials, FilterExpression, Message, Producer, SimpleConsumer

from tests.support.serving.rocketmq import RocketmqBroker

PATIENCE_S = 30
INVISIBLE_S = 15


def configuration(broker: RocketmqBroker) -> ClientConfiguration:
    return ClientConfiguration(broker.grpc, Credentials())


@contextlib.contextmanager
def started(client: Any) -> Iterator[Any]:
    client.startup()
    try:
        yield client
    finally:
        client.shutdown()


def producing(broker: RocketmqBroker, *topics: str) -> contextlib.AbstractContextManager[Any]:
    return started(Producer(configuration(broker), topics))


def consuming(
    broker: RocketmqBroker, group: str, topic: str, tags: str = "*"
) -> contextlib.AbstractContextManager[Any]:
    subscription = {topic: FilterExpression(tags)}
    return started(SimpleConsumer(configuration(broker), group, subscription, await_duration=1))


def message(topic: str, body: bytes, tag: str = "a", keys: str = "k", **properties: str) -> Message:
    made = Message()
    made.topic, made.body, made.tag, made.keys = topic, body, tag, keys
    for key, value in properties.items():
        made.add_property(key, value)
    return made


def receive(consumer: Any, count: int, seconds: float = PATIENCE_S) -> list[Any]:
    """`count` messages; fails when they do not come."""
    found: list[Any] = []
    until = time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < until, f"{len(found)} of {count} came"
        found += consumer.receive(16, INVISIBLE_S)
    return found
