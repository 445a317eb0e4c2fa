"""What is measured: loss, memory, the loop's delay, another client's times, and the end."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.overload import amqp_load, kafka_load, unread
from benchmarks.overload.broker import Outcome, Overloaded, overloaded
from benchmarks.report import Figure

RESIDENT_MB_MAX = 1_024.0
SECOND_P99_MS_MAX = 250.0
LOOP_DELAY_MS_MAX = 50.0
END_SECONDS_MAX = 10.0
PUBLISHERS = 20
PRODUCERS = 10


async def overload(parent: str | None, share: float) -> list[Figure]:
    """All of them, each on a broker of its own; `share` of the full load."""
    figures: list[Figure] = []
    for queues, messages in ((10, 1_000_000), (200, 300_000), (1_500, 54_000)):
        figures += _measure(
            parent,
            f"100 B to {queues} queues",
            lambda broker, queues=queues, messages=messages: amqp_load.flood(  # type: ignore[misc]
                broker, queues=queues, publishers=PUBLISHERS, messages=int(messages * share), size=100
            ),
        )
    for size, messages in ((10_000, 200_000), (1_000_000, 2_000)):
        figures += _measure(
            parent,
            f"AMQP, {size // 1_000} KB",
            lambda broker, size=size, messages=messages: amqp_load.flood(  # type: ignore[misc]
                broker, queues=1, publishers=PUBLISHERS, messages=int(messages * share), size=size
            ),
        )
        for acks in (0, -1):
            figures += _measure(
                parent,
                f"Kafka, {size // 1_000} KB, acks={acks}",
                lambda broker, size=size, messages=messages, acks=acks: kafka_load.flood(  # type: ignore[misc]
                    broker, producers=PRODUCERS, messages=int(messages * share), size=size, acks=acks
                ),
            )
    figures += _measure(parent, "consumers that do not read", lambda broker: unread.flood(broker, int(50_000 * share)))
    return figures


def _measure(parent: str | None, name: str, load: Callable[[Overloaded], Outcome]) -> list[Figure]:
    with overloaded(parent) as broker:
        outcome = load(broker)
        delay_ms = broker.loop_delay_ms()
        lines = broker.log_lines()
        end_seconds = broker.end()
    return [
        Figure(f"{name}: messages lost", float(outcome.sent - outcome.stored), at_most=0.0),
        Figure(f"{name}: messages a second", outcome.sent / outcome.seconds),
        Figure(f"{name}: memory, MB", broker.resident_mb_max, at_most=RESIDENT_MB_MAX),
        Figure(f"{name}: second client, p99 ms", outcome.second_p99_ms, at_most=SECOND_P99_MS_MAX),
        Figure(f"{name}: longest delay of the loop, ms", delay_ms, at_most=LOOP_DELAY_MS_MAX),
        Figure(f"{name}: lines of the log", float(lines)),
        Figure(f"{name}: SIGTERM to the end, s", end_seconds, at_most=END_SECONDS_MAX),
    ]
