"""One look over a data directory: which files are live, what the state says, and what is wrong on the way to knowing it.

It goes the way of recovery (state runs, then the write-ahead log, then the runs that state names) and comes to the same verdicts,
but it changes nothing and does not stop at the first damage.
"""

from __future__ import annotations

from typing import NamedTuple

from mainstem.model.errors import CorruptData, UnsupportedFormat
from mainstem.storage.local.directories import IDENTITY, Directories, load_identity
from mainstem.storage.local.frame import SECTOR_BYTES, FileHeader, decode_file_header
from mainstem.storage.local.inspection.finding import Finding, damage, finding_of, note
from mainstem.storage.local.inspection.inventory import FoundFile, list_files
from mainstem.storage.local.inspection.node_state import NodeState, UndecodableState
from mainstem.storage.local.inspection.wal_scan import WalScan
from mainstem.storage.local.runs.state_run import read_state_run
from mainstem.storage.local.runs.stored_file import run_name, wal_name
from mainstem.storage.local.wal.stored_group import StoredGroup, frames_after
from mainstem.storage.runtime.disk import Disk
from mainstem.storage.sequencer.engine_scopes import RunEntry


class Visitor:
    """Sees what the survey reads. Does nothing unless told otherwise."""

    def take_group(self, path: str, group: StoredGroup) -> None:
        """A good group of the write-ahead log, in order."""

    def take_item(self, scope: str, key: bytes, value: bytes | None) -> None:
        """An item of a live state run, or a mutation that follows on them."""


class WalPart(NamedTuple):
    """A file of the write-ahead log that was read."""

    path: str
    header: FileHeader
    following: int | None
    """First group of the file that comes next."""
    last: int
    """Its last good group."""
    end: int
    """Position after that."""


class LiveRun(NamedTuple):
    """A run that state names, where it was found."""

    id: int
    path: str
    entry: RunEntry


class Survey:
    """What is live. Fill it with `run`, then read its attributes."""

    def __init__(
        self, disk: Disk, directories: Directories, visitor: Visitor | None = None, *, measured: bool = False
    ) -> None:
        self._disk = disk
        self._directories = directories
        self._visitor = visitor or Visitor()
        self.files = list_files(disk, directories)
        self.findings: list[Finding] = []
        self.state = NodeState(measured=measured)
        self.is_state_whole = True
        """Whether state runs and write-ahead log could be read to their end; if not, nobody can say which runs are live."""
        self.state_runs: list[str] = []
        """Live ones, oldest first."""
        self.state_to = 0
        """Highest group covered by state runs."""
        self.wal: list[WalPart] = []
        """Files with groups that somebody needs, oldest first; the newest in any case."""
        self.spares: list[FoundFile] = []
        """Files whose content nobody needs: prepared, merged, or about to be used again."""
        self.runs: list[LiveRun] = []
        """By age."""
        self.leftovers: list[FoundFile] = []
        """Files that a broker removes when it starts."""
        self._missing: list[tuple[int, Finding]] = []
        """What is wrong if any group up to a number is needed."""

    def run(self) -> Survey:
        """Look at everything but the content of runs."""
        self._check_identity()
        self._read_state_runs()
        self._read_wal()
        self._find_runs()
        self._list_others()
        return self

    @property
    def needed(self) -> int:
        """Lowest group that somebody needs."""
        return min(self.state_to, self.state.merged) + 1

    def _of_kind(self, kind: str) -> list[FoundFile]:
        return [file for file in self.files if file.kind == kind]

    def _fail(self, finding: Finding) -> None:
        """Damage to state or to the write-ahead log."""
        self.findings.append(finding)
        self.is_state_whole = False

    def _check_identity(self) -> None:
        path = f"{self._directories.root}/{IDENTITY}"
        if not self._disk.exists(path):
            self.findings.append(note(path, 0, "is missing; a broker makes a new one when it starts"))
            return
        try:
            load_identity(self._disk, self._directories.root, b"")
        except (CorruptData, UnsupportedFormat, OSError) as error:
            self.findings.append(finding_of(error, path))

    # State

    def _read_state_runs(self) -> None:
        ranges: dict[int, FoundFile] = {}
        for file in self._of_kind("state"):
            if file.number not in ranges or ranges[file.number].last < file.last:
                ranges[file.number] = file
        while (following := ranges.get(self.state_to + 1)) is not None:
            self.state_to = following.last
            self.state_runs.append(following.path)
            try:
                self._read_state_run(following)
            except (CorruptData, UnsupportedFormat, OSError) as error:
                self._fail(finding_of(error, following.path))
        for file in self._of_kind("state"):
            if file.path in self.state_runs:
                continue
            self.leftovers.append(file)
            if file.last > self.state_to:
                what = f"begins with group {file.number}; state of the groups from {self.state_to + 1} on is missing"
                self._fail(damage(file.path, 0, what))
            else:
                self.findings.append(
                    note(file.path, 0, "was joined into another one; a broker removes it when it starts")
                )

    def _read_state_run(self, file: FoundFile) -> None:
        run = read_state_run(self._disk, file.path)
        if (run.from_, run.to) != (file.number, file.last):
            raise CorruptData(
                file.path, 0, f"holds the state of groups {run.from_} to {run.to}, not what its name says"
            )
        previous: tuple[str, bytes] = ("", b"")
        for scope, key, value in run.items:
            if (scope, key) <= previous:
                raise CorruptData(file.path, 0, f"{scope} {key.hex()} is not in its order")
            previous = scope, key
            self._take_item(file.path, 0, scope, key, value)

    def _take_item(self, path: str, position: int, scope: str, key: bytes, value: bytes | None) -> None:
        self._visitor.take_item(scope, key, value)
        try:
            self.state.apply(scope, key, value)
        except UndecodableState as error:
            self._fail(damage(path, position, str(error)))

    # Write-ahead log

    def _read_wal(self) -> None:
        headers = self._wal_headers()
        needed_from = next_sequence = self.needed
        started = False
        for index, (header, file) in enumerate(headers):
            following = headers[index + 1][0].first if index + 1 < len(headers) else None
            if following is not None and following <= needed_from:
                self.spares.append(file)
                continue
            if header.first > next_sequence:
                what = f"begins with group {header.first}; groups from {next_sequence} on are missing"
                self._miss(header.first - 1, damage(file.path, 0, what))
            elif started and header.first < next_sequence:
                self._fail(damage(file.path, 0, f"begins with group {header.first}, not {next_sequence}"))
            started = True
            try:
                part = self._read_wal_file(file, header, following)
            except OSError as error:
                self._fail(finding_of(error, file.path))
                continue
            next_sequence = part.last + 1
            self.wal.append(part)
        self._judge_missing(next_sequence)
        self._retire()

    def _wal_headers(self) -> list[tuple[FileHeader, FoundFile]]:
        found: list[tuple[FileHeader, FoundFile]] = []
        for file in self._of_kind("wal"):
            try:
                header = self._wal_header(file)
            except (UnsupportedFormat, OSError) as error:
                self._fail(finding_of(error, file.path))
                continue
            if header is None:
                self.spares.append(file)
            else:
                found.append((header, file))
        found.sort(key=lambda entry: entry[0].generation)
        return found

    def _wal_header(self, file: FoundFile) -> FileHeader | None:
        """None when nothing that counts is in the file."""
        opened = self._disk.open(file.path, writable=False)
        try:
            header = decode_file_header(opened.read(SECTOR_BYTES, 0), file.path)
            if header is None:
                # Prepared, or being begun when the node stopped; but not if a group was ever written under this name.
                content = memoryview(opened.read(opened.size(), 0))
                last = max((frame.sequence for frame in frames_after(content, SECTOR_BYTES, file.number)), default=0)
                if last:
                    self._miss(last, damage(file.path, 0, "file header does not match its checksum"))
                return None
        finally:
            opened.close()
        return header if header.generation == file.number else None

    def _read_wal_file(self, file: FoundFile, header: FileHeader, following: int | None) -> WalPart:
        opened = self._disk.open(file.path, writable=False)
        try:
            scan = WalScan(memoryview(opened.read(opened.size(), 0)), header, following)
        finally:
            opened.close()
        end = SECTOR_BYTES
        for group in scan.groups():
            end = group.end
            self._visitor.take_group(file.path, group)
            if group.sequence > self.state_to:
                for scope, key, value in group.state:
                    self._take_item(file.path, group.position, scope, key, value)
        verdict, position, sequence, what, logs = scan.ending
        if verdict == "broken":
            assert following is not None
            text = f"{what}; groups {sequence} to {following - 1} are missing"
            self._miss(following - 1, damage(file.path, position, text, logs))
        elif verdict == "damaged":
            self._fail(damage(file.path, position, what, logs))
        elif verdict == "torn":
            text = f"torn tail: group {sequence} is not whole ({what}); it was never acknowledged, a broker cuts it off"
            self.findings.append(note(file.path, position, text))
        return WalPart(file.path, header, following, sequence - 1, end)

    def _miss(self, last: int, finding: Finding) -> None:
        if not self._missing or self._missing[-1][0] != last:  # the same gap, seen from its other side
            self._missing.append((last, finding))

    def _judge_missing(self, next_sequence: int) -> None:
        """Only now is it known how far data was merged: a group that nobody needs may be missing."""
        for last, finding in self._missing:
            if last >= self.needed:
                self._fail(finding)
        if next_sequence <= self.state_to:
            what = f"ends with group {next_sequence - 1}; groups up to {self.state_to} must be there"
            self._fail(damage(self._directories.wal, 0, what))

    def _retire(self) -> None:
        by_path = {file.path: file for file in self.files}
        while len(self.wal) > 1 and self.wal[0].last < self.needed:
            self.spares.append(by_path[self.wal.pop(0).path])

    # Runs

    def _find_runs(self) -> None:
        present = {file.number: file.path for file in self._of_kind("run")}
        ours = {directory.rstrip("/") for directory in self._directories.runs}
        elsewhere: set[str] = set()
        for run_id, entry in sorted(self.state.runs.items(), key=lambda item: (item[1].ages, item[0])):
            path = self._find_run(run_id, entry, present)
            if path is None:
                named = f"{self._directories.path_of(entry.directory)}/{run_name(run_id)}"
                self.findings.append(damage(named, 0, "run is missing"))
                continue
            directory = self._directories.path_of(entry.directory).rstrip("/")
            if directory not in ours:
                elsewhere.add(directory)
            self.runs.append(LiveRun(run_id, path, entry))
        for directory in sorted(elsewhere):
            what = "state names runs in this directory, which is not among those given: was the data directory moved?"
            self.findings.append(note(directory, 0, what))

    def _find_run(self, run_id: int, entry: RunEntry, present: dict[int, str]) -> str | None:
        """Where a run lies. The directories given come first, so that a copy is not mistaken for its original."""
        named = f"{self._directories.path_of(entry.directory)}/{run_name(run_id)}"
        found = present.get(run_id)
        if found is not None:
            return found
        if self._disk.exists(named):
            return named
        if entry.adopted is not None:
            old = f"{self._directories.wal}/{wal_name(entry.adopted)}"
            if self._disk.exists(old):
                what = f"is run {run_id:016x}, not moved yet; a broker moves it when it starts"
                self.findings.append(note(old, 0, what))
                self.spares = [file for file in self.spares if file.path != old]
                return old
        return None

    def _list_others(self) -> None:
        live = {run.path for run in self.runs}
        for file in self.files:
            if file.kind == "run" and file.path not in live and self.is_state_whole:
                self.leftovers.append(file)
                self.findings.append(note(file.path, 0, "no state names this run; a broker removes it when it starts"))
            elif file.kind == "spare":
                self.spares.append(file)
            elif file.kind == "temporary":
                self.leftovers.append(file)
                self.findings.append(note(file.path, 0, "unfinished; a broker removes it when it starts"))
            elif file.kind == "unknown":
                self.findings.append(note(file.path, 0, "not a file of ours"))
