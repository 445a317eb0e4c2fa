"""How many messages came and went, and how many a second: `message_stats` with its `_details`.

Rates are of the time between two questions, at least five seconds apart, as RabbitMQ samples; who asks first is told 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mainstem.broker.queues import Queue
from mainstem.protocols.management.mapping.listing import Row

SAMPLE_MS = 5_000
SAMPLES_MAX = 20_000
"""Things whose rates are known at a time."""


class _Sample(NamedTuple):
    time_ms: int
    counts: Mapping[str, int]
    rates: Mapping[str, float]


class Rates:
    """Remembers what was counted last."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._samples: dict[object, _Sample] = {}

    def describe(self, what: object, lengths: Mapping[str, int], counts: Mapping[str, int]) -> tuple[Row, Row]:
        """Lengths, which rise and fall, and counts, which rise; each with its rate."""
        rates = self._rates(what, {**lengths, **counts})
        return _row(lengths, rates), _row(counts, rates)

    def _rates(self, what: object, counts: Mapping[str, int]) -> Mapping[str, float]:
        now_ms = self._now_ms()
        known = self._samples.get(what)
        if known is not None and now_ms - known.time_ms < SAMPLE_MS:
            return known.rates
        rates: dict[str, float] = {}
        if known is not None:
            seconds = (now_ms - known.time_ms) / 1000
            rates = {name: (count - known.counts.get(name, 0)) / seconds for name, count in counts.items()}
        elif len(self._samples) >= SAMPLES_MAX:
            self._samples.clear()
        self._samples[what] = _Sample(now_ms, counts, rates)
        return rates


def _row(counts: Mapping[str, int], rates: Mapping[str, float]) -> Row:
    row: Row = {}
    for name, count in counts.items():
        row[name] = count
        row[f"{name}_details"] = {"rate": rates.get(name, 0.0)}
    return row


def lengths_of(queues: Iterable[Queue]) -> dict[str, int]:
    """What these queues hold, by RabbitMQ's names."""
    ready = unsettled = 0
    for queue in queues:
        ready += queue.ready_count
        unsettled += queue.unsettled_count
    return {"messages": ready + unsettled, "messages_ready": ready, "messages_unacknowledged": unsettled}


def counts_of(queues: Iterable[Queue]) -> dict[str, int]:
    """What went through these queues since the start, by RabbitMQ's names."""
    counts = dict.fromkeys(("publish", "deliver_get", "deliver", "get", "ack", "redeliver"), 0)
    for queue in queues:
        counts["publish"] += queue.published
        counts["deliver"] += queue.delivered
        counts["get"] += queue.got
        counts["deliver_get"] += queue.delivered + queue.got
        counts["ack"] += queue.acknowledged
        counts["redeliver"] += queue.redelivered
    return counts
