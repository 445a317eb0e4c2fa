"""Consumers that are asked until enough has come."""

import time
from collections.abc import Callable

from confluent_kafka import Consumer

from tests.support.serving.kafka import PATIENCE_S


def collect(receive: Callable[[], list[object]], count: int, attempts: int = 120) -> list[object]:
    """Ask until `count` have come, or nothing has for `attempts` calls; each call waits by itself."""
    found: list[object] = []
    without_any = 0
    while without_any < attempts:
        received = receive()
        without_any = 0 if received else without_any + 1
        found += received
        if len(found) >= count:
            return found
    raise AssertionError(f"{len(found)} of {count} came")


def poll_until(condition: Callable[[], bool], *consumers: Consumer) -> list[bytes]:
    """Let consumers work until something holds; answers what they received."""
    received: list[bytes] = []
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        for each in consumers:
            received += [m.value() or b"" for m in each.consume(100, 0.05) if m.error() is None]
        if condition():
            return received
    raise AssertionError(f"never; {[each.assignment() for each in consumers]}, {len(received)} received")


def partitions(each: Consumer) -> set[int]:
    return {place.partition for place in each.assignment()}
