"""Whatever is damaged is named by file and position; whatever is not, is not."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from crc32c import crc32c

from mainstem.model.errors import CorruptData
from mainstem.storage.local.directories import Directories, DirectoryLock
from mainstem.storage.local.frame import FILE_MAGIC, SECTOR_BYTES, FileHeader, decode_file_header, encode_file_header
from mainstem.storage.local.inspection.finding import Finding
from mainstem.storage.local.inspection.presence import broker_process
from mainstem.storage.local.inspection.survey import LiveRun, Survey
from mainstem.storage.local.inspection.verify.checked import Checked
from mainstem.storage.local.inspection.verify.verification import verify
from mainstem.storage.local.inspection.wal_scan import WalScan
from mainstem.storage.local.recovery import Recovery
from mainstem.storage.local.runs.run_file import TRAILER_BYTES, RunIndex
from mainstem.storage.runtime.disk import DiskFile, LocalDisk
from mainstem.testing.disk import SimulatedDisk
from tests.support.storage.inspected_directory import FAN_OUT, LARGE, InspectedDirectory
from tests.support.storage.simulated_node import Node, groups_in

FLIPS_PER_FILE = 12
WAL = "data/wal/0000000000000001.wal"


class ReadOnlyDisk(LocalDisk):
    """Fails a test that would change anything."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> DiskFile:  # type: ignore[override]
        assert not create
        assert not writable
        return super().open(path, writable=False)

    def make_directory(self, path: str) -> None:
        raise AssertionError(path)

    rename = remove = sync_directory = make_directory  # type: ignore[assignment]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> InspectedDirectory:
    return InspectedDirectory(tmp_path_factory.mktemp("inspected") / "data").build()


def findings_in(directory: InspectedDirectory, *, moving: bool = False) -> list[Finding]:
    return list(verify(ReadOnlyDisk(), Directories(directory.settings), Checked(), moving=moving))


def troubles_in(directory: InspectedDirectory) -> list[Finding]:
    return [finding for finding in findings_in(directory) if finding.is_trouble]


def survey_of(directory: InspectedDirectory) -> Survey:
    return Survey(ReadOnlyDisk(), Directories(directory.settings)).run()


def index_of(run: LiveRun) -> RunIndex:
    file = ReadOnlyDisk().open(run.path, writable=False)
    try:
        return RunIndex.load(file)
    finally:
        file.close()


@contextlib.contextmanager
def changed(path: Path, content: bytes | None) -> Iterator[None]:
    """Another content, or none, for a while."""
    original = path.read_bytes() if path.exists() else None
    try:
        path.unlink() if content is None else path.write_bytes(content)
        yield
    finally:
        path.unlink(missing_ok=True) if original is None else path.write_bytes(original)


def flipped(path: Path, position: int) -> bytes:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << position % 8
    return bytes(content)


def frames_of(path: Path) -> list[range]:
    """Where the frames of a file lie."""
    content = memoryview(path.read_bytes())
    header = decode_file_header(bytes(content[:SECTOR_BYTES]), str(path))
    assert header is not None
    groups = WalScan(content, header, None).groups()
    return [range(frame.position, frame.end) for group in groups for frame in group.frames]


def test_a_whole_directory_is_clean_and_stays_as_it_is(directory: InspectedDirectory) -> None:
    before = {path: path.stat() for path in directory.root.rglob("*")}
    checked = Checked()
    found = list(verify(ReadOnlyDisk(), Directories(directory.settings), checked, moving=False))
    assert found == []
    assert (
        min(checked.files, checked.groups, checked.batches, checked.blocks, checked.key_tables, checked.state_items) > 0
    )
    after = {path: path.stat() for path in directory.root.rglob("*")}
    assert {path: (s.st_mtime_ns, s.st_size, s.st_ino) for path, s in before.items()} == {
        path: (s.st_mtime_ns, s.st_size, s.st_ino) for path, s in after.items()
    }


def test_damage_to_a_shared_block_names_all_its_logs_at_once(directory: InspectedDirectory) -> None:
    run = next(run for run in survey_of(directory).runs if index_of(run).is_shared)
    index = index_of(run)
    block = index.blocks(index.find(FAN_OUT[1])).start
    assert list(index.block_positions).count(index.block_positions[block]) == len(FAN_OUT)
    path = Path(run.path)
    with changed(path, flipped(path, index.block_positions[block] + 70)):
        (found,) = troubles_in(directory)
    assert set(found.logs) == set(FAN_OUT)


def test_it_has_something_of_every_kind(directory: InspectedDirectory) -> None:
    survey = survey_of(directory)
    adopted = [run for run in survey.runs if run.entry.adopted is not None]
    assert adopted
    assert len(survey.runs) > len(adopted)
    shared = [index for index in map(index_of, survey.runs) if index.is_shared]
    assert any(any(index.block_foreign) for index in shared)
    assert survey.wal
    assert survey.state_runs
    assert survey.spares


def test_a_flip_in_a_run_is_found(directory: InspectedDirectory) -> None:
    rng = Random(1)
    for run in survey_of(directory).runs:
        path = Path(run.path)
        content = path.read_bytes()
        footer = int.from_bytes(content[-TRAILER_BYTES:][:8], "little")
        size = len(content)
        places = [0, 20, SECTOR_BYTES + 3, footer, footer + 30, size - TRAILER_BYTES, size - 1, size - 20]
        adopted = content[:4] == FILE_MAGIC
        # What fills up a sector has no checksum.
        frames = frames_of(path) if adopted else [range(SECTOR_BYTES, footer - 8)]
        places += rng.sample([place for frame in frames for place in frame], FLIPS_PER_FILE)
        for position in places:
            with changed(path, flipped(path, position)):
                found = troubles_in(directory)
            assert {finding.file for finding in found} == {run.path}, position
            assert found[0].position <= position or position < SECTOR_BYTES, (found, position)
            if SECTOR_BYTES <= position < footer and not adopted and "key table" not in found[0].what:
                assert len(found) == 1
                assert len(found[0].logs) == 1 or found[0].logs == tuple(FAN_OUT)
                assert position - found[0].position < 4096 or found[0].logs == (LARGE,)


def test_a_flip_in_a_state_run_is_found(directory: InspectedDirectory) -> None:
    rng = Random(2)
    for name in survey_of(directory).state_runs:
        path = Path(name)
        size = path.stat().st_size
        for position in {0, 5, 30, size - 1, *(rng.randrange(size) for _ in range(FLIPS_PER_FILE))}:
            with changed(path, flipped(path, position)):
                found = troubles_in(directory)
            assert name in {finding.file for finding in found}, position
            (own,) = (finding for finding in found if finding.file == name)
            assert own.position <= position + 8


def test_a_flip_in_a_group_is_found(directory: InspectedDirectory) -> None:
    rng = Random(3)
    (part,) = survey_of(directory).wal
    path = Path(part.path)
    proven = frames_of(path)[:-1]  # an empty group, which only says that the one before it is durable, comes last
    for position in rng.sample([place for frame in proven for place in frame], FLIPS_PER_FILE * 2):
        with changed(path, flipped(path, position)):
            found = troubles_in(directory)
        assert found[0].file == part.path
        assert SECTOR_BYTES <= found[0].position <= position


def test_a_flip_in_the_header_of_a_file_is_found(directory: InspectedDirectory) -> None:
    (part,) = survey_of(directory).wal
    path = Path(part.path)
    for position in range(0, 60, 3):
        with changed(path, flipped(path, position)):
            found = troubles_in(directory)
        assert (found[0].file, found[0].position) == (part.path, 0), position


def test_a_damaged_identity_is_found(directory: InspectedDirectory) -> None:
    path = directory.root / "identity"
    with changed(path, b"{"):
        assert [finding.file for finding in troubles_in(directory)] == [str(path)]
    with changed(path, b'{"format": 9, "node": ""}'):
        (finding,) = troubles_in(directory)
        assert finding.severity == "unsupported"
        assert "format 9" in finding.what


def test_newer_versions_are_named(directory: InspectedDirectory) -> None:
    survey = survey_of(directory)
    wal, run, state = Path(survey.wal[0].path), Path(survey.runs[0].path), Path(survey.state_runs[0])

    def with_version(content: bytes, first: int, last: int, at: int) -> bytes:
        bare = bytearray(content[first:last])
        bare[at : at + 2] = (9).to_bytes(2, "little")
        return content[:first] + bytes(bare) + crc32c(bytes(bare)).to_bytes(4, "little") + content[last + 4 :]

    trailer = run.stat().st_size - TRAILER_BYTES
    for path, newer in (
        (wal, with_version(wal.read_bytes(), 0, 56, 4)),
        (state, with_version(state.read_bytes(), 0, 32, 4)),
        (run, with_version(run.read_bytes(), trailer, trailer + 52, 44)),
    ):
        with changed(path, newer):
            found = [finding for finding in troubles_in(directory) if finding.severity == "unsupported"]
        assert [finding.file for finding in found] == [str(path)]
        assert "version 9" in found[0].what


def test_missing_files_are_named(directory: InspectedDirectory) -> None:
    survey = survey_of(directory)
    run = Path(survey.runs[0].path)
    with changed(run, None):
        assert [(finding.file, finding.what) for finding in troubles_in(directory)] == [(str(run), "run is missing")]
    with changed(Path(survey.state_runs[0]), None):
        assert any("is missing" in finding.what for finding in troubles_in(directory))
    with changed(Path(survey.wal[0].path), None):
        assert troubles_in(directory)


def test_what_nobody_needs_is_a_note(directory: InspectedDirectory) -> None:
    root = directory.root
    run = Path(survey_of(directory).runs[0].path)
    strays = {
        root / "runs" / "00000000000000ff.run": run.read_bytes(),
        root / "runs" / "0000000000000001.run.tmp": b"",
        root / "state" / "0000000000000001-0000000000000001.state": b"",
        root / "wal" / "notes.txt": b"",
        root / "core": b"",
    }
    with contextlib.ExitStack() as stack:
        for path, content in strays.items():
            stack.enter_context(changed(path, content))
        found = findings_in(directory)
    assert {finding.severity for finding in found} == {"note"}
    assert {finding.file for finding in found} == {str(path) for path in strays}


def test_a_copy_is_read_by_itself(directory: InspectedDirectory, tmp_path: Path) -> None:
    """State names directories by their place below the data directory, so that this can be copied and moved."""
    original = directory.root
    copy = tmp_path / "copy"
    for path in original.rglob("*"):
        target = copy / path.relative_to(original)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            target.write_bytes(path.read_bytes())
    moved = InspectedDirectory(copy)
    assert findings_in(moved) == findings_in(directory)
    run = Path(survey_of(moved).runs[0].path)
    assert run.is_relative_to(copy)
    run.write_bytes(flipped(run, SECTOR_BYTES + 100))
    assert [finding.file for finding in troubles_in(moved)] == [str(run)]


def test_an_index_that_does_not_match_is_found(directory: InspectedDirectory) -> None:
    """Checksums alone do not show that a whole block was put in the place of another."""
    survey = survey_of(directory)
    small = [run for run in survey.runs if run.entry.adopted is None]
    first, second = Path(small[0].path), Path(small[1].path)
    with changed(first, second.read_bytes()):
        found = troubles_in(directory)
    assert str(first) in {finding.file for finding in found}


@pytest.fixture(scope="module")
def synced() -> SimulatedDisk:
    node = Node()
    node.create(1, 2)
    for number in range(4):
        node.append(1, f"text {number}", refer=2, state=True)
    return node.disk


def compare_with_recovery(disk: SimulatedDisk) -> tuple[list[Finding], str | None]:
    """What verify finds; it must find trouble where recovery does, at the same place."""
    settings = Node().settings
    found = list(verify(disk, Directories(settings), Checked(), moving=False))  # type: ignore[arg-type]
    troubles = [finding for finding in found if finding.is_trouble]
    refusal = cut = None
    try:
        cut = Recovery(disk.copy(), Directories(settings), settings.wal_file_bytes).run().cut
    except CorruptData as error:
        refusal = error
    if refusal is not None:
        assert (troubles[0].file, troubles[0].position, troubles[0].logs) == (
            refusal.file,
            refusal.position,
            refusal.logs,
        )
        assert troubles[0].what.startswith(refusal.what)
        return found, None
    assert not troubles
    assert (cut is not None) == any("torn tail" in finding.what for finding in found)
    return found, cut


@pytest.mark.parametrize("group", [-1, -2])
def test_torn_tail_and_corruption_are_told_apart_as_recovery_does(synced: SimulatedDisk, group: int) -> None:
    """The last group is proven by none: a flip in it cannot be told from a write that was cut off."""
    chosen = groups_in(synced, WAL)[group]
    for position in range(chosen.position, chosen.frames[-1].end, 5):
        disk = synced.copy()
        disk.flip(WAL, position, position % 8)
        found, cut = compare_with_recovery(disk)
        assert (
            found or position < chosen.position + 24
        )  # without magic or generation nothing says that a group was here
        assert {finding.is_trouble for finding in found} <= {group != -1}
        assert group == -1 or cut is None


@pytest.mark.parametrize("sectors", [1, 2, 3])
def test_a_group_of_which_sectors_are_missing_is_a_torn_tail(synced: SimulatedDisk, sectors: int) -> None:
    chosen = groups_in(synced, WAL)[-1]
    content = synced.content(WAL)
    disk = synced.copy()
    end = min(chosen.position + sectors * SECTOR_BYTES, chosen.end) - SECTOR_BYTES
    disk.replace(WAL, content[:end] + bytes(len(content) - end))
    found, _ = compare_with_recovery(disk)
    assert all(finding.severity == "note" for finding in found)
    assert bool(found) == (end > chosen.position)


def test_a_needed_file_that_is_missing_is_named_as_recovery_does() -> None:
    node = Node(wal_file_bytes=4096, merge_files_min=100)
    node.create(1)
    for number in range(20):
        node.append(1, f"text {number}", records=20)
    disk = node.disk
    for name in ("0000000000000001", "0000000000000002"):
        without = disk.copy()
        without.remove(f"data/wal/{name}.wal")
        found, _ = compare_with_recovery(without)
        assert any("are missing" in finding.what for finding in found)
    for position in range(0, 3 * SECTOR_BYTES, 25):
        damaged = disk.copy()
        damaged.flip("data/wal/0000000000000002.wal", position)
        compare_with_recovery(damaged)


def test_a_file_that_was_never_begun_is_no_damage(synced: SimulatedDisk) -> None:
    """The node stopped between giving a prepared file its name and writing the header."""
    disk = synced.copy()
    old = encode_file_header(FileHeader(9, 1, 0, bytes(16), 0))
    for content in (bytes(4096), old + bytes(4096)):
        disk.open("data/wal/0000000000000063.wal", create=True).write([content], 0)
        assert not [f for f in compare_with_recovery(disk)[0] if f.is_trouble]
        disk.remove("data/wal/0000000000000063.wal")
    assert decode_file_header(old, "") is not None


def test_damage_beside_a_running_broker_counts_when_seen_twice(directory: InspectedDirectory) -> None:
    run = Path(survey_of(directory).runs[0].path)
    assert findings_in(directory, moving=True) == []
    with changed(run, flipped(run, SECTOR_BYTES + 100)):
        assert [finding.severity for finding in findings_in(directory, moving=True)] == ["damage"]
        findings = verify(HealingDisk(run), Directories(directory.settings), Checked(), moving=True)
        assert [finding.severity for finding in findings] == []


class HealingDisk(LocalDisk):
    """A file that is being written at the first look, and whole at the second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._looks = 0

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> DiskFile:  # type: ignore[override]
        if path == str(self._path):
            self._looks += 1
            if self._looks == 3:  # the inventory looks at its size
                self._path.write_bytes(flipped(self._path, SECTOR_BYTES + 100))
        return super().open(path, writable=writable)


def test_a_broker_is_seen_without_touching_its_lock(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert broker_process(root) is None
    lock = DirectoryLock(root)
    assert broker_process(root) == os.getpid()
    assert broker_process(root, locks=tmp_path / "none") == os.getpid()
    lock.release()
    if Path("/proc/locks").exists():
        assert broker_process(root) is None
    (tmp_path / "LOCK").write_text("999999999")
    assert broker_process(root, locks=tmp_path / "none") is None
