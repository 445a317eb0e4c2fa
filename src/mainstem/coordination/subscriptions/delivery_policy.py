"""What a subscription allows, and the one judgement of a record that comes back: tried again, put to rest, or given up.

    deliveries   how often a record was given out, however that ended
    failures     how often its consumer could not process it, or did not answer in time

Kafka limits deliveries, RabbitMQ failures; a retry policy counts failures too. Each limit that is set counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mainstem.coordination.dead_letters.targets import LetterTarget
from mainstem.coordination.subscriptions.cursor import Counts
from mainstem.coordination.subscriptions.retry_policy import RetryPolicy


class DeliveryPolicy(NamedTuple):
    """What one subscription allows. None: no such limit."""

    lease_ms: int | None = None
    """How long a consumer may work on a record. None: as long as it stays attached."""
    deliveries_max: int | None = None
    """A record that was given out so often is not given out again."""
    failures_max: int | None = None
    """A record may fail so often; with one failure more it is given up."""
    retry: RetryPolicy | None = None
    leases_max: int | None = None
    """Records of one log that may be given out at a time."""
    dead_letter: LetterTarget | None = None
    """Where a record goes that is given up. None: nowhere, it is settled."""

    def room(self, held: int) -> int:
        """How many more records may be given out, while `count` are."""
        return 1 << 62 if self.leases_max is None else self.leases_max - held

    def delay_ms(self, counts: Counts, *, failed: bool, delay_ms: int, random: Callable[[], float]) -> int | None:
        """How long a record that has come back rests, 0: not at all. None: it is given up.

        The counts include the delivery that has just ended. A delay that the consumer asks for counts before the retry policy's.
        """
        if self.deliveries_max is not None and counts.deliveries >= self.deliveries_max:
            return None
        if self.failures_max is not None and counts.failures > self.failures_max:
            return None
        if failed and not delay_ms and self.retry is not None and counts.failures:
            return self.retry.next_delay_ms(counts.failures, random)
        return delay_ms


UNLIMITED = DeliveryPolicy()
