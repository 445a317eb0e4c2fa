"""What clients were told, and what must therefore be found. A value is `PUBLISHER-NUMBER`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.crashing.promises import Broken, check_order


@dataclass
class AmqpHistory:
    """Written by the loads, each its own part; read between two kills and at the end."""

    confirmed: set[bytes] = field(default_factory=set)
    """In the queue of work."""
    doomed: set[bytes] = field(default_factory=set)
    """Confirmed in the queue whose messages are all rejected."""
    delayed: set[bytes] = field(default_factory=set)
    """Confirmed, to come later."""
    settled: set[bytes] = field(default_factory=set)
    """Acknowledged, and the tx.commit or close that followed was answered."""
    delivered: list[tuple[bytes, bool]] = field(default_factory=list)
    """Of the queue of work: each delivery, and whether it was said to be one more."""
    arrived: set[bytes] = field(default_factory=set)
    """Delayed ones that came."""


def check_stored(what: str, promised: set[bytes], stored: Sequence[bytes], *, in_order: bool = True) -> None:
    """Everything promised is there, nothing twice, in the order of each publisher."""
    lost = promised - set(stored)
    if lost:
        raise Broken(f"{what}: {len(lost)} confirmed and lost, {sorted(lost)[:5]}")
    double = [value for value, count in Counter(stored).items() if count > 1]
    if double:
        raise Broken(f"{what}: {len(double)} stored twice, {double[:5]}")
    if in_order:
        check_order(what, stored)


def check_delivered(history: AmqpHistory) -> None:
    """All that was confirmed was given to the consumer; what was new, in order."""
    lost = history.confirmed - {value for value, _ in history.delivered}
    if lost:
        raise Broken(f"{len(lost)} confirmed and never delivered, {sorted(lost)[:5]}")
    check_order("new deliveries", [value for value, is_again in history.delivered if not is_again])
