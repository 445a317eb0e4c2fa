"""Many queues, and many messages in one: what they take of the broker's memory, and whether publishing stays as fast."""

from __future__ import annotations

import asyncio
import time

from benchmarks.amqp.flow import publish
from benchmarks.amqp.raw_client import RawClient
from benchmarks.kafka.brokers import mainstem
from benchmarks.report import Figure
from mainstem.protocols.amqp.codec.framing import METHOD, encode_frame
from mainstem.protocols.amqp.codec.methods import encode_method

QUEUE_BYTES_MAX = 4_096
DECLARED_AT_ONCE = 20
CONNECTIONS = 50
BACKLOG_RATIO_MIN = 0.8
BACKLOG_BYTES_MAX = 256 << 20
SETTLED_S = 1.0


class Declarer(RawClient):
    """A connection that declares queues, many without waiting."""

    def declare(self, first: int) -> None:
        """Ask for durable queues with these numbers."""
        frames = [
            encode_frame(METHOD, 1, encode_method("queue.declare", queue=f"queue-{number}", durable=True, nowait=True))
            for number in range(first, first + DECLARED_AT_ONCE)
        ]
        frames.append(encode_frame(METHOD, 1, encode_method("basic.qos")))  # answered behind all of them
        self.send(b"".join(frames))


async def amqp_queues(parent: str | None, count: int) -> list[Figure]:
    """Bytes of memory that a queue takes which was declared and not used."""
    with mainstem(parent, listener="amqp") as broker:
        declarers = [Declarer(broker) for _ in range(CONNECTIONS)]
        # One after the other on each connection, so that as many are under way as there are connections.
        numbers = iter(range(0, count, DECLARED_AT_ONCE))
        for declarer, number in zip(declarers, numbers, strict=False):
            declarer.declare(number)
            declarer.wait()
        before, began = broker.resident_kb(), time.perf_counter()
        rest = list(numbers)
        for start in range(0, len(rest), CONNECTIONS):
            turn = list(zip(declarers, rest[start : start + CONNECTIONS], strict=False))
            for declarer, number in turn:
                declarer.declare(number)
            for declarer, _ in turn:
                declarer.wait()
        seconds = time.perf_counter() - began
        await asyncio.sleep(SETTLED_S)
        more = len(rest) * DECLARED_AT_ONCE
        each = (broker.resident_kb() - before) * 1024 / more
    return [
        Figure(f"AMQP, memory of one of {count:,} queues, bytes", each, at_most=QUEUE_BYTES_MAX),
        Figure("AMQP, queues declared in a second", more / seconds),
    ]


async def amqp_backlog(parent: str | None, count: int) -> list[Figure]:
    """Publishing to a queue that nobody reads: as fast at the end as at the beginning, in bounded memory."""
    step = count // 10
    with mainstem(parent, listener="amqp") as broker:
        publish(broker, "warm", 100, step // 4)
        empty = max(publish(broker, f"empty-{turn}", 100, step) for turn in range(2))
        before = broker.resident_kb()
        rates = [publish(broker, "full", 100, step) for _ in range(10)]
        grown = (broker.resident_kb() - before) * 1024
    return [
        Figure(
            f"AMQP, publishing behind {count:,} messages, messages/s",
            max(rates[-2:]),
            empty,
            at_least=BACKLOG_RATIO_MIN,
        ),
        Figure(f"AMQP, memory taken by {count:,} messages, bytes", grown, at_most=BACKLOG_BYTES_MAX),
    ]
