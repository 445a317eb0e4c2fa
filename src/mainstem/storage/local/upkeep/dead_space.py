"""How much of each run is dead: of logs that were deleted, or below the starts of logs."""

from __future__ import annotations

from mainstem.storage.local.limits import UpkeepLimits
from mainstem.storage.local.read.file_set import FileSet
from mainstem.storage.local.runs.needed_blocks import NeededBlocks
from mainstem.storage.local.runs.stored_file import RunFile
from mainstem.storage.runtime.runtime import Runtime
from mainstem.storage.runtime.steps import Steps, turn
from mainstem.storage.sequencer.ledger import Ledger


class DeadSpace:
    """Counts dead bytes, a part of a run at a time."""

    def __init__(self, runtime: Runtime, ledger: Ledger, files: FileSet, limits: UpkeepLimits) -> None:
        self._runtime = runtime
        self._visible = ledger.visible
        self._files = files
        self._slots_per_turn = limits.slots_per_turn
        self._sharing_slots_per_turn = limits.sharing_slots_per_turn

    def count(self) -> Steps[None]:
        """Look at the runs where anything was trimmed or deleted since the last time."""
        for run in list(self._files.runs.values()):
            if run.checked == self._files.deaths:
                continue
            checked = self._files.deaths
            dead, is_dead = yield from self._dead_bytes(run)
            run.checked = checked
            run.dead_bytes, run.is_dead = dead, is_dead

    def _dead_bytes(self, run: RunFile) -> Steps[tuple[int, bool]]:
        if run.index.is_shared:
            return (yield from self._dead_shared_bytes(run))
        index, visible = run.index, self._visible
        dead = 0
        is_dead = True
        for slot, log in enumerate(index.logs):
            state = visible.get(log)
            start = index.nexts[slot] if state is None else state.visible_start
            if start >= index.nexts[slot]:
                dead += index.bytes[slot]
            else:
                is_dead = False
                for block in index.blocks(slot) if start > index.firsts[slot] else ():
                    if index.block_nexts[block] > start:
                        break
                    dead += index.block_sizes[block]
            if slot % self._slots_per_turn == self._slots_per_turn - 1:
                yield turn(self._runtime)
        return dead, is_dead

    def _dead_shared_bytes(self, run: RunFile) -> Steps[tuple[int, bool]]:
        """A block that several logs share is dead when none of them needs it."""
        index, visible = run.index, self._visible
        needed = NeededBlocks(index)
        is_dead = True
        for slot, log in enumerate(index.logs):
            state = visible.get(log)
            if state is not None and state.visible_start < index.nexts[slot]:
                is_dead = False
                needed.add(index.block_for(slot, state.visible_start), index.blocks(slot).stop)
            if slot % self._sharing_slots_per_turn == self._sharing_slots_per_turn - 1:
                yield turn(self._runtime)
        return run.bytes - needed.bytes, is_dead
