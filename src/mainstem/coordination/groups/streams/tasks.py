"""Tasks: the units of work of a streams application, and how they are stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class Task(NamedTuple):
    """One partition of one subtopology."""

    subtopology: str
    partition: int


NONE: frozenset[Task] = frozenset()


@dataclass(frozen=True, slots=True)
class Tasks:
    """What a member works on (active), and whose state it keeps a copy of (standby)."""

    active: frozenset[Task] = NONE
    standby: frozenset[Task] = NONE

    def __bool__(self) -> bool:
        return bool(self.active or self.standby)

    def __and__(self, other: Tasks) -> Tasks:
        return Tasks(self.active & other.active, self.standby & other.standby)

    def __sub__(self, other: Tasks) -> Tasks:
        return Tasks(self.active - other.active, self.standby - other.standby)

    def __or__(self, other: Tasks) -> Tasks:
        return Tasks(self.active | other.active, self.standby | other.standby)

    def __le__(self, other: Tasks) -> bool:
        return self.active <= other.active and self.standby <= other.standby


NO_TASKS = Tasks()

StoredTasks: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""Partitions by subtopology."""


def pack_tasks(tasks: Iterable[Task]) -> StoredTasks:
    """For storage."""
    by_subtopology: dict[str, list[int]] = {}
    for task in sorted(tasks):
        by_subtopology.setdefault(task.subtopology, []).append(task.partition)
    return tuple((subtopology, tuple(partitions)) for subtopology, partitions in by_subtopology.items())


def unpack_tasks(stored: Iterable[tuple[str, Iterable[int]]]) -> frozenset[Task]:
    """From storage."""
    return frozenset(Task(subtopology, partition) for subtopology, partitions in stored for partition in partitions)
