"""One flipped bit, anywhere: what was proven durable is reported as damaged, what was not is cut, nothing wrong is served."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mainstem.model.errors import CorruptData, DiskError, UnsupportedFormat
from mainstem.storage.contract import Budget
from mainstem.storage.local.frame import FRAME_BYTES, KIND_NAMES, SECTOR_BYTES
from mainstem.storage.local.wal.stored_group import StoredGroup
from mainstem.testing.disk import SimulatedDisk
from tests.support.storage.simulated_node import Node, groups_in

WAL = "data/wal/0000000000000001.wal"
KINDS = ["DATA", "REF", "STATE", "COMMIT"]
WHOLE = (["first", "middle", "last"], ["second", "middle", "last"], {"middle", "last"})
WITHOUT_LAST = (["first", "middle"], ["second", "middle"], {"middle"})


def build(node: Node) -> None:
    node.create(1, 2)
    node.append(1, "first")
    node.append(2, "second")
    node.append(1, "middle", refer=2, state=True)
    node.append(1, "last", refer=2, state=True)


@pytest.fixture(scope="module")
def synced() -> SimulatedDisk:
    node = Node()
    build(node)
    return node.disk


@pytest.fixture(scope="module")
def closed() -> SimulatedDisk:
    """Closed in order: an empty group proves the last one."""
    node = Node()
    build(node)
    node.wait(node.engine.close())
    return node.disk


def content_of(node: Node) -> tuple[list[str], list[str], set[str]]:
    return node.texts(1), node.texts(2), node.state()


def positions_of(group: StoredGroup, kind: str) -> Iterator[int]:
    """Every byte of the group's frame of that kind: header, head and body."""
    for frame in group.frames:
        if KIND_NAMES[frame.kind] == kind:
            yield from range(frame.position, frame.end)


def flipped(disk: SimulatedDisk, path: str, position: int) -> SimulatedDisk:
    copy = disk.copy()
    copy.flip(path, position, position % 8)
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_flip_in_a_proven_group_is_reported(synced: SimulatedDisk, kind: str) -> None:
    group = groups_in(synced, WAL)[-2]
    for position in positions_of(group, kind):
        with pytest.raises(CorruptData) as caught:
            Node(flipped(synced, WAL, position))
        assert caught.value.file == WAL
        assert group.position <= caught.value.position <= position


def test_the_report_names_the_logs_that_are_hit(synced: SimulatedDisk) -> None:
    """As far as they can be read: the head of the DATA frame says which they are."""
    group = groups_in(synced, WAL)[-2]
    frame = group.frames[0]
    for position in (frame.body_position, frame.end - 1, group.frames[-1].position + FRAME_BYTES):
        with pytest.raises(CorruptData) as caught:
            Node(flipped(synced, WAL, position))
        assert 1 in caught.value.logs
        assert set(caught.value.logs) <= {1, 2}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_flip_in_the_last_group_cuts_it(synced: SimulatedDisk, kind: str) -> None:
    """Nobody can tell it from a torn tail."""
    group = groups_in(synced, WAL)[-1]
    for position in positions_of(group, kind):
        assert content_of(Node(flipped(synced, WAL, position))) == WITHOUT_LAST, position


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_flip_in_the_last_group_of_a_closed_log_is_reported(closed: SimulatedDisk, kind: str) -> None:
    group = groups_in(closed, WAL)[-2]
    assert group.state
    for position in positions_of(group, kind):
        with pytest.raises(CorruptData):
            Node(flipped(closed, WAL, position))


def test_a_flip_in_the_group_that_proves_harms_nothing(closed: SimulatedDisk) -> None:
    proof = groups_in(closed, WAL)[-1]
    for position in range(proof.position, proof.end):
        assert content_of(Node(flipped(closed, WAL, position))) == WHOLE


@pytest.mark.slow
def test_a_flip_in_padding_harms_nothing(synced: SimulatedDisk) -> None:
    for group in groups_in(synced, WAL):
        for position in range(group.frames[-1].end, group.end, 7):
            assert content_of(Node(flipped(synced, WAL, position))) == WHOLE


def test_a_flip_in_the_header_of_a_file_is_never_loss_in_silence(synced: SimulatedDisk) -> None:
    """A file without a good header may be one that was never begun; not if groups of its generation lie in it."""
    for position in range(SECTOR_BYTES):
        try:
            node = Node(flipped(synced, WAL, position))
        except (CorruptData, UnsupportedFormat):
            continue
        assert content_of(node) == WHOLE, position


@pytest.fixture(scope="module")
def merged() -> SimulatedDisk:
    """Data in runs and in the write-ahead log, state in a state run and in the log."""
    node = Node(wal_file_bytes=8 * 1024, block_bytes=512, tier_runs_max=100, adopt_share=2.0)
    node.create(1, 2)
    for number in range(30):
        node.append(1 + number % 2, f"text-{number}", state=number % 5 == 0, records=8)
    node.wait(node.engine.maintain(Budget()))
    node.settle()
    assert any(path.startswith("data/runs/") for path in node.disk.paths())
    assert any(path.startswith("data/state/") for path in node.disk.paths())
    return node.disk


@pytest.mark.slow
@pytest.mark.parametrize("directory", ["data/runs/", "data/state/"])
def test_a_flip_in_merged_data_is_never_served(merged: SimulatedDisk, directory: str) -> None:
    settings = {"wal_file_bytes": 8 * 1024, "block_bytes": 512, "tier_runs_max": 100, "adopt_share": 2.0}
    whole = content_of(Node(merged.copy(), **settings))
    assert len(whole[0]) == len(whole[1]) == 15
    silent = 0
    tried = 0
    for path in merged.paths():
        if not path.startswith(directory):
            continue
        size = len(merged.content(path))
        for position in range(0, size, 11 if directory == "data/runs/" else 1):
            tried += 1
            try:
                found = content_of(Node(flipped(merged, path, position), **settings))
            except DiskError:
                continue
            assert found == whole, (path, position)
            silent += 1
    # Padding is all that may change without notice.
    assert silent < tried / 4
