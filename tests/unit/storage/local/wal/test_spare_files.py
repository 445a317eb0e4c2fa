"""Spare files are written full of zeros for small groups, whose syncs gain by it, and only reserved for large ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mainstem.storage.local.wal.writer import LARGE_GROUPS_MAX
from mainstem.testing.disk import SimulatedFile
from tests.support.storage.simulated_node import Node

FILE_BYTES = 256 * 1024
LOG = 1
LARGE, SMALL = 2_000, 20
"""Records of a group: some eight groups fill a file, or some hundreds."""


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How spare files were made, in order."""
    ways: list[str] = []

    def noted(way: str, original: Callable[[SimulatedFile, int], None]) -> Callable[[SimulatedFile, int], None]:
        def note(file: SimulatedFile, size: int) -> None:
            if "spare-" in file.path and size == FILE_BYTES:
                ways.append(way)
            original(file, size)

        return note

    fill = SimulatedFile.fill
    monkeypatch.setattr(SimulatedFile, "reserve", noted("reserved", fill))
    monkeypatch.setattr(SimulatedFile, "fill", noted("filled", fill))
    return ways


def fill_files(node: Node, records: int, files: int) -> None:
    until = node.engine.writer.active.generation + files
    count = 0
    while node.engine.writer.active.generation < until:
        node.append(LOG, f"{records} {count}", records=records)
        count += 1
    node.settle()


def new_node() -> Node:
    # Nothing is merged, so that no file comes back: each one is new.
    node = Node(wal_file_bytes=FILE_BYTES, merge_files_min=64, merge_files_max=64)
    node.create(LOG)
    node.settle()
    return node


def test_small_groups_find_files_that_were_written(prepared: list[str]) -> None:
    node = new_node()
    fill_files(node, SMALL, 3)
    assert set(prepared) == {"filled"}


def test_large_groups_find_files_that_were_reserved(prepared: list[str]) -> None:
    node = new_node()
    stock = len(prepared)
    fill_files(node, LARGE, 3)
    assert set(prepared[stock:]) == {"reserved"}
    assert node.engine.writer.last_sequence < 3 * LARGE_GROUPS_MAX


def test_files_are_written_again_when_groups_are_small_again(prepared: list[str]) -> None:
    node = new_node()
    fill_files(node, LARGE, 2)
    fill_files(node, SMALL, 2)
    assert prepared[-1] == "filled"


def test_a_file_that_is_left_early_says_nothing_about_groups(prepared: list[str]) -> None:
    node = new_node()
    stock = len(prepared)
    for number in range(3):
        node.append(LOG, f"only {number}")
        node.engine.writer.rolls_next = True
    node.append(LOG, "last")
    node.settle()
    assert len(prepared) > stock
    assert set(prepared) == {"filled"}


def test_what_is_in_reserved_files_is_found_again() -> None:
    node = new_node()
    fill_files(node, LARGE, 4)
    texts = node.texts(LOG)
    assert len(texts) > 4
    again = Node(node.disk.copy(), wal_file_bytes=FILE_BYTES)
    assert again.texts(LOG) == texts
