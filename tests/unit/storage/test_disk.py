"""Real files: every byte arrives however the system cuts the calls, and what is missing is an OSError."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainstem.storage.runtime.disk import IOV_MAX, ZERO_CHUNK_BYTES, LocalDisk


@pytest.fixture
def disk():
    return LocalDisk()


@pytest.fixture
def file(disk, tmp_path):
    opened = disk.open(str(tmp_path / "file"), create=True)
    yield opened
    opened.close()


def content(file):
    return file.read(file.size(), 0)


def short_writes(monkeypatch, limit):
    """The system takes at most `limit` bytes per call."""
    pwrite = os.pwrite

    def pwritev(fd, buffers, position):
        return pwrite(fd, b"".join(buffers)[:limit], position)

    monkeypatch.setattr(os, "pwritev", pwritev)
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: pwrite(fd, bytes(data)[:limit], position))


# --- writing --------------------------------------------------------------------------------------------------------


def test_buffers_are_written_one_after_the_other(file):
    assert file.write([b"abc", bytearray(b"de"), memoryview(b"xfghx")[1:4]], 0) == 8
    assert content(file) == b"abcdefgh"


def test_writing_at_a_position_leaves_the_rest(file):
    file.write([b"0123456789"], 0)
    assert file.write([b"ab", b"c"], 4) == 3
    assert content(file) == b"0123abc789"


def test_writing_beyond_the_end_leaves_zeros_between(file):
    file.write([b"x"], 5)
    assert content(file) == b"\0\0\0\0\0x"


def test_nothing_to_write_is_nothing_written(file):
    assert file.write([], 7) == 0
    assert file.write([b""], 7) == 0
    assert file.size() == 0


@pytest.mark.parametrize("count", [IOV_MAX - 1, IOV_MAX, IOV_MAX + 1, 2 * IOV_MAX, 2 * IOV_MAX + 3])
def test_more_buffers_than_one_call_takes(file, count):
    buffers = [number.to_bytes(4, "big") for number in range(count)]
    assert file.write(buffers, 8) == 4 * count
    assert file.read(4 * count, 8) == b"".join(buffers)


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_short_writes_are_continued(file, monkeypatch, limit):
    buffers = [b"abcd", b"", b"efghij", bytes(range(200))] * 3
    short_writes(monkeypatch, limit)
    assert file.write(buffers, 2) == 630
    assert file.read(630, 2) == b"".join(buffers)
    assert file.size() == 632


def test_short_writes_across_more_buffers_than_one_call_takes(file, monkeypatch):
    buffers = [number.to_bytes(3, "big") for number in range(2 * IOV_MAX + 5)]
    short_writes(monkeypatch, 700)
    assert file.write(buffers, 0) == 3 * len(buffers)
    assert content(file) == b"".join(buffers)


def test_a_system_that_takes_nothing_is_an_error(file, monkeypatch):
    short_writes(monkeypatch, 0)
    with pytest.raises(OSError, match="wrote nothing"):
        file.write([b"abc"], 0)


def test_an_error_of_the_system_is_passed_on(file, monkeypatch):
    def full(fd, buffers, position):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(OSError, match="No space left"):
        file.write([b"abc"], 0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.binary(max_size=20), max_size=30), st.integers(0, 100), st.integers(1, 40))
def test_any_buffers_anywhere_with_any_short_write(disk, tmp_path, buffers, position, limit):
    path = str(tmp_path / "any")
    if disk.exists(path):
        disk.remove(path)
    file = disk.open(path, create=True)
    with pytest.MonkeyPatch.context() as patch:
        short_writes(patch, limit)
        file.write(buffers, position)
    whole = b"".join(buffers)
    assert file.read(len(whole), position) == whole
    assert file.size() == (position + len(whole) if whole else 0)
    file.close()


# --- reading --------------------------------------------------------------------------------------------------------


def test_reading_stops_at_the_end(file):
    file.write([b"0123456789"], 0)
    assert file.read(4, 3) == b"3456"
    assert file.read(10, 0) == b"0123456789"
    assert file.read(100, 7) == b"789"
    assert file.read(5, 10) == b""
    assert file.read(5, 1000) == b""
    assert file.read(0, 2) == b""


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_short_reads_are_continued(file, monkeypatch, limit):
    file.write([bytes(range(50))], 0)
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, position: pread(fd, min(size, limit), position))
    assert file.read(20, 5) == bytes(range(5, 25))
    assert file.read(100, 40) == bytes(range(40, 50))
    assert file.read(3, 50) == b""


# --- size -----------------------------------------------------------------------------------------------------------


def test_fill_extends_with_zeros_and_keeps_what_is_there(file):
    file.write([b"abc"], 0)
    file.fill(10)
    assert content(file) == b"abc" + bytes(7)
    file.fill(5)
    assert file.size() == 10


def test_fill_allocates_what_it_fills(file):
    size = 2 * ZERO_CHUNK_BYTES + 12_345
    file.fill(size)
    assert file.size() == size
    assert content(file) == bytes(size)
    assert os.stat(file.path).st_blocks * 512 >= size


def test_fill_continues_short_writes(file, monkeypatch):
    short_writes(monkeypatch, 7)
    file.fill(100)
    assert content(file) == bytes(100)


def test_truncate_cuts_and_extends(file):
    file.write([b"abcdef"], 0)
    file.truncate(2)
    assert content(file) == b"ab"
    file.truncate(4)
    assert content(file) == b"ab\0\0"


def test_syncing_keeps_the_content(file):
    file.write([b"abc"], 0)
    file.sync()
    assert content(file) == b"abc"


def test_closing_twice_is_harmless_and_the_descriptor_is_gone(disk, tmp_path):
    file = disk.open(str(tmp_path / "file"), create=True)
    file.close()
    other = os.open(tmp_path / "file", os.O_RDONLY)  # likely to get the same number
    file.close()
    assert os.pread(other, 1, 0) == b""
    os.close(other)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.size()


# --- names ----------------------------------------------------------------------------------------------------------


def test_create_refuses_what_exists(disk, file):
    file.write([b"abc"], 0)
    with pytest.raises(FileExistsError):
        disk.open(file.path, create=True)
    assert content(file) == b"abc"


def test_opening_what_is_missing_fails(disk, tmp_path):
    with pytest.raises(FileNotFoundError):
        disk.open(str(tmp_path / "missing"))


def test_a_file_opened_for_reading_is_not_written(disk, file):
    file.write([b"abc"], 0)
    reader = disk.open(file.path, writable=False)
    assert content(reader) == b"abc"
    with pytest.raises(OSError, match="Bad file descriptor"):
        reader.write([b"x"], 0)
    reader.close()


def test_two_openings_see_each_other(disk, file):
    other = disk.open(file.path)
    other.write([b"abc"], 0)
    assert content(file) == b"abc"
    other.close()


def test_names_are_listed_sorted(disk, tmp_path):
    for name in ["b", "a", "c"]:
        disk.open(str(tmp_path / name), create=True).close()
    assert disk.list(str(tmp_path)) == ["a", "b", "c"]


def test_directories_are_made_with_their_parents_and_again(disk, tmp_path):
    path = str(tmp_path / "one" / "two")
    assert not disk.exists(path)
    disk.make_directory(path)
    disk.make_directory(path)
    assert disk.exists(path)
    assert disk.list(path) == []
    disk.sync_directory(path)


def test_rename_replaces_and_an_open_file_stays_itself(disk, file, tmp_path):
    file.write([b"new"], 0)
    target = str(tmp_path / "target")
    old = disk.open(target, create=True)
    old.write([b"old"], 0)
    disk.rename(file.path, target)
    assert disk.list(str(tmp_path)) == ["target"]
    assert content(old) == b"old"
    replaced = disk.open(target)
    assert content(replaced) == b"new"
    replaced.close()
    old.close()


def test_a_removed_file_is_gone_and_still_readable_where_open(disk, file):
    file.write([b"abc"], 0)
    disk.remove(file.path)
    assert not disk.exists(file.path)
    assert content(file) == b"abc"
    with pytest.raises(FileNotFoundError):
        disk.remove(file.path)


def test_usage_is_of_the_file_system(disk, tmp_path):
    usage = disk.usage(str(tmp_path))
    assert 0 < usage.free <= usage.total


def test_two_directories_beside_each_other_share_a_file_system(disk, tmp_path):
    disk.make_directory(str(tmp_path / "other"))
    assert disk.same_filesystem(str(tmp_path), str(tmp_path / "other"))
