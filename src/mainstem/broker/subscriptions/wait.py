"""Waiting for something to lease."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem.broker.clock import Clock
from mainstem.model.errors import UnknownLog
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Engine, LogEnd

if TYPE_CHECKING:
    from collections.abc import Generator


class Wait:
    """Ends when a log grows, something is given back, its time has passed, or somebody says so."""

    def __init__(self, engine: Engine, clock: Clock, seconds: float, waits: set[Wait]) -> None:
        self._answer: Answer[None] = Answer()
        self._unknown: dict[int, tuple[int | None, bool]] = {}
        """Logs whose end the engine has not said yet, with what is waited for."""
        self._waits = waits
        self._watch = engine.watch(self._moved)
        self._timer = clock.call_later(seconds, self.finish)
        waits.add(self)

    def add(self, log: int, wanted: int | None, committed_only: bool) -> None:
        """Wait for this offset of a log too; None: only for what is given back."""
        if self._answer.done:
            return
        try:
            end = self._watch.add(log)
        except UnknownLog:
            self.finish()
            return
        if end is None:
            self._unknown[log] = (wanted, committed_only)
        elif _has_come(end, wanted, committed_only):
            self.finish()

    def finish(self) -> None:
        """It is over."""
        if not self._answer.done:
            self._timer.cancel()
            self._watch.close()
            self._waits.discard(self)
            self._answer.resolve(None)

    def _moved(self, ends: Mapping[int, LogEnd]) -> None:
        for log, end in ends.items():
            wish = self._unknown.pop(log, None)
            if wish is None or end.end < 0 or _has_come(end, *wish):
                self.finish()
                return

    def __await__(self) -> Generator[object, None, None]:
        return self._answer.__await__()


def _has_come(end: LogEnd, wanted: int | None, committed_only: bool) -> bool:
    return wanted is not None and wanted < (end.stable if committed_only else end.end)
