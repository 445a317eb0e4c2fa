"""Which queues to look after at the end of a turn: those that were woken, and those whose logs have grown."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mainstem.broker.clock import Clock

if TYPE_CHECKING:
    from mainstem.broker.queues.publishing.outbox import Outbox
    from mainstem.broker.queues.queue import Queue, QueueLane
    from mainstem.broker.queues.timers import Timers

log = logging.getLogger(__name__)


class Dispatcher:
    """For all queues: one call at the end of a turn, however many queues have work."""

    def __init__(self, clock: Clock, timers: Timers, outbox: Outbox) -> None:
        self._clock = clock
        self._timers = timers
        self._outbox = outbox
        self._grown: dict[QueueLane, int] = {}
        """Lanes whose logs have grown in this turn, with the stable end of each."""
        self._woken: dict[Queue, None] = {}
        self._is_scheduled = False

    def wake(self, queue: Queue) -> None:
        """Look after this queue at the end of the turn."""
        self._woken[queue] = None
        self._schedule()

    def lane_grew(self, lane: QueueLane, stable: int) -> None:
        """The log of a lane has grown."""
        self._grown[lane] = stable
        self._schedule()

    def lanes_arrived(self, lanes: Iterable[QueueLane]) -> None:
        """Messages that were published here are durable, and in these lanes."""
        for queue in dict.fromkeys([lane.queue for lane in lanes]):
            if not queue.is_gone:
                self.arrived(queue, just_now=True)

    def arrived(self, queue: Queue, *, just_now: bool = False) -> None:
        """A queue has more messages than before: keep its limits, and give messages out."""
        try:
            if just_now and queue.may_expire:
                queue.dispatch_arrivals()
            self._look_after(queue)
        except Exception:
            # A consumer's bug must not keep other queues from theirs.
            log.exception("queue %s: giving out failed", queue.name)

    def _look_after(self, queue: Queue) -> None:
        if queue.is_limited and queue.rules.overflow == "drop-head" and queue.is_over():
            queue.drop_head()
        if queue.may_expire:
            self._expire_head(queue)
        queue.dispatch()
        if queue in self._outbox.full_queues and not queue.is_over(queue.incoming):
            self._outbox.not_full(queue)

    def _expire_head(self, queue: Queue) -> None:
        """Give up what has expired, now and when the next message is due."""
        if not queue.is_gone:
            due_ms = queue.expire_head()
            if due_ms:
                self._timers.at(due_ms, (queue, "head"), functools.partial(self._expire_head, queue))

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_scheduled = False
        grown, self._grown = self._grown, {}
        for lane, stable in grown.items():
            if not lane.is_gone and stable > lane.end:
                lane.extend(stable)
                self._woken[lane.queue] = None
        woken, self._woken = self._woken, {}
        for queue in woken:
            if not queue.is_gone:
                self.arrived(queue)
