"""The write-ahead log in the shared store: small groups in the catalog, large ones as objects that the catalog names.

Uploads overtake each other; groups enter the catalog strictly in their order, as many of them with one statement as are ready.
What was not answered is said again, with the same words: the catalog takes it once. Only a new owner ends that.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence

from mainstem.model.errors import OwnershipLost, StoreUnreachable
from mainstem.storage.contract import Buffer
from mainstem.storage.runtime.runtime import Done, Runtime
from mainstem.storage.shared.lanes import Lanes
from mainstem.storage.shared.ownership import LeasedOwnership
from mainstem.storage.shared.ports import Catalog, LateUpload, ObjectStore, ShippedGroup, object_key

log_output = logging.getLogger("mainstem.storage")

STATEMENT_BYTES_MAX = 1 << 20
STATEMENT_GROUPS_MAX = 64
RETRY_SECONDS_MIN = 0.05
RETRY_SECONDS_MAX = 1.0


class _Entry:
    """A group on its way."""

    __slots__ = ("created_ms", "data", "done", "generation", "key", "position", "ready", "sequence", "tries")

    def __init__(self, sequence: int, generation: int, position: int, data: bytes, done: Done[None]) -> None:
        self.sequence = sequence
        self.generation = generation
        self.position = position
        self.data = data
        self.done = done
        self.key: str | None = None
        self.created_ms = 0
        self.ready = False
        self.tries = 0

    def row(self) -> ShippedGroup:
        """As the catalog gets it."""
        data = None if self.key is not None else self.data
        return ShippedGroup(self.sequence, self.generation, self.position, data, self.key, self.created_ms)


class ShippedLog:
    """The `Shipping` of a shard's owner. Engine's thread only; what blocks is done in lanes."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        objects: ObjectStore,
        runtime: Runtime,
        lanes: Lanes,
        ownership: LeasedOwnership,
        inline_bytes_max: int,
    ) -> None:
        self._catalog = catalog
        self._objects = objects
        self._runtime = runtime
        self._lanes = lanes
        self._ownership = ownership
        self._inline_bytes_max = inline_bytes_max
        self._entries: deque[_Entry] = deque()
        self._appending = 0
        """How many groups, from the first on, are on their way into the catalog."""
        self._tries = 0
        self._ended = False
        self._merged_to = 0
        self._forgotten_to = 0
        self._forgetting = False
        self._when_idle: Callable[[], None] | None = None
        self.inline_groups = 0
        self.object_groups = 0
        ownership.on_lost(lambda _: self._end())

    def ship(self, sequence: int, generation: int, position: int, parts: Sequence[Buffer], done: Done[None]) -> None:
        """Keep a group, in its turn."""
        if self._ended:
            done(None, OwnershipLost(f"term {self._ownership.term} is over"))
            return
        entry = _Entry(sequence, generation, position, b"".join(parts), done)
        self._entries.append(entry)
        if len(entry.data) <= self._inline_bytes_max:
            self.inline_groups += 1
            entry.ready = True
            self._append()
        else:
            self.object_groups += 1
            self._upload(entry)

    def merged(self, last: int) -> None:
        """Groups up to this one need not be kept."""
        self._merged_to = max(self._merged_to, last)
        self._forget()

    def close(self, then: Callable[[], None]) -> None:
        """Call when nothing is under way; what was to be forgotten is forgotten by the next owner, if not by now."""
        if self._is_idle:
            then()
        else:
            self._when_idle = then

    @property
    def _is_idle(self) -> bool:
        return self._ended or (not self._entries and not self._forgetting)

    def _end(self) -> None:
        """Nothing that is under way will be told."""
        self._ended = True
        self._entries.clear()
        self._tell_idle()

    def _tell_idle(self) -> None:
        if self._is_idle and self._when_idle is not None:
            then, self._when_idle = self._when_idle, None
            then()

    # Objects

    def _upload(self, entry: _Entry) -> None:
        entry.created_ms = self._ownership.catalog_ms()
        name = f"{self._ownership.term:x}-{entry.sequence:x}-{entry.tries:x}"
        entry.tries += 1
        entry.key = key = object_key(self._ownership.shard, "wal", entry.created_ms, name)

        def put() -> None:
            self._objects.put(key, (entry.data,))

        def done(_: None, error: BaseException | None) -> None:
            if self._ended:
                return
            if isinstance(error, StoreUnreachable):
                log_output.warning("the upload of group %d is tried again: %s", entry.sequence, error)
                self._runtime.call_later(RETRY_SECONDS_MIN * 2, again)
            elif error is not None:
                self._fail(error)
            else:
                entry.ready = True
                self._append()

        def again() -> None:
            if not self._ended:
                self._lanes.upload(put, done)

        self._lanes.upload(put, done)

    # The catalog

    def _append(self) -> None:
        if self._appending or self._ended:
            return
        rows: list[ShippedGroup] = []
        size = 0
        for entry in self._entries:
            if not entry.ready or len(rows) >= STATEMENT_GROUPS_MAX:
                break
            size += 0 if entry.key is not None else len(entry.data)
            if rows and size > STATEMENT_BYTES_MAX:
                break
            rows.append(entry.row())
        if rows:
            self._appending = len(rows)
            self._send(rows)

    def _send(self, rows: list[ShippedGroup]) -> None:
        if self._ended:
            return
        shard, epoch = self._ownership.shard, self._ownership.term
        self._lanes.append(lambda: self._catalog.append(shard, epoch, rows), lambda _, error: self._sent(rows, error))

    def _sent(self, rows: list[ShippedGroup], error: BaseException | None) -> None:
        if self._ended:
            return
        if isinstance(error, StoreUnreachable):
            self._tries += 1
            pause = min(RETRY_SECONDS_MAX, RETRY_SECONDS_MIN * 2**self._tries)
            log_output.warning("groups from %d on are sent again: %s", rows[0].sequence, error)
            self._runtime.call_later(pause, lambda: self._send(rows))
            return
        self._tries = 0
        self._appending = 0
        if isinstance(error, LateUpload):
            for entry in list(self._entries)[: len(rows)]:
                if entry.key is not None:
                    entry.ready = False
                    self._upload(entry)
        elif error is not None:
            self._fail(error)
            return
        else:
            told = [self._entries.popleft() for _ in rows]
            # The next groups are on their way before these are answered.
            self._append()
            for entry in told:
                if not self._ended:
                    entry.done(None, None)
        self._append()
        self._tell_idle()

    def _fail(self, error: BaseException) -> None:
        done = self._entries[0].done
        self._end()
        if isinstance(error, OwnershipLost):
            self._ownership.lose(error)
        done(None, error)

    def _forget(self) -> None:
        """Drop merged groups. An owner that is gone before leaves that to the next one."""
        if self._forgetting or self._ended or self._merged_to <= self._forgotten_to or self._when_idle is not None:
            return
        self._forgetting = True
        last = self._merged_to

        def done(_: None, error: BaseException | None) -> None:
            self._forgetting = False
            if error is None:
                self._forgotten_to = last
                self._forget()
            else:
                log_output.warning("merged groups were not dropped: %s", error)
            self._tell_idle()

        shard, epoch = self._ownership.shard, self._ownership.term
        self._lanes.upkeep(lambda: self._catalog.forget_groups(shard, epoch, last), done)
