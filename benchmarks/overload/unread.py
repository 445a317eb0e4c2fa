"""Consumers that ask for everything and read nothing."""

from __future__ import annotations

import time

from benchmarks.amqp.raw_client import RawClient
from benchmarks.overload.amqp_load import Beside, count, message, publish, run_all
from benchmarks.overload.broker import Outcome, Overloaded

CONSUMERS = 50
PUBLISHERS = 4
QUEUE = "unread"
SIZE = 10 << 10
RETURN_SECONDS_MAX = 10.0


def flood(broker: Overloaded, messages: int) -> Outcome:
    """Publish to a queue whose consumers, without a limit, take what the sockets hold and no more."""
    address = broker.at("amqp")
    client = RawClient(address)
    client.call("queue.declare", queue=QUEUE, durable=True)
    consumers = [RawClient(address) for _ in range(CONSUMERS)]
    for consumer in consumers:
        consumer.call("basic.consume", queue=QUEUE, consumer_tag="c")
    each = messages // PUBLISHERS
    frames = message("", QUEUE, SIZE)
    beside = Beside(address)
    seconds = run_all([lambda: publish(address, frames, each)] * PUBLISHERS)
    p99_ms = beside.end()
    for consumer in consumers:
        consumer.cut()
    deadline = time.monotonic() + RETURN_SECONDS_MAX
    while (stored := count(client, QUEUE)) < each * PUBLISHERS and time.monotonic() < deadline:
        time.sleep(0.1)  # what they were given comes back
    client.cut()
    return Outcome(each * PUBLISHERS, stored, seconds, p99_ms)
