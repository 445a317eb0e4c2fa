"""What is on disk, as memory: state runs, runs, and what follows on them in the write-ahead log.

Recovery decides once whether a bad group is a torn tail or corruption (docs/storage-format.md). It changes nothing on disk but
leftovers: unfinished files and runs nobody names.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from operator import itemgetter

from mainstem.model.errors import CorruptData
from mainstem.storage.local.directories import TEMPORARY_SUFFIX, Directories
from mainstem.storage.local.frame import (
    SECTOR_BYTES,
    FileHeader,
    decode_file_header,
    frame_began,
)
from mainstem.storage.local.read.tail import place_of, replay_places
from mainstem.storage.local.runs.run_file import RunIndex
from mainstem.storage.local.runs.state_run import read_state_run
from mainstem.storage.local.runs.stored_file import WAL_SUFFIX, RunFile, WalFile, run_name, wal_name
from mainstem.storage.local.wal.stored_group import BadGroup, StoredGroup, decode_group, frames_after
from mainstem.storage.runtime.disk import Disk, DiskFile
from mainstem.storage.sequencer import engine_scopes as scopes
from mainstem.storage.sequencer.entries import FLAG_CONTROL, FLAG_PRODUCER
from mainstem.storage.sequencer.log_tail import LogTail
from mainstem.storage.sequencer.producers import Producer, ProducerTable, decode_producer
from mainstem.wire.record_batch import HEADER

STATE_NAME = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})\.state")
RUN_NAME = re.compile(r"([0-9a-f]{16})\.run")
RUN_IDS_PER_GENERATION_BITS = 24
GENERATION_DIGITS = 16


class Recovered:
    """Everything an engine begins with."""

    def __init__(self) -> None:
        self.scopes: dict[str, dict[bytes, bytes]] = {}
        self.producers: dict[int, ProducerTable] = {}
        self.tails: dict[int, LogTail] = {}
        self.tail_nexts: dict[int, int] = {}
        """Log -> offset after its last batch in the write-ahead log."""
        self.state_runs: list[str] = []
        self.state_to = 0
        """Highest group covered by state runs."""
        self.wal: list[WalFile] = []
        """Files with groups that are not merged yet, oldest first."""
        self.spares: list[str] = []
        self.runs: list[RunFile] = []
        self.next_sequence = 1
        self.next_generation = 1
        self.next_run = 1
        self.cut: str | None = None
        """What was cut off as a torn tail, for the log."""

    @property
    def merged(self) -> int:
        """Highest group whose batches are in runs."""
        value = self.scopes.get(scopes.FILES, {}).get(scopes.MERGED_KEY)
        return 0 if value is None else scopes.decode_number(value)


class Recovery:
    """One pass over the data directory."""

    def __init__(self, disk: Disk, directories: Directories, wal_file_bytes: int, first_generation: int = 1) -> None:
        self._disk = disk
        self._directories = directories
        self._wal_file_bytes = wal_file_bytes
        self._result = Recovered()
        self._result.next_generation = first_generation
        self._retired: list[DiskFile] = []
        """Files of the write-ahead log without anything that is still needed."""
        self._missing: list[tuple[int, CorruptData]] = []
        """Groups up to a number that could not be read, if anybody needs them."""

    def run(self) -> Recovered:
        """Recover, or raise what is wrong with the disk."""
        self._remove_temporaries()
        self._load_state_runs()
        self._scan_wal()
        self._drop_merged()
        self._load_runs()
        self._settle_spares()
        return self._result

    def _remove_temporaries(self) -> None:
        for directory in (*self._directories.runs, self._directories.state):
            for name in self._disk.list(directory):
                if name.endswith(TEMPORARY_SUFFIX):
                    # The merge process of a killed broker may live on for a moment, and rename it under our hands.
                    with contextlib.suppress(FileNotFoundError):
                        self._disk.remove(f"{directory}/{name}")

    # State

    def _load_state_runs(self) -> None:
        # A broker that was killed may have given a run its name, and nobody has synced that: it must not be lost with the next
        # loss of power, when the files that it stands for are used again.
        self._disk.sync_directory(self._directories.state)
        result = self._result
        ranges: dict[int, tuple[int, str]] = {}
        ends: dict[str, int] = {}
        for name in self._disk.list(self._directories.state):
            numbers = STATE_NAME.fullmatch(name)
            if numbers is None:
                continue
            path = f"{self._directories.state}/{name}"
            first, last = int(numbers[1], 16), int(numbers[2], 16)
            ends[path] = last
            if first not in ranges or ranges[first][0] < last:
                ranges[first] = (last, path)
        while (following := ranges.get(result.state_to + 1)) is not None:
            result.state_to, path = following
            result.state_runs.append(path)
            self._apply_state_run(path)
        for path, last in ends.items():
            if last > result.state_to:
                raise CorruptData(path, 0, f"groups from {result.state_to + 1} on, which come before it, are missing")
            if path not in result.state_runs:
                self._disk.remove(path)  # joined into another one

    def _apply_state_run(self, path: str) -> None:
        for scope, key, value in read_state_run(self._disk, path).items:
            if scope == scopes.PRODUCERS:
                self._join_producer(key, value)
            else:
                if scope == scopes.LOGS and value is None:
                    self._result.producers.pop(scopes.decode_log_key(key), None)
                self._mutate(scope, key, value)

    def _join_producer(self, key: bytes, value: bytes | None) -> None:
        log, producer = scopes.decode_pair_key(key)
        table = self._result.producers.setdefault(log, {})
        if value is None:
            table.pop(producer, None)
            return
        newer = decode_producer(value)
        older = table.get(producer)
        table[producer] = newer if older is None else older.join(newer)

    def _mutate(self, scope: str, key: bytes, value: bytes | None) -> None:
        entries = self._result.scopes.setdefault(scope, {})
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value

    # Write-ahead log

    def _scan_wal(self) -> None:
        result = self._result
        files = self._wal_files()
        needed_from = min(result.state_to, result.merged) + 1
        result.next_sequence = needed_from
        started = False
        for index, (header, file) in enumerate(files):
            following = files[index + 1][0] if index + 1 < len(files) else None
            if following is not None and following.first <= needed_from:
                self._retired.append(file)
                continue
            if header.first > result.next_sequence:
                what = f"begins with group {header.first}; groups from {result.next_sequence} on are missing"
                self._missing.append((header.first - 1, CorruptData(file.path, 0, what)))
            elif started and header.first < result.next_sequence:
                raise CorruptData(file.path, 0, f"begins with group {header.first}, not {result.next_sequence}")
            started = True
            result.next_sequence = header.first
            self._scan_file(header, file, following)
        # Only now is it known how far data was merged: a group that nobody needs may be missing.
        for last, corrupt in self._missing:
            if last > min(result.state_to, result.merged):
                raise corrupt
        if result.next_sequence <= result.state_to:
            what = f"ends with group {result.next_sequence - 1}; groups up to {result.state_to} must be there"
            raise CorruptData(self._directories.wal, 0, what)

    def _wal_files(self) -> list[tuple[FileHeader, DiskFile]]:
        directory = self._directories.wal
        files: list[tuple[FileHeader, DiskFile]] = []
        for name in self._disk.list(directory):
            if not name.endswith(WAL_SUFFIX):
                continue
            file = self._disk.open(f"{directory}/{name}")
            header = decode_file_header(file.read(SECTOR_BYTES, 0), file.path)
            # Frames of a generation may lie in a file that lost its name for it: no generation is ever used again.
            if header is not None:
                self._result.next_generation = max(self._result.next_generation, header.generation + 1)
            # Another generation than the name says: the file was about to be used again when the node stopped.
            if header is not None and name == wal_name(header.generation):
                files.append((header, file))
                continue
            if header is None:
                self._check_headless(file, name)
            self._retired.append(file)
        files.sort(key=lambda entry: entry[0].generation)
        return files

    def _check_headless(self, file: DiskFile, name: str) -> None:
        """A header is durable before the first group of its file: groups without one are damage, if anybody needs them."""
        generation = name.removesuffix(WAL_SUFFIX)
        if len(generation) != GENERATION_DIGITS:
            return  # prepared, never used
        content = memoryview(file.read(file.size(), 0))
        frames = list(frames_after(content, SECTOR_BYTES, int(generation, 16)))
        if frames:
            last = max(frame.sequence for frame in frames)
            self._missing.append((last, CorruptData(file.path, 0, "file header does not match its checksum")))

    def _settle_spares(self) -> None:
        """Keep what can be used again, remove the rest; only now is it known which files became runs."""
        for file in self._retired:
            path = file.path
            reusable = file.size() >= self._wal_file_bytes
            file.close()
            if not self._disk.exists(path):
                continue
            if reusable:
                self._result.spares.append(path)
            else:
                self._disk.remove(path)

    def _scan_file(self, header: FileHeader, file: DiskFile, following: FileHeader | None) -> None:
        result = self._result
        content = memoryview(file.read(file.size(), 0))
        wal_file = WalFile(file, header.generation, header.first, header.first - 1, SECTOR_BYTES)
        unproven: list[StoredGroup] = []
        for group in self._groups(content, header, following, file.path):
            self._replay(group, content, header.generation)
            unproven = [earlier for earlier in unproven if earlier.sequence > group.proven]
            unproven.append(group)
            wal_file.last = group.sequence
            wal_file.end = group.end
            result.next_sequence = group.sequence + 1
        # What survived a killed process may still be in memory only, and after a failed sync the system takes it for
        # written: what nothing proves is written once more. From now on it is shown to readers.
        if following is None:
            for group in unproven:
                file.write([content[group.position : group.end]], group.position)
        file.sync()
        if wal_file.last < wal_file.first:
            self._retired.append(file)
        else:
            result.wal.append(wal_file)

    def _groups(
        self, content: memoryview, header: FileHeader, following: FileHeader | None, path: str
    ) -> Iterator[StoredGroup]:
        position, sequence = SECTOR_BYTES, header.first
        while following is None or sequence < following.first:
            try:
                group = decode_group(content, position, header.generation, sequence)
            except BadGroup as bad:
                if following is not None:
                    self._missing.append((following.first - 1, CorruptData(path, bad.position, bad.what, bad.logs)))
                    return
                proven = max(header.proven, _proven_after(content, position, header.generation))
                if proven >= sequence:
                    raise CorruptData(
                        path, bad.position, f"{bad.what} (group {sequence}, proven {proven})", bad.logs
                    ) from bad
                if frame_began(content, position, header.generation):
                    self._result.cut = f"{path} after group {sequence - 1} at {position}: {bad.what}"
                return
            yield group
            position, sequence = group.end, sequence + 1

    def _replay(self, group: StoredGroup, content: memoryview, generation: int) -> None:
        result = self._result
        if group.sequence > result.state_to:
            for scope, key, value in group.state:
                if scope == scopes.LOGS and value is None:
                    result.producers.pop(scopes.decode_log_key(key), None)
                self._mutate(scope, key, value)
            self._replay_producers(group, content)
        if group.sequence > result.merged:
            self._replay_places(group, generation)

    def _replay_places(self, group: StoredGroup, generation: int) -> None:
        if group.refs is not None:
            self._replay_with_refs(group, generation)
            return
        if group.data is None:
            return
        place = place_of(generation, group.data_position)
        replay_places(self._result.tails, self._result.tail_nexts, group.data, place)

    def _replay_with_refs(self, group: StoredGroup, generation: int) -> None:
        """A log may have batches and references in one group: both in the order of their offsets."""
        assert group.refs is not None
        assert group.data is not None
        place = place_of(generation, group.data_position)
        places: dict[tuple[int, int], int] = {}
        found: list[tuple[int, int, int, int, int, int, bool]] = []
        logs, bases, times, sizes, counts, _, _ = group.data
        for log, base, time, size, count in zip(logs, bases, times, sizes, counts, strict=True):
            places[log, base] = place
            found.append((base, log, place, size, time, count, False))
            place += size
        logs, bases, times, sources, source_bases, sizes, counts, _ = group.refs
        for log, base, time, source, source_base, size, count in zip(
            logs, bases, times, sources, source_bases, sizes, counts, strict=True
        ):
            found.append((base, log, places[source, source_base], size, time, count, True))
        found.sort(key=itemgetter(0))
        for base, log, place, size, time, count, is_ref in found:
            tail = self._result.tails.setdefault(log, LogTail())
            (tail.append_ref if is_ref else tail.append)(base, place, size, time)
            self._result.tail_nexts[log] = base + count

    def _replay_producers(self, group: StoredGroup, content: memoryview) -> None:
        if group.data is None or not any(group.data.flags):
            return
        position = group.data_position
        for log, size, flags in zip(group.data.logs, group.data.sizes, group.data.flags, strict=True):
            if flags & FLAG_PRODUCER:
                header = HEADER.unpack_from(content, position)
                producer, epoch, sequence, count = header[9:13]
                table = self._result.producers.setdefault(log, {})
                known = table.get(producer)
                if known is None:
                    known = table[producer] = Producer(epoch)
                if flags & FLAG_CONTROL:
                    known.replay_marker(epoch, group.time_ms)
                else:
                    known.replay(epoch, sequence, count, header[0], group.time_ms)
            position += size

    def _drop_merged(self) -> None:
        """A swap in the middle of what was scanned has moved some of it into runs."""
        result = self._result
        merged = result.merged
        while result.wal and result.wal[0].last <= min(merged, result.state_to):
            self._retired.append(result.wal.pop(0).file)
        first = next((f for f in result.wal if f.last > merged), None)
        place = place_of(first.generation if first else result.next_generation, 0)
        for tail in result.tails.values():
            tail.drop_before(place)

    # Runs

    def _load_runs(self) -> None:
        result = self._result
        entries = {
            scopes.decode_run_key(key): scopes.decode_run_entry(value)
            for key, value in result.scopes.get(scopes.FILES, {}).items()
            if key.startswith(scopes.RUN_PREFIX)
        }
        for run_id, entry in entries.items():
            directory = self._directories.path_of(entry.directory)
            path = f"{directory}/{run_name(run_id)}"
            if not self._disk.exists(path) and entry.adopted is not None:
                self._finish_adoption(entry.adopted, directory, path)
            if not self._disk.exists(path):
                raise CorruptData(path, 0, "run is missing")
            file = self._disk.open(path, writable=False)
            result.runs.append(RunFile(file, RunIndex.load(file), directory, entry.adopted, entry.ages))
        # Ids are new with every start, so that nothing an earlier merge process still writes can meet them.
        result.next_run = max(max(entries, default=0) + 1, result.next_generation << RUN_IDS_PER_GENERATION_BITS)
        for directory in self._directories.runs:
            for name in self._disk.list(directory):
                number = RUN_NAME.fullmatch(name)
                if number and int(number[1], 16) not in entries:
                    self._disk.remove(f"{directory}/{name}")

    def _finish_adoption(self, generation: int, directory: str, path: str) -> None:
        old = f"{self._directories.wal}/{wal_name(generation)}"
        if self._disk.exists(old):
            self._disk.rename(old, path)
            self._disk.sync_directory(directory)
            self._disk.sync_directory(self._directories.wal)


def give_tails_back(recovered: Recovered) -> None:
    """Cut files behind their last group: nobody writes there any more, and on a full disk a start needs the room."""
    for wal_file in recovered.wal:
        if wal_file.file.size() > wal_file.end:
            wal_file.file.truncate(wal_file.end)


def _proven_after(content: memoryview, position: int, generation: int) -> int:
    """The highest number that any good frame from here on calls proven."""
    return max((frame.proven for frame in frames_after(content, position, generation)), default=0)
