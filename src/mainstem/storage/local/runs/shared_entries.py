"""What a log has of the inputs of a merge, in columns, and how that is cut into blocks that several logs can share.

A *unit* is what a merge does not divide: a batch of the write-ahead log, or a block of a run. A file of the write-ahead log may
hold a million references, so nothing here is an object per reference, and the loops over them are compiled.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, cast

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import append_small, number_at, small_number_at

    def append_number(column: array[int], number: int) -> None:
        """Append to a column of 64 bits."""
        column.append(number)

    def add_one(column: array[int], index: int) -> None:
        """Count one more, in a column of 32 bits."""
        column[index] += 1


if TYPE_CHECKING:
    from mainstem.storage.local.frame import DataHead, RefHead

OWN, SHARED, DEAD = 0, 1, 2
"""Kinds of parts: copied for this log alone; a block that others may have too; left out."""
_SPREAD = 2654435769
"""2**32 divided by the golden ratio: multiples of it, modulo 2**32, are spread evenly."""


class LogEntries:
    """Columns over the units of one log, by offset."""

    __slots__ = ("firsts", "foreign", "nexts", "sizes", "units")

    def __init__(self) -> None:
        self.firsts: array[int] = array("q")
        self.nexts: array[int] = array("q")
        self.sizes: array[int] = array("I")
        self.units: array[int] = array("I")
        """Numbers of the units; equal where the stored bytes are the same."""
        self.foreign: array[int] = array("I")
        """1 where the stored base offsets are not those of this log."""


def find_sources(data: DataHead, refs: RefHead, first: int, sources: array[int]) -> int:
    """Append which batch each reference of a group names, counted from `first`; answers the first one that names none, or -1."""
    # What was read from a file is in arrays.
    logs, bases, _, sizes, counts, crcs, _ = cast("list[array[int]]", data)
    _, _, _, ref_logs, ref_bases, ref_sizes, ref_counts, ref_crcs = cast("list[array[int]]", refs)
    places = {(logs[index], bases[index]): index for index in range(len(logs))}
    at = -1
    for index in range(len(ref_logs)):
        # The references to one batch follow each other.
        if (
            index == 0
            or number_at(ref_logs, index) != number_at(ref_logs, index - 1)
            or number_at(ref_bases, index) != number_at(ref_bases, index - 1)
        ):
            at = places.get((ref_logs[index], ref_bases[index]), -1)
        if (
            at < 0
            or small_number_at(sizes, at) != small_number_at(ref_sizes, index)
            or small_number_at(counts, at) != small_number_at(ref_counts, index)
            or small_number_at(crcs, at) != small_number_at(ref_crcs, index)
        ):
            return index
        append_small(sources, first + at)
    return -1


def take_batches(
    entries: LogEntries,
    bases: array[int],
    counts: array[int],
    sizes: array[int],
    own: array[int],
    refs: array[int],
    ref_bases: array[int],
    ref_sources: array[int],
    first_unit: int,
) -> bool:
    """Append what a log has of one file: its own batches and its references, by offset. Answers whether they do not overlap."""
    at = ref_at = 0
    own_count, ref_count = len(own), len(refs)
    covered = entries.nexts[-1] if len(entries.nexts) else 0
    while at < own_count or ref_at < ref_count:
        batch = small_number_at(own, at) if at < own_count else 0
        ref = small_number_at(refs, ref_at) if ref_at < ref_count else 0
        if at < own_count and (ref_at == ref_count or number_at(bases, batch) < number_at(ref_bases, ref)):
            base = number_at(bases, batch)
            at += 1
        else:
            base = number_at(ref_bases, ref)
            batch = small_number_at(ref_sources, ref)
            ref_at += 1
        if base < covered:
            return False
        covered = base + small_number_at(counts, batch)
        append_number(entries.firsts, base)
        append_number(entries.nexts, covered)
        append_small(entries.sizes, small_number_at(sizes, batch))
        append_small(entries.units, first_unit + batch)
        append_small(entries.foreign, 1 if base != number_at(bases, batch) else 0)
    return True


def add_takers(entries: LogEntries, start: int, takers: array[int]) -> None:
    """Count this log among those that need a unit, for each that reaches its start."""
    units, nexts = entries.units, entries.nexts
    for at in range(len(units)):
        if number_at(nexts, at) > start:
            add_one(takers, small_number_at(units, at))


def cut(entries: LogEntries, start: int, takers: array[int], block_bytes: int, shared_min: int) -> array[int]:
    """Parts of a log, in pairs: where each ends, and its kind. Less than `shared_min`, among the log's own, is not shared.

    Logs share a block if they have the same units in it, so where a block ends must not depend on where a log begins. It ends at
    a *seam*: a unit whose number says so. The larger units are, the more of them are seams, so that blocks have half of
    `block_bytes` on average. Units below the start stay in a block that reaches it, because other logs need them.
    """
    firsts, nexts, sizes, units = entries.firsts, entries.nexts, entries.sizes, entries.units
    count = len(units)
    parts = array("I")
    seam_bytes, spread = block_bytes // 2, _SPREAD
    at = 0
    while at < count:
        stop = at
        total = 0
        while (
            stop < count
            and small_number_at(takers, small_number_at(units, stop)) > 1
            and (stop == at or number_at(firsts, stop) == number_at(nexts, stop - 1))
        ):
            total += small_number_at(sizes, stop)
            stop += 1
        if stop == at or (total < shared_min and stop - at < count):
            stop = max(stop, at + 1)
            for index in range(at, stop):
                _add_part(parts, index + 1, OWN if number_at(nexts, index) > start else DEAD)
            at = stop
            continue
        total = 0
        for index in range(at, stop):
            size = small_number_at(sizes, index)
            total += size
            unit = small_number_at(units, index)
            is_seam = ((unit + 1) * spread & 0xFFFFFFFF) * seam_bytes < size << 32
            if is_seam or index + 1 == stop or total + small_number_at(sizes, index + 1) > block_bytes:
                append_small(parts, index + 1)
                append_small(parts, SHARED if number_at(nexts, index) > start else DEAD)
                total = 0
        at = stop
    return parts


def _add_part(parts: array[int], stop: int, kind: int) -> None:
    """One more unit of a kind that is not shared: it belongs to the part before it where that is of the same kind."""
    count = len(parts)
    if count and parts[count - 1] == kind:
        parts[count - 2] = stop
    else:
        append_small(parts, stop)
        append_small(parts, kind)
