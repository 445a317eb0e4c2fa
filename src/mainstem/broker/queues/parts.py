"""What a queue needs of the broker: narrow parts, each with a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from mainstem.broker.queues.delivery.dispatcher import Dispatcher
    from mainstem.broker.queues.delivery.priority_lane import PriorityLanes
    from mainstem.broker.queues.delivery.streams import StreamReaders
    from mainstem.broker.queues.lanes import OpenLanes
    from mainstem.broker.queues.limits import QueueLimits
    from mainstem.broker.queues.publishing.outbox import Outbox
    from mainstem.broker.queues.queue import Queue
    from mainstem.broker.queues.reading import WindowReader
    from mainstem.broker.queues.settling.settling import Settling
    from mainstem.broker.queues.timers import Timers
    from mainstem.broker.trace.chronicle import Chronicle


class QueueEnding(Protocol):
    """What ends queues that nobody uses any more."""

    def last_consumer_left(self, queue: Queue) -> None:
        """A queue has no consumers any more."""


class QueueParts(msgspec.Struct, frozen=True, kw_only=True):
    """One object for all queues of a broker: a queue at rest pays for one reference."""

    now_ms: Callable[[], int]
    limits: QueueLimits
    lanes: OpenLanes
    priority_lanes: PriorityLanes
    dispatcher: Dispatcher
    outbox: Outbox
    reader: WindowReader
    streams: StreamReaders
    settling: Settling
    deletion: QueueEnding
    timers: Timers
    chronicle: Chronicle
