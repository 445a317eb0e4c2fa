"""Which rows are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from mainstem.storage.local.inspection.dump.rows import (
    AnyRow,
    BatchRow,
    BlockRow,
    EndRow,
    FileRow,
    FrameRow,
    GroupRow,
    KeyRow,
    KeyTableRow,
    LogRow,
    RecordRow,
    StateRow,
    TroubleRow,
)

_DEPTHS: dict[type[AnyRow], int] = {
    FileRow: 0,
    GroupRow: 1,
    LogRow: 1,
    EndRow: 1,
    FrameRow: 2,
    BlockRow: 2,
    KeyTableRow: 2,
    BatchRow: 3,
}
"""How deep a row lies that others may lie in. A log of a run is as deep as a group, a block as a frame."""


class Selection(msgspec.Struct, frozen=True):
    """What a dump shows."""

    records: bool = False
    log: int | None = None
    from_offset: int | None = None
    limit: int | None = None
    """Records, or batches where records are not shown; items of state count too."""
    width: int | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether only some rows are wanted: then those above them are shown only where something is in them."""
        return self.log is not None or self.from_offset is not None

    def wants_log(self, log: int) -> bool:
        """Whether this log is wanted."""
        return self.log is None or log == self.log

    def wants_offsets(self, next_offset: int) -> bool:
        """Whether something that ends before this offset is wanted."""
        return self.from_offset is None or next_offset > self.from_offset

    def wants_batch(self, log: int, next_offset: int) -> bool:
        """Whether a batch is wanted."""
        return self.wants_log(log) and self.wants_offsets(next_offset)

    def choose(self, rows: Iterable[AnyRow]) -> Iterator[AnyRow]:
        """The rows that are wanted, and those that lead to them."""
        if self.limit == 0:
            return
        above: list[tuple[int, AnyRow]] = []
        count = 0
        for row in rows:
            if isinstance(row, TroubleRow):
                yield row
            elif self._is_leaf(row):
                if self._wants(row):
                    yield from (leading for _, leading in above)
                    above.clear()
                    yield row
                    count += 1
                    if count == self.limit:
                        return
            elif self.is_narrow:
                depth = _DEPTHS[type(row)]
                above = [entry for entry in above if entry[0] < depth]
                above.append((depth, row))
            else:
                yield row

    def _is_leaf(self, row: AnyRow) -> bool:
        return isinstance(row, RecordRow | KeyRow | StateRow) or (isinstance(row, BatchRow) and not self.records)

    def _wants(self, row: AnyRow) -> bool:
        match row:
            case RecordRow() | KeyRow():
                return self.wants_batch(row.log, row.offset + 1)
            case BatchRow():
                return self.wants_batch(row.log, row.next)
            case StateRow():
                return self.from_offset is None and (self.log is None or row.log == self.log)
            case _:
                return True


def depth_of(row: AnyRow) -> int | None:
    """How deep a row lies; None for one that lies in whatever came before."""
    return _DEPTHS.get(type(row))
