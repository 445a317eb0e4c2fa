"""Reading batches: from the cache at once, from files by the reading threads, verified before anybody sees them."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias, TypeVar, cast

from mainstem.model.errors import CorruptData, OffsetOutOfRange, UnknownLog
from mainstem.storage.answer import Answer
from mainstem.storage.contract import (
    Buffer,
    Edge,
    Found,
    KeyAfter,
    Place,
    ReadHint,
    ReadResult,
    TimeAfter,
)
from mainstem.storage.local.limits import ReadLimits
from mainstem.storage.local.read.buffers import ReadBuffers
from mainstem.storage.local.read.file_set import FileSet, Stretch
from mainstem.storage.local.read.reads_ahead import READS_AHEAD, Content, Reading, ReadsAhead
from mainstem.storage.local.read.tail import TailCache
from mainstem.storage.local.runs.key_index import key_hash
from mainstem.storage.local.runs.run_blocks import UNPLACED, place_batches, read_blocks
from mainstem.storage.local.runs.stored_file import RunFile
from mainstem.storage.local.wal.stored_batches import ANY_BASE, bad_batch
from mainstem.storage.record_search import NOT_FOUND, find_edge, find_key, find_newest, find_time
from mainstem.storage.runtime.runtime import Done, Runtime
from mainstem.storage.sequencer.log_state import LogState

J = TypeVar("J")
R = TypeVar("R")
ReadLane: TypeAlias = Callable[[Callable[[], Any], Done[Any]], None]

_START = struct.Struct(">qiibI")
_BASE = struct.Struct(">q")
_DELTA_AT = 23
_DELTA = struct.Struct(">i")


class Reader:
    """Reads of one engine."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        visible: Mapping[int, LogState],
        files: FileSet,
        cache: TailCache,
        read_bytes_max: int,
        limits: ReadLimits,
    ) -> None:
        self._runtime = runtime
        self._visible = visible
        self._read_bytes_max = read_bytes_max
        self._stretches_max = limits.stretches_per_read_max
        self._step_bytes = limits.step_bytes
        self._files = files
        self._cache = cache
        self._buffers = ReadBuffers()
        self._ahead = ReadsAhead()

    def read(self, log: int, offset: int, max_bytes: int, hint: ReadHint = ReadHint.TAIL) -> Answer[ReadResult]:
        """Batches from `offset` on, as the contract says."""
        state = self._visible.get(log)
        if state is None:
            return Answer.failed(UnknownLog(f"log {log}"))
        start, end = state.visible_start, state.end
        if not start <= offset <= end:
            return Answer.failed(OffsetOutOfRange(offset, start, end))
        if offset == end or max_bytes <= 0:
            return Answer.of(_result(state, [], offset, offset))
        tail = state.tail
        if tail is not None and len(tail) and offset >= tail.first:
            cached = self._read_cached(state, offset, max_bytes)
            if cached is not None:
                return Answer.of(cached)
        return self._read_files(state, offset, max_bytes, hint)

    def _read_cached(self, state: LogState, offset: int, max_bytes: int) -> ReadResult | None:
        tail = state.tail
        assert tail is not None
        refs = tail.refs
        index = first = tail.index_of(offset)
        count = len(tail)
        taken: list[Buffer] = []
        total = 0
        while index < count:
            base, place, size, _ = tail.row(index)
            found = self._cache.find(place)
            if found is None or (taken and total + size > max_bytes):
                break
            start, buffer = found
            if refs is not None and base in refs:
                taken.append(_with_base(memoryview(buffer)[place - start : place - start + size], base))
                total += size
                index += 1
                continue
            # Batches that lie side by side are one stretch: one slice for all of them.
            limit = min(place + max(max_bytes - total, size), start + len(buffer))
            end, index = tail.side_by_side(index, limit)
            taken.append(memoryview(buffer)[place - start : end - start])
            total += end - place
        if index == first:
            return None
        return _result(state, taken, offset, tail.row(index)[0] if index < count else state.end)

    def _read_files(self, state: LogState, offset: int, max_bytes: int, hint: ReadHint) -> Answer[ReadResult]:
        limit = min(max_bytes, self._read_bytes_max)
        reading = self._ahead.take(state.log, offset, limit)
        # One that comes where it was expected will go on; one that begins may not.
        reads_ahead = READS_AHEAD if reading is not None else 1
        if reading is None:
            reading = self._begin(state, offset, limit, self._runtime.read)
        if reading is None:
            # Nothing is left between here and the end: compaction has removed it.
            return Answer.of(_result(state, [], offset, state.end))
        answer: Answer[ReadResult] = Answer()

        def finish(content: Answer[Content]) -> None:
            if content.error is not None:
                answer.fail(content.error)
                return
            batches, next_offset = content.result()
            answer.resolve(_result(state, batches, offset, next_offset))

        reading.content.on_done(finish)
        if hint is ReadHint.CATCH_UP:
            self._read_ahead(state, reading, reads_ahead)
        return answer

    def _read_ahead(self, state: LogState, reading: Reading, count: int) -> None:
        """Begin to read what a reader of history will ask for next, before it does."""
        log = state.log
        last: Reading | None = self._ahead.last(log) or reading
        while self._ahead.has_room(log, count) and last is not None and last.next_offset is not None:
            if last.next_offset >= state.end or self._is_cached(state, last.next_offset):
                return
            last = self._begin(state, last.next_offset, reading.limit, self._runtime.read_ahead)
            if last is not None:
                self._ahead.add(log, last)

    def _is_cached(self, state: LogState, offset: int) -> bool:
        tail = state.tail
        if tail is None or not len(tail) or offset < tail.first:
            return False
        _, place, _, _ = tail.row(tail.index_of(offset))
        return self._cache.find(place) is not None

    def _begin(self, state: LogState, offset: int, limit: int, lane: ReadLane) -> Reading | None:
        """Put a read into a lane; None when nothing is stored from the offset on."""
        stretches: list[Stretch] = []
        total = 0
        joined = self._files.stretches(state, offset, min(limit, self._step_bytes))
        for stretch in islice(joined, self._stretches_max):
            taken = stretch
            if stretches and total + stretch.size > limit:
                if (first_blocks := _first_blocks(stretch, limit - total)) is None:
                    break
                taken = first_blocks
            stretches.append(taken)
            total += taken.size
            if taken is not stretch:
                break
        if not stretches:
            return None
        log = state.log

        def job() -> Content:
            return _cut(list(self._read_stretches(stretches, log)), stretches, offset, limit)

        next_offset = stretches[-1].next if total <= limit else None
        return Reading(offset, limit, next_offset, self._run(stretches, job, lambda content: content, lane))

    def offset_at(self, log: int, place: Place) -> Answer[Found]:
        """Find a position, as the contract says."""
        state = self._visible.get(log)
        if state is None:
            return Answer.failed(UnknownLog(f"log {log}"))
        if (edge := find_edge(state, place)) is not None:
            return Answer.of(edge)
        start = state.visible_start
        if isinstance(place, TimeAfter):
            wanted = place.timestamp_ms
            stretches = [s for s in self._files.stretches(state, start) if s.time >= wanted]
            return self._search(state.log, stretches, lambda batches: find_time(batches, wanted, start))
        if isinstance(place, KeyAfter):
            return self._find_key(state, place, start)
        assert place is Edge.NEWEST
        return self._find_newest(state, start)

    def _find_newest(self, state: LogState, start: int) -> Answer[Found]:
        """Stretches from the newest time down: each time is an upper bound, as part of a stretch may lie below the start."""
        log = state.log
        stretches = sorted(self._files.stretches(state, start), key=lambda s: (-s.time, s.first))
        if not stretches:
            return Answer.of(NOT_FOUND)

        def job() -> Found:
            best = NOT_FOUND
            for stretch in stretches:
                if stretch.time <= best.timestamp_ms:
                    break
                found = find_newest(_single_batches(self._read_stretches([stretch], log)), start)
                if found.timestamp_ms > best.timestamp_ms:
                    best = found
            return best

        return self._run(stretches, job, lambda found: found)

    def _find_key(self, state: LogState, place: KeyAfter, start: int) -> Answer[Found]:
        lowest = max(place.offset, start)
        stretches = [
            s for s in self._files.stretches(state, lowest) if place.since_ms is None or s.time >= place.since_ms
        ]
        if not state.config.key_index or not stretches:
            return self._search(state.log, stretches, lambda batches: find_key(batches, place, start))
        log, wanted = state.log, key_hash(place.key)
        parts = [part for part in self._files.view(log) if part.next > lowest]

        def job() -> Found:
            # Runs written before the index was asked for have none: all of theirs stays a candidate.
            indexed: set[int] = set()
            offsets: list[int] = []
            for part in parts:
                if part.run.index.is_key_indexed(log):
                    indexed.add(id(part.run))
                    offsets += part.run.index.key_lookup(part.run.file, log, wanted)
            candidates = [
                s
                for s in stretches
                if id(s.file) not in indexed or any(s.first <= offset < s.next for offset in offsets)
            ]
            return find_key(_single_batches(self._read_stretches(candidates, log)), place, start)

        return self._run(stretches, job, lambda found: found)

    def _search(self, log: int, stretches: list[Stretch], search: Callable[[Iterable[Buffer]], Found]) -> Answer[Found]:
        if not stretches:
            return Answer.of(NOT_FOUND)
        return self._run(
            stretches,
            lambda: search(_single_batches(self._read_stretches(stretches, log))),
            lambda found: found,
        )

    def _read_stretches(self, stretches: Iterable[Stretch], log: int) -> Iterator[Buffer]:
        return read_stretches(stretches, log, self._buffers, self._step_bytes)

    def _run(
        self, stretches: list[Stretch], job: Callable[[], J], finish: Callable[[J], R], lane: ReadLane | None = None
    ) -> Answer[R]:
        """Do a job in a lane, with its files pinned."""
        answer: Answer[R] = Answer()
        pinned = {id(s.file): s.file for s in stretches}
        for file in pinned.values():
            file.pin()

        def done(value: J | None, error: BaseException | None) -> None:
            for file in pinned.values():
                file.unpin()
            if error is not None:
                answer.fail(error)
            else:
                answer.resolve(finish(cast(J, value)))

        (lane or self._runtime.read)(job, done)
        return answer


def _result(state: LogState, batches: list[Buffer], offset: int, next_offset: int) -> ReadResult:
    transactions = state.transactions
    aborted = transactions.aborted_between(offset, next_offset) if transactions and batches else ()
    return ReadResult(batches, state.visible_start, state.end, state.stable, next_offset, aborted, state.bytes)


def _with_base(batch: Buffer, base: int) -> bytearray:
    copy = bytearray(batch)
    _BASE.pack_into(copy, 0, base)
    return copy


def _first_blocks(stretch: Stretch, bytes_max: int) -> Stretch | None:
    """As many blocks of it as there is room for; None where there is none for the first."""
    if stretch.blocks is None:
        return None
    run = stretch.file
    assert isinstance(run, RunFile)
    size = 0
    for block in stretch.blocks:
        if size + run.index.block_sizes[block] > bytes_max:
            break
        size += run.index.block_sizes[block]
    else:
        return stretch
    if not size:
        return None
    return stretch._replace(next=run.index.block_nexts[block - 1], size=size, blocks=range(stretch.blocks.start, block))


def read_stretches(stretches: Iterable[Stretch], log: int, buffers: ReadBuffers, step_bytes: int) -> Iterator[Buffer]:
    """The bytes of stretches, verified; few buffers for many of them. Blocks, in a reading thread."""
    part: list[Stretch] = []
    size = 0
    for stretch in stretches:
        is_other = bool(part) and (stretch.blocks is None) != (part[-1].blocks is None)
        if part and (is_other or size + stretch.size > step_bytes):
            yield from _read_part(part, size, log, buffers)
            part, size = [], 0
        part.append(stretch)
        size += stretch.size
    if part:
        yield from _read_part(part, size, log, buffers)


def _go_together(stretch: Stretch, following: Stretch) -> bool:
    """Whether they lie one behind the other, in a file or in the index of a run: those are one read."""
    if following.file is not stretch.file:
        return False
    if stretch.blocks is None or following.blocks is None:
        return following.position == stretch.position + stretch.size
    return stretch.blocks.stop == following.blocks.start


def _read_part(part: list[Stretch], size: int, log: int, buffers: ReadBuffers) -> Iterator[Buffer]:
    """Stretches of one kind, into one buffer."""
    view = buffers.take(size, part[0].position)
    at = first = 0
    for index, stretch in enumerate(part):
        if index + 1 == len(part) or not _go_together(stretch, part[index + 1]):
            size = sum(other.size for other in part[first : index + 1])
            (_read_batches if stretch.blocks is None else _read_blocks)(view[at : at + size], part[first], stretch, log)
            at += size
            first = index + 1
    # Nobody may write into what others read too: a buffer of many batches is shared by all of them.
    view = view.toreadonly()
    if part[0].blocks is None:
        yield from _checked_batches(part, view, log)
    else:
        yield view


def _read_batches(view: memoryview, first: Stretch, last: Stretch, log: int) -> None:
    file = first.file.file
    count = file.read_into(view, first.position)
    if count != len(view):
        raise CorruptData(file.path, first.position, f"{len(view)} bytes must be here, {count} are", (log,))


def _checked_batches(part: list[Stretch], view: memoryview, log: int) -> Iterator[Buffer]:
    patched = any(stretch.base >= 0 for stretch in part)
    sizes = array("I", [stretch.size for stretch in part])
    bases = array("q", [ANY_BASE if stretch.base >= 0 else stretch.first for stretch in part])
    bad = bad_batch(view, sizes, bases)
    if bad >= 0:
        path, position = part[bad].file.file.path, part[bad].position
        raise CorruptData(path, position, "batch does not match its checksum or place", (log,))
    if not patched:
        yield view
        return
    at = 0
    for stretch in part:
        batch = view[at : at + stretch.size]
        at += stretch.size
        yield _with_base(batch, stretch.base) if stretch.base >= 0 else batch


def _read_blocks(view: memoryview, first: Stretch, last: Stretch, log: int) -> None:
    run = first.file
    assert isinstance(run, RunFile)
    assert first.blocks is not None
    assert last.blocks is not None
    index = run.index
    positions, sizes, crcs = index.block_positions, index.block_sizes, index.block_crcs
    blocks = range(first.blocks.start, last.blocks.stop)
    bad = read_blocks(run.file, view, positions, sizes, crcs, blocks.start, blocks.stop)
    if bad >= 0:
        position = run.index.block_positions[bad]
        raise CorruptData(run.file.path, position, "block checksum does not match", (log,))
    if index.foreign_blocks(blocks.start, blocks.stop):
        _place_foreign(view, run, blocks, log)


def _place_foreign(view: memoryview, run: RunFile, blocks: range, log: int) -> None:
    """Write the log's own offsets into those of the blocks that hold another log's."""
    index = run.index
    at = 0
    for block in blocks:
        size = index.block_sizes[block]
        if index.block_foreign[block]:
            next_ = place_batches(view[at : at + size], index.block_firsts[block])
            if next_ != index.block_nexts[block]:
                raise CorruptData(run.file.path, index.block_positions[block], UNPLACED, (log,))
        at += size


def _single_batches(buffers: Iterable[Buffer]) -> Iterator[Buffer]:
    for buffer in buffers:
        view = memoryview(buffer)
        at = 0
        while at < len(view):
            size = _START.unpack_from(view, at)[1] + 12
            yield view[at : at + size]
            at += size


def _cut(buffers: list[Buffer], stretches: list[Stretch], offset: int, limit: int) -> tuple[list[Buffer], int]:
    """Drop batches below the offset, and those beyond the limit where a single stretch is larger than it."""
    if stretches[0].first < offset:
        view = memoryview(buffers[0])
        at = 0
        while True:
            base, length, *_ = _START.unpack_from(view, at)
            if base + _DELTA.unpack_from(view, at + _DELTA_AT)[0] >= offset:
                break
            at += length + 12
        buffers[0] = view[at:]
    if len(stretches) > 1 or len(buffers[0]) <= limit:
        return buffers, stretches[-1].next
    view = memoryview(buffers[0])
    at = 0
    next_offset = offset
    while at < len(view):
        base, length, *_ = _START.unpack_from(view, at)
        size = length + 12
        if at and at + size > limit:
            break
        next_offset = base + _DELTA.unpack_from(view, at + _DELTA_AT)[0] + 1
        at += size
    return [view[:at]], next_offset
