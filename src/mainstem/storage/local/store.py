"""The group store on local disk: a group is durable in the write-ahead log, and readable through the tails of its logs."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

from mainstem.storage.local.proofs import Proofs
from mainstem.storage.local.read.file_set import FileSet
from mainstem.storage.local.read.tail import TailCache, place_of, show_entries
from mainstem.storage.local.upkeep.space import Space
from mainstem.storage.local.wal.writer import WalWriter
from mainstem.storage.sequencer.commit_group import CommitGroup
from mainstem.storage.sequencer.log_state import LogState
from mainstem.storage.sequencer.log_tail import Arrivals, LogTail
from mainstem.storage.sequencer.sequencer import Sequencer


class LocalStore:
    """The GroupStore of a local engine's sequencer."""

    def __init__(
        self,
        *,
        sequencer: Sequencer,
        writer: WalWriter,
        files: FileSet,
        arrivals: Arrivals,
        cache: TailCache,
        space: Space,
        proofs: Proofs,
        on_death: Callable[[], None],
    ) -> None:
        self._sequencer = sequencer
        self._ledger = sequencer.ledger
        self._note = sequencer.watches.note
        self._writer = writer
        self._files = files
        self._arrivals = arrivals
        self._cache = cache
        self._space = space
        self._proofs = proofs
        self._on_death = on_death
        """Called when something on disk may have died."""
        self._to_measure: list[LogState] = []

    def submit(self, group: CommitGroup) -> None:
        """Write the group; a new file, or a full disk, changes how much room there is."""
        self._writer.write(group, self._written)
        active = self._writer.active
        if active.generation not in self._files.wal:
            self._files.wal[active.generation] = active
            self._space.look()
        elif self._ledger.full:
            self._space.limit_state()

    def _written(self, group: CommitGroup, generation: int, position: int) -> None:
        group.place = place_of(generation, position)
        self._sequencer.durable(group)
        if not group.empty:
            self._proofs.group_written()

    def show(self, group: CommitGroup) -> None:
        """Append the batches to the tails of their logs, and keep them in the cache."""
        place = group.place
        for buffer in group.body:
            self._cache.put(place, buffer)
            place += len(buffer)
        if group.refs:
            self._show_with_refs(group)
        else:
            show_entries(self._arrivals, group.entries, group.place, self._note)
        # Only now: batches below the new start may be of the group that trims.
        for state in self._to_measure:
            self._files.measure(state)
        self._to_measure.clear()

    def _show_with_refs(self, group: CommitGroup) -> None:
        """A log may get batches and references in one group: both in the order of their offsets."""
        place = group.place
        places: list[int] = []
        shown: list[tuple[int, int, int, int, int, LogState, bool]] = []
        for base, time, size, count, _, _, state, _ in group.entries:
            places.append(place)
            shown.append((base, place, size, time, count, state, False))
            place += size
        for _, base, time, _, _, size, count, _, state, index in group.refs:
            shown.append((base, places[index], size, time, count, state, True))
        shown.sort(key=itemgetter(0))
        for base, place, size, time, count, state, is_ref in shown:
            if state.tail is None:
                state.tail = LogTail()
            (state.tail.append_ref if is_ref else state.tail.append)(base, place, size, time)
            state.end = base + count
            state.bytes += size
            if state.watchers is not None:
                self._note(state)

    def log_trimmed(self, state: LogState) -> None:
        """Count its bytes anew when the group is shown."""
        self._files.deaths += 1
        self._to_measure.append(state)
        self._on_death()

    def log_deleted(self, state: LogState) -> None:
        """All of it is dead."""
        self._files.deaths += 1
        self._files.deleted_logs.add(state.log)
        self._on_death()
