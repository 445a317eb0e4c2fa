"""How much the broker has taken from clients and not made durable yet: one bound for all protocols.

    a client's bytes --> drafts of queues --> engine: pending --> durable
                         `drafted_bytes`      `Engine.is_above`

An adapter asks `is_pressed` after each piece of work that publishes. While it is, the adapter reads nothing more from that
connection, so that TCP holds the client back. Connections that do not publish go on. What one message becomes is what counts:
a message for a thousand queues counts for each of them (see `queues.outbox`).

The engine refuses commits only far above this bound: a client that waits never meets that refusal.
"""

from __future__ import annotations

from collections.abc import Callable

from mainstem.storage.contract import Engine

UNWRITTEN_BYTES_MAX = 8 << 20
"""Above this, clients wait. It is two full groups of commits, which keeps the disk busy. Another client's commit waits behind it,
so more of it makes that client slower and nothing faster (docs/benchmarks.md, Overload)."""


class Intake:
    """What is on its way to the disk, and who waits until it is less."""

    def __init__(self, engine: Engine, bytes_max: int = UNWRITTEN_BYTES_MAX) -> None:
        self._engine = engine
        self.bytes_max = bytes_max
        self.drafted_bytes = 0
        """Published to queues, and not handed to the engine yet."""
        self._waiting: list[Callable[[], None]] = []

    @property
    def is_pressed(self) -> bool:
        """Whether a connection that publishes waits before it is read again."""
        return self._engine.is_above(self.bytes_max - self.drafted_bytes)

    @property
    def is_relieved(self) -> bool:
        """Whether those that wait may go on. Half the bound, so that they do not stop again at once."""
        return not self._engine.is_above(self.bytes_max // 2 - self.drafted_bytes)

    def when_relieved(self, callback: Callable[[], None]) -> None:
        """Call back once, when connections may be read again."""
        self._waiting.append(callback)
        if len(self._waiting) == 1:
            self._ask()

    def _ask(self) -> None:
        self._engine.when_below(max(self.bytes_max // 2 - self.drafted_bytes, 0), self._engine_relieved)

    def _engine_relieved(self) -> None:
        if not self.is_relieved:  # drafts have grown meanwhile; they are committed before long
            self._ask()
            return
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()
