from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.model.errors import CorruptData
from mainstem.storage.local.runs.state_run import is_complete, read_state_run, write_state_run
from mainstem.storage.sequencer.entries import StateItem
from mainstem.testing.disk import SimulatedDisk


def new_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("/state")
    return disk


entries = st.dictionaries(
    st.tuples(st.text(max_size=5), st.binary(max_size=5)), st.none() | st.binary(max_size=300), max_size=60
)


@given(entries, st.sampled_from([1, 500, 1 << 18]))
def test_round_trip(values: dict[tuple[str, bytes], bytes | None], chunk: int) -> None:
    disk = new_disk()
    items = [(scope, key, value) for (scope, key), value in sorted(values.items(), key=lambda entry: entry[0])]
    path = write_state_run(disk, "/state", 7, 255, 99, iter(items), chunk)
    assert path == "/state/0000000000000007-00000000000000ff.state"
    assert disk.paths() == [path]
    assert is_complete(disk, path)
    run = read_state_run(disk, path)
    assert (run.from_, run.to, run.created_ms) == (7, 255, 99)
    assert list(run.items) == items


def some_items() -> list[StateItem]:
    return [("a", b"%03d" % i, None if i % 7 == 0 else b"v" * i) for i in range(100)]


def read_all(disk: SimulatedDisk, path: str) -> list[StateItem]:
    return list(read_state_run(disk, path).items)


def test_any_flipped_bit_is_found() -> None:
    disk = new_disk()
    path = write_state_run(disk, "/state", 1, 2, 3, some_items(), 1000)
    for position in range(len(disk.content(path))):
        disk.flip(path, position, position % 8)
        with pytest.raises(CorruptData):
            read_all(disk, path)
        disk.flip(path, position, position % 8)
    assert read_all(disk, path) == some_items()


def test_cut_anywhere_is_incomplete() -> None:
    disk = new_disk()
    path = write_state_run(disk, "/state", 1, 2, 3, some_items(), 1000)
    content = disk.content(path)
    for size in range(len(content)):
        disk.replace(path, content[:size])
        assert not is_complete(disk, path)
        with pytest.raises(CorruptData):
            read_all(disk, path)


def test_failure_leaves_nothing_behind() -> None:
    disk = new_disk()
    disk.open("/state/0000000000000001-0000000000000002.state.tmp", create=True).write([b"leftover"], 0)
    for operation in ("write", "sync", "sync_directory"):
        disk.arm(operation)
        with pytest.raises(OSError):
            write_state_run(disk, "/state", 1, 2, 3, some_items())
        assert disk.paths() == []
