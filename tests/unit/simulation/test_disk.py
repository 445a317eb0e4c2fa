"""The simulated disk: what survives, what may not, and what must not."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest

from mainstem.testing.disk import PowerLoss, ProcessKilled, SimulatedDisk, SimulatedFile

SECTOR = 512
CRASHES = 60


def make_disk() -> SimulatedDisk:
    disk = SimulatedDisk(Random(1), mounts=("other",))
    disk.make_directory("data/runs")
    disk.make_directory("other")
    disk.sync_directory("")
    disk.sync_directory("data")
    return disk


def create(disk: SimulatedDisk, path: str, content: bytes = b"") -> SimulatedFile:
    file = disk.open(path, create=True)
    file.write([content], 0)
    file.sync()
    disk.sync_directory(path.rpartition("/")[0])
    return file


def outcomes(build: Callable[[], SimulatedDisk], look: Callable[[SimulatedDisk], object]) -> set[object]:
    """Everything that a power loss can leave of what `build` does."""
    return {look(build().crash(Random(seed))) for seed in range(CRASHES)}


def content_of(path: str) -> Callable[[SimulatedDisk], object]:
    return lambda disk: disk.content(path) if disk.exists(path) else None


def test_what_is_synced_survives() -> None:
    def build() -> SimulatedDisk:
        disk = make_disk()
        create(disk, "data/a", b"x" * 2000)
        return disk

    assert outcomes(build, content_of("data/a")) == {b"x" * 2000}


def test_each_unsynced_sector_is_old_or_new_by_itself() -> None:
    def build() -> SimulatedDisk:
        disk = make_disk()
        create(disk, "data/a", b"-" * 2 * SECTOR).write([b"A" * SECTOR, b"B" * SECTOR], 0)
        return disk

    old = b"-" * SECTOR
    assert outcomes(build, content_of("data/a")) == {
        first + second for first in (old, b"A" * SECTOR) for second in (old, b"B" * SECTOR)
    }


def test_any_version_since_the_last_sync_may_survive() -> None:
    def build() -> SimulatedDisk:
        disk = make_disk()
        file = create(disk, "data/a", b"0" * SECTOR)
        for version in (b"1", b"2", b"3"):
            file.write([version * SECTOR], 0)
        return disk

    assert outcomes(build, lambda disk: disk.content("data/a")[:1]) == {b"0", b"1", b"2", b"3"}


def test_an_unsynced_length_may_be_lost_or_leave_zeros() -> None:
    def build() -> SimulatedDisk:
        disk = make_disk()
        create(disk, "data/a", b"x" * SECTOR).write([b"y" * SECTOR], SECTOR)
        return disk

    x, y = b"x" * SECTOR, b"y" * SECTOR
    assert outcomes(build, content_of("data/a")) == {x, x + y, x + bytes(SECTOR)}


def test_a_cut_may_be_undone() -> None:
    def build() -> SimulatedDisk:
        disk = make_disk()
        create(disk, "data/a", b"x" * 2 * SECTOR).truncate(SECTOR)
        return disk

    assert outcomes(build, content_of("data/a")) >= {b"x" * SECTOR, b"x" * 2 * SECTOR}


def test_a_file_without_a_synced_directory_may_be_missing() -> None:
    def build() -> SimulatedDisk:
        disk = make_disk()
        file = disk.open("data/a", create=True)
        file.write([b"x"], 0)
        file.sync()
        return disk

    assert outcomes(build, content_of("data/a")) == {None, b"x"}


def test_a_rename_leaves_the_old_or_the_new_name() -> None:
    def build() -> SimulatedDisk:
        disk = make_disk()
        create(disk, "data/a", b"a")
        create(disk, "data/b", b"b")
        disk.rename("data/a", "data/b")
        return disk

    def look(disk: SimulatedDisk) -> object:
        return content_of("data/a")(disk), content_of("data/b")(disk)

    assert outcomes(build, look) == {(b"a", b"b"), (None, b"a")}


def test_operations_on_one_name_keep_their_order() -> None:
    """A file that took a name after another had left it never drives that one out of existence."""

    def build() -> SimulatedDisk:
        disk = make_disk()
        create(disk, "data/a", b"old")
        disk.rename("data/a", "data/b")
        file = disk.open("data/a", create=True)
        file.write([b"new"], 0)
        file.sync()
        return disk

    def look(disk: SimulatedDisk) -> object:
        return content_of("data/a")(disk), content_of("data/b")(disk)

    assert outcomes(build, look) == {(b"old", None), (None, b"old"), (b"new", b"old")}


def test_operations_on_different_names_are_kept_or_lost_by_themselves() -> None:
    def build() -> SimulatedDisk:
        disk = make_disk()
        create(disk, "data/a", b"a")
        create(disk, "data/b", b"b")
        disk.remove("data/a")
        disk.remove("data/b")
        return disk

    def look(disk: SimulatedDisk) -> object:
        return disk.exists("data/a"), disk.exists("data/b")

    assert outcomes(build, look) == {(True, True), (True, False), (False, True), (False, False)}


def test_a_rename_between_directories_needs_both_synced() -> None:
    def build(*synced: str) -> SimulatedDisk:
        disk = make_disk()
        create(disk, "data/a", b"a")
        disk.rename("data/a", "data/runs/a")
        for directory in synced:
            disk.sync_directory(directory)
        return disk

    def look(disk: SimulatedDisk) -> object:
        return disk.exists("data/a"), disk.exists("data/runs/a")

    assert outcomes(lambda: build("data/runs"), look) == {(True, False), (False, True)}
    assert outcomes(lambda: build("data/runs", "data"), look) == {(False, True)}


def test_an_unsynced_directory_takes_its_files_with_it() -> None:
    def build() -> SimulatedDisk:
        disk = make_disk()
        disk.make_directory("data/new")
        create(disk, "data/new/a", b"a")
        return disk

    assert outcomes(build, content_of("data/new/a")) == {None, b"a"}


def test_a_renamed_file_keeps_its_content() -> None:
    disk = make_disk()
    create(disk, "data/a", b"x" * 3 * SECTOR)
    disk.rename("data/a", "data/b")
    disk.open("data/b").write([b"y"], 0)
    assert disk.content("data/b") == b"y" + b"x" * (3 * SECTOR - 1)


def test_a_killed_process_loses_nothing_written_but_syncs_nothing_either() -> None:
    def build() -> SimulatedDisk:
        disk = make_disk()
        create(disk, "data/a", b"-" * SECTOR).write([b"A" * SECTOR], 0)
        return disk.restart(Random(0))

    assert build().content("data/a") == b"A" * SECTOR
    assert outcomes(build, content_of("data/a")) == {b"-" * SECTOR, b"A" * SECTOR}


def test_a_failed_sync_leaves_doubt_that_a_later_one_does_not_lift() -> None:
    def build(*, rewritten: bool) -> SimulatedDisk:
        disk = make_disk()
        file = create(disk, "data/a", b"-" * SECTOR)
        file.write([b"A" * SECTOR], 0)
        disk.arm("sync")
        with pytest.raises(OSError) as caught:
            file.sync()
        assert caught.value.errno == errno.EIO
        assert disk.faults == ["sync"]
        if rewritten:
            file.write([b"A" * SECTOR], 0)
        file.sync()
        return disk

    assert outcomes(lambda: build(rewritten=False), content_of("data/a")) == {b"-" * SECTOR, b"A" * SECTOR}
    assert outcomes(lambda: build(rewritten=True), content_of("data/a")) == {b"A" * SECTOR}


def test_an_armed_fault_strikes_once() -> None:
    disk = make_disk()
    file = create(disk, "data/a", b"abc")
    disk.arm("read", after=2)
    assert file.read(3, 0) == b"abc"
    with pytest.raises(OSError):
        file.read(3, 0)
    assert file.read(3, 0) == b"abc"


def test_a_full_disk_takes_what_fits() -> None:
    disk = make_disk()
    file = create(disk, "data/a", bytes(4 * SECTOR))
    disk.capacity = 6 * SECTOR
    assert disk.usage("data") == (6 * SECTOR, 2 * SECTOR)
    file.write([b"x" * SECTOR], 0)
    with pytest.raises(OSError) as caught:
        file.write([b"y" * 4 * SECTOR], 4 * SECTOR)
    assert caught.value.errno == errno.ENOSPC
    assert file.size() <= 6 * SECTOR
    disk.heal()
    file.write([b"y" * 4 * SECTOR], 4 * SECTOR)
    assert file.size() == 8 * SECTOR


@pytest.mark.parametrize("interruption", [PowerLoss, ProcessKilled])
def test_an_interruption_strikes_in_the_middle_of_a_write_and_ends_everything(
    interruption: type[PowerLoss | ProcessKilled],
) -> None:
    seen = set()
    for seed in range(CRASHES):
        disk = make_disk()
        disk.rng = Random(seed)
        file = create(disk, "data/a", b"-" * 3 * SECTOR)
        disk.interruption = interruption
        disk.interrupt_at = disk.operations + 1
        with pytest.raises(interruption):
            file.write([b"A" * 3 * SECTOR], 0)
        with pytest.raises(interruption):
            file.read(1, 0)
        with pytest.raises(interruption):
            disk.remove("data/a")
        seen.add(disk.restart(Random(0)).content("data/a").count(b"A") // SECTOR)
    assert seen == {0, 1, 2, 3}


def test_mounts_are_file_systems_of_their_own() -> None:
    disk = make_disk()
    create(disk, "data/a", b"a")
    assert disk.same_filesystem("data", "data/runs")
    assert not disk.same_filesystem("data", "other")
    with pytest.raises(OSError) as caught:
        disk.rename("data/a", "other/a")
    assert caught.value.errno == errno.EXDEV


def test_the_errors_are_those_of_the_operating_system() -> None:
    disk = make_disk()
    create(disk, "data/a")
    with pytest.raises(FileExistsError):
        disk.open("data/a", create=True)
    with pytest.raises(FileNotFoundError):
        disk.open("data/b")
    with pytest.raises(FileNotFoundError):
        disk.open("nowhere/b", create=True)
    with pytest.raises(FileNotFoundError):
        disk.remove("data/b")
    with pytest.raises(FileNotFoundError):
        disk.list("nowhere")
    file = disk.open("data/a")
    file.close()
    file.close()
    with pytest.raises(OSError):
        file.read(1, 0)


def test_names_are_listed_sorted_and_without_those_below() -> None:
    disk = make_disk()
    for name in ("b", "a", "runs/c"):
        create(disk, f"data/{name}")
    assert disk.list("data") == ["a", "b", "runs"]
    assert disk.exists("data/runs")
    assert disk.exists("data/runs/c")


def test_the_same_seed_leaves_the_same() -> None:
    def survivors(seed: int) -> list[bytes]:
        disk = make_disk()
        for number in range(8):
            disk.open(f"data/{number}", create=True).write([bytes([number]) * 3000], 0)
        after = disk.crash(Random(seed))
        return [after.content(path) for path in after.paths()]

    assert all(survivors(seed) == survivors(seed) for seed in range(10))
