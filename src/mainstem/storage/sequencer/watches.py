"""Lasting watches: who is told when logs grow."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mainstem.model.errors import UnknownLog
from mainstem.storage.contract import LogEnd, WatchCallback
from mainstem.storage.sequencer.log_state import LogState

DELETED = LogEnd(-1, -1)

log_output = logging.getLogger("mainstem.storage")


class WatchHandle:
    """One reader's interest in any number of logs; told once per durable group."""

    __slots__ = ("_callback", "_logs", "_lookup", "_moved")

    def __init__(self, callback: WatchCallback, lookup: Callable[[int], LogState | None]) -> None:
        self._callback: WatchCallback | None = callback
        self._lookup = lookup
        self._logs: dict[int, LogState] = {}
        self._moved: dict[int, LogEnd] = {}

    def add(self, log: int) -> LogEnd:
        """Take a log in; answers where it ends now."""
        state = self._lookup(log)
        if state is None:
            raise UnknownLog(f"log {log}")
        if log not in self._logs and self._callback is not None:
            self._logs[log] = state
            if state.watchers is None:
                state.watchers = []
            state.watchers.append(self)
        return state.ends

    def remove(self, log: int) -> None:
        """Let a log go."""
        state = self._logs.pop(log, None)
        self._moved.pop(log, None)
        if state is not None and state.watchers is not None:
            state.watchers.remove(self)
            if not state.watchers:
                state.watchers = None

    def close(self) -> None:
        """Let all go."""
        self._callback = None
        for log in list(self._logs):
            self.remove(log)

    def note(self, state: LogState) -> bool:
        """A log has moved; answers whether this is the first since the last `tell`."""
        first = not self._moved
        self._moved[state.log] = state.ends
        return first

    def note_deleted(self, log: int) -> bool:
        """A log is gone."""
        first = not self._moved
        self._logs.pop(log, None)
        self._moved[log] = DELETED
        return first

    def tell(self) -> None:
        """Call back with all that moved."""
        moved = self._moved
        if moved and self._callback is not None:
            self._moved = {}
            try:
                self._callback(moved)
            except Exception:
                # One watcher's bug must not keep the others, and the answers behind them, waiting.
                log_output.exception("a watch callback failed")


class Watches:
    """All watches of one engine, and which of them the group that is being shown has moved."""

    __slots__ = ("_lookup", "_touched")

    def __init__(self, lookup: Callable[[int], LogState | None]) -> None:
        self._lookup = lookup
        self._touched: list[WatchHandle] = []

    def open(self, callback: WatchCallback) -> WatchHandle:
        """A watch of no log yet."""
        return WatchHandle(callback, self._lookup)

    def note(self, state: LogState) -> None:
        """A log has moved: remember whom to tell."""
        for handle in state.watchers or ():
            if handle.note(state):
                self._touched.append(handle)

    def note_deleted(self, state: LogState) -> None:
        """A log is gone: remember whom to tell, and forget who watched it."""
        for handle in state.watchers or ():
            if handle.note_deleted(state.log):
                self._touched.append(handle)
        state.watchers = None

    def tell(self) -> None:
        """Call back every watch that was noted since the last time, once."""
        touched = self._touched
        if touched:
            self._touched = []
            for handle in touched:
                handle.tell()
