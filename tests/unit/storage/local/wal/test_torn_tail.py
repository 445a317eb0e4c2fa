"""The last group of the write-ahead log, torn at every byte: it is there whole or not at all, and nothing else suffers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from mainstem.storage.local.wal.stored_group import StoredGroup
from mainstem.testing.disk import SimulatedDisk
from tests.support.storage.simulated_node import Node, groups_in, kinds

WAL = "data/wal/0000000000000001.wal"

Tear = Callable[[bytes, int, int], bytes]


def truncate(content: bytes, position: int, end: int) -> bytes:
    """The file ends here."""
    return content[:position]


def zero(content: bytes, position: int, end: int) -> bytes:
    """The rest of the group was never written."""
    return content[:position] + bytes(end - position) + content[end:]


def scramble(content: bytes, position: int, end: int) -> bytes:
    """The rest of the group is something else, in every byte."""
    garbage = Random(position).randbytes(end - position)
    different = bytes(
        new if new != old else old ^ 0xFF for new, old in zip(garbage, content[position:end], strict=True)
    )
    return content[:position] + different + content[end:]


TEARS = [truncate, zero, scramble]


def torn(disk: SimulatedDisk, tear: Tear, position: int, end: int) -> SimulatedDisk:
    copy = disk.copy()
    copy.replace(WAL, tear(disk.content(WAL), position, end))
    return copy


def last_byte(group: StoredGroup) -> int:
    """Position after the group's last frame; padding follows."""
    return group.frames[-1].end


@pytest.fixture(scope="module")
def synced() -> SimulatedDisk:
    """Every group synced before the next: each proves the one before it."""
    node = Node()
    node.create(1, 2)
    node.append(1, "first")
    node.append(2, "second", state=True)
    node.append(1, "last", refer=2, state=True, records=2)
    return node.disk


@pytest.fixture(scope="module")
def unsynced() -> SimulatedDisk:
    """No group is proven by another."""
    node = Node(flush="os")
    node.create(1, 2)
    node.append(1, "first")
    node.append(2, "second", state=True)
    node.append(1, "torn", refer=2, state=True)
    node.append(2, "behind", state=True)
    return node.disk


def test_the_groups_are_what_the_tests_believe(synced: SimulatedDisk, unsynced: SimulatedDisk) -> None:
    groups = groups_in(synced, WAL)
    assert kinds(groups[-1]) == ["DATA", "REF", "STATE", "COMMIT"]
    assert [group.proven for group in groups] == [0, 1, 2, 3]
    assert [group.proven for group in groups_in(unsynced, WAL)] == [0] * 5


@pytest.mark.slow
@pytest.mark.parametrize("tear", TEARS)
def test_a_last_group_torn_at_any_byte_is_gone_whole(synced: SimulatedDisk, tear: Tear) -> None:
    group = groups_in(synced, WAL)[-1]
    written = synced.content(WAL)
    for position in range(group.position, last_byte(group)):
        disk = torn(synced, tear, position, group.end)
        if disk.content(WAL)[: last_byte(group)] == written[: last_byte(group)]:
            continue  # only zeros were cut off, which a preallocated file holds anyway
        node = Node(disk)
        assert (node.texts(1), node.texts(2), node.state()) == (["first"], ["second"], {"second"}), position


@pytest.mark.parametrize("tear", TEARS)
def test_a_torn_padding_is_no_torn_group(synced: SimulatedDisk, tear: Tear) -> None:
    group = groups_in(synced, WAL)[-1]
    for position in range(last_byte(group), group.end):
        node = Node(torn(synced, tear, position, group.end))
        assert (node.texts(1), node.texts(2)) == (["first", "last"], ["second", "last"]), position


@pytest.mark.slow
@pytest.mark.parametrize("tear", [zero, scramble])
def test_a_good_group_behind_a_torn_one_goes_with_it(unsynced: SimulatedDisk, tear: Tear) -> None:
    """Unsynced sectors reach the disk in any order: that the next group did proves nothing."""
    group = groups_in(unsynced, WAL)[-2]
    written = unsynced.content(WAL)
    for position in range(group.position, last_byte(group)):
        disk = torn(unsynced, tear, position, group.end)
        if disk.content(WAL) == written:
            continue
        node = Node(disk)
        assert (node.texts(1), node.texts(2), node.state()) == (["first"], ["second"], {"second"}), position


def test_any_subset_of_sectors_is_the_whole_group_or_none_of_it() -> None:
    node = Node()
    node.create(1)
    node.append(1, "first")
    node.append(1, "large" + "x" * 600, state=True)
    group = groups_in(node.disk, WAL)[-1]
    sectors = range(group.position, group.end, 512)
    content = node.disk.content(WAL)
    assert 4 <= len(sectors) <= 8
    for missing in range(1, 1 << len(sectors)):
        damaged = bytearray(content)
        for number, position in enumerate(sectors):
            if missing >> number & 1:
                damaged[position : position + 512] = bytes(512)
        disk = node.disk.copy()
        disk.replace(WAL, bytes(damaged))
        found = Node(disk)
        assert (found.texts(1), found.state()) == (["first"], set())


@pytest.mark.parametrize("tear", TEARS)
def test_what_was_cut_never_comes_back(unsynced: SimulatedDisk, tear: Tear) -> None:
    """New groups take the numbers of those that were cut; the old ones still lie in the old file."""
    group = groups_in(unsynced, WAL)[-2]
    disk = torn(unsynced, tear, group.position + 100, group.end)
    node = Node(disk, flush="os")
    node.append(1, "third")
    node.append(2, "fourth")
    again = Node(node.disk.copy())
    assert (again.texts(1), again.texts(2), again.state()) == (["first", "third"], ["second", "fourth"], {"second"})
    again.append(1, "fifth")
    once_more = Node(again.disk.copy())
    assert once_more.texts(1) == ["first", "third", "fifth"]


def test_offsets_of_a_cut_group_are_given_again_to_what_is_written_next(synced: SimulatedDisk) -> None:
    """Nobody was told of them, so they are free: a log has no gaps."""
    group = groups_in(synced, WAL)[-1]
    node = Node(torn(synced, zero, group.position, group.end))
    node.append(1, "new")
    assert node.texts(1) == ["first", "new"]
    assert node.wait(node.engine.read(1, 1, 1)).next_offset == 2
