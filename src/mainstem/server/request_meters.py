"""How many requests there were of each kind, and how long they took.

A request costs an addition, and one that is timed two looks at the clock; what operators see is put together when they ask.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

BOUNDS_S = (0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LABELS = ("protocol", "operation")


class RequestMeter:
    """Of one kind of request."""

    __slots__ = ("answers", "clock", "requests", "seconds", "throttle_ms", "untimed")

    def __init__(self, untimed: int = 0) -> None:
        self.clock = time.perf_counter
        """What `begun` is read from."""
        self.requests = 0
        self.untimed = untimed
        """A mask of one-bits: those are timed whose number has none of them."""
        self.answers = [0] * (len(BOUNDS_S) + 1)
        """Of those that were timed, by how long they took."""
        self.seconds = 0.0
        self.throttle_ms = 0

    def answered(self, begun: float, throttle_ms: int) -> None:
        """A request that began then (below 0: is not timed) is answered now, and its client was told to wait so long."""
        if begun >= 0:
            elapsed = self.clock() - begun
            self.seconds += elapsed
            self.answers[bisect_left(BOUNDS_S, elapsed)] += 1
        if throttle_ms:
            self.throttle_ms += throttle_ms


class RequestMeters:
    """Of all kinds, by protocol and operation."""

    def __init__(self) -> None:
        self._meters: dict[tuple[str, str], RequestMeter] = {}

    def meter(self, protocol: str, operation: str, untimed: int = 0) -> RequestMeter:
        """The one of this operation."""
        return self._meters.setdefault((protocol, operation), RequestMeter(untimed))

    def counts(self) -> dict[str, float]:
        """Requests of each protocol since the start."""
        counts: dict[str, float] = {}
        for (protocol, _), meter in self._meters.items():
            counts[f"requests.{protocol}"] = counts.get(f"requests.{protocol}", 0) + meter.requests
        return counts

    def measure(self) -> Iterable[Metric]:
        """Of what was asked for at least once."""
        requests = CounterMetricFamily("mainstem_requests", "Requests", labels=LABELS)
        took = HistogramMetricFamily(
            "mainstem_request_seconds", "Time from a request to its answer, where it was taken", labels=LABELS
        )
        throttled = CounterMetricFamily(
            "mainstem_request_throttle_seconds", "Time that clients were told to wait", labels=LABELS
        )
        for labels, meter in self._meters.items():
            if not meter.requests:
                continue
            requests.add_metric(labels, meter.requests)
            count, buckets = 0, []
            for bound, answers in zip((*map(str, BOUNDS_S), "+Inf"), meter.answers, strict=True):
                count += answers
                buckets.append((bound, count))
            took.add_metric(labels, buckets, meter.seconds)
            throttled.add_metric(labels, meter.throttle_ms / 1000)
        yield requests
        yield took
        yield throttled
