"""Logs by their number.

A dictionary that, compiled, also keeps them in a table of its own: to find one among ten thousand there is to wait for memory
once, where the dictionary has three places to look at, one after the other; and the processor can be asked for it ahead.
"""

from __future__ import annotations

from typing import Any

from mainstem.storage.sequencer.log_state import LogState

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    # C functions of log_table.pxd
    home_of: Any = None
    number_of = home_of

SLOTS_MIN = 16
_BITS = 64


class LogTable(dict):  # type: ignore[type-arg]
    """Changed by `add` and `remove` alone; all else that a dictionary has may be asked."""

    def __init__(self) -> None:
        super().__init__()
        self._resize(SLOTS_MIN)

    def find(self, log: int) -> LogState | None:
        """The log of this number, if there is one."""
        number = number_of(log) if cython.compiled else -1
        if number < 0:
            known: LogState | None = self.get(log)
            return known
        slots, mask = self.slots, self._mask
        slot: int = home_of(number, self.shift)
        state = slots[slot]
        while state is not None and state.log != number:
            slot = (slot + 1) & mask
            state = slots[slot]
        return state

    def add(self, state: LogState) -> None:
        """A log whose number is not among them yet."""
        self[state.log] = state
        if not cython.compiled:
            return
        if 2 * len(self) > len(self.slots):
            self._resize(2 * len(self.slots))
        else:
            self._put(state)

    def remove(self, log: int) -> None:
        """One that is among them."""
        state = self.pop(log)
        if not cython.compiled:
            return
        slots, mask = self.slots, self._mask
        free = home_of(state.log, self.shift)
        while slots[free] is not state:
            free = (free + 1) & mask
        # Those behind it that are not where they would be found over a free slot move up.
        slots[free] = None
        slot = (free + 1) & mask
        while slots[slot] is not None:
            state = slots[slot]
            if (slot - home_of(state.log, self.shift)) & mask >= (slot - free) & mask:
                slots[free], slots[slot] = state, None
                free = slot
            slot = (slot + 1) & mask

    def _put(self, state: LogState) -> None:
        slots, mask = self.slots, self._mask
        slot = home_of(state.log, self.shift)
        while slots[slot] is not None:
            slot = (slot + 1) & mask
        slots[slot] = state

    def _resize(self, count: int) -> None:
        """As many slots, a power of two, and all logs in them."""
        if not cython.compiled:
            return
        self.slots: list[LogState | None] = [None] * count
        self._mask = count - 1
        self.shift = _BITS - self._mask.bit_length()
        for state in self.values():
            self._put(state)
