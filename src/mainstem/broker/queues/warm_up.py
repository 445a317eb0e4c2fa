"""After a start: messages expire, and become dead letters, though nobody has used their queue since."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainstem.broker.clock import Clock
    from mainstem.broker.queues.queue import Queue

QUEUES_PER_TURN = 100


def warm_up(queues: Iterable[Queue], clock: Clock) -> None:
    """Look at the first messages of all queues in which time matters, some at a time.

    Others stay as they are: where nothing becomes a dead letter, who uses the queue next finds what has expired and lets it go.
    """
    waiting = iter([queue for queue in queues if queue.rules.dead_letter is not None or queue.has_ttl])

    def go_on() -> None:
        some = list(islice(waiting, QUEUES_PER_TURN))
        for queue in some:
            if queue.readers is None and not queue.is_gone and (queue.ready_count or queue.is_opening):
                queue.open()
                queue.when_known(queue.refill)
        if some:
            clock.call_soon(go_on)

    go_on()
