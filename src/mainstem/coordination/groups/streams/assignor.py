"""Who works on which task. A pure function of the members, what they had before, and the tasks that there are.

- Every task is active on exactly one member, and members have equally many active tasks, but for one.
- Tasks stay where they are as far as that allows. One that must move goes where its state is kept already.
- A copy of the state (standby) is never in the process that works on the task, nor twice in one process. Where there are too
  few processes there are fewer copies. Copies stay where they are unless moving some makes the busiest process less busy.
- What is new goes to the process with the fewest tasks per member, and there to the member with the fewest.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from mainstem.coordination.groups.streams.tasks import Task, Tasks


class Candidate(NamedTuple):
    """A member as the assignor sees it."""

    process_id: str
    before: Tasks
    """What it should have had until now."""


def assign_tasks(
    candidates: Mapping[str, Candidate], task_counts: Mapping[str, int], stateful: Set[str], standby_replicas: int
) -> dict[str, Tasks]:
    """The tasks of each member, given the number of tasks of each subtopology."""
    if not candidates:
        return {}
    tasks = [Task(subtopology, partition) for subtopology, count in task_counts.items() for partition in range(count)]
    placement = _Placement(candidates)
    _place_active(placement, tasks)
    copies = min(standby_replicas, len(placement.processes) - 1)
    if copies > 0:
        placement = _place_standbys(placement, [task for task in tasks if task.subtopology in stateful], copies)
    return {
        member: Tasks(frozenset(placement.active[member]), frozenset(placement.standby[member]))
        for member in candidates
    }


def _by_partition(task: Task) -> tuple[int, str]:
    return task.partition, task.subtopology


class _Placement:
    """What has been placed so far."""

    def __init__(self, candidates: Mapping[str, Candidate]) -> None:
        self.active: dict[str, set[Task]] = {member: set() for member in candidates}
        self.standby: dict[str, set[Task]] = {member: set() for member in candidates}
        self.process_of = {member: candidate.process_id for member, candidate in candidates.items()}
        self.processes: dict[str, _Process] = {}
        self._had_active: dict[Task, str] = {}
        self._had_standby: dict[Task, list[str]] = {}
        for member, candidate in sorted(candidates.items()):
            self.processes.setdefault(candidate.process_id, _Process()).add(member)
            self._had_active |= dict.fromkeys(candidate.before.active, member)
            for task in candidate.before.standby:
                self._had_standby.setdefault(task, []).append(member)

    def copy(self) -> _Placement:
        """The same, to go on in another way."""
        twin = _Placement({})
        twin.active, twin.standby = _copy_sets(self.active), _copy_sets(self.standby)
        twin.process_of, twin._had_active, twin._had_standby = self.process_of, self._had_active, self._had_standby
        twin.processes = {name: process.copy() for name, process in self.processes.items()}
        return twin

    def count(self, member: str) -> int:
        """Its tasks of both kinds."""
        return self.processes[self.process_of[member]].counts[member]

    def is_held(self, task: Task, member: str) -> bool:
        """Whether the member's process has the task in either way."""
        return task in self.processes[self.process_of[member]].tasks

    def give(self, shares: dict[str, set[Task]], member: str, task: Task) -> None:
        """The member gets it."""
        shares[member].add(task)
        process = self.processes[self.process_of[member]]
        process.tasks.add(task)
        process.counts[member] += 1

    def former_active(self, task: Task) -> tuple[str, ...]:
        """The member that worked on it, if there was one."""
        member = self._had_active.get(task)
        return () if member is None else (member,)

    def former_standbys(self, task: Task) -> list[str]:
        """Members that kept a copy, the least busy first."""
        return sorted(self._had_standby.get(task, ()), key=self._busyness)

    def loads(self) -> list[float]:
        """How busy the processes are, the busiest first."""
        return sorted((process.load for process in self.processes.values()), reverse=True)

    def _busyness(self, member: str) -> tuple[float, int, str]:
        process = self.processes[self.process_of[member]]
        return process.load, process.counts[member], member


def _copy_sets(shares: dict[str, set[Task]]) -> dict[str, set[Task]]:
    return {member: set(tasks) for member, tasks in shares.items()}


class _Process:
    """The members that run in one process."""

    __slots__ = ("_ranking", "counts", "tasks")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.tasks: set[Task] = set()
        self._ranking: list[tuple[int, str]] = []
        """A heap of counts and members. Counts only grow, so one that is out of date is too small, and found at the top."""

    def add(self, member: str) -> None:
        """Another member, without tasks."""
        self.counts[member] = 0
        heapq.heappush(self._ranking, (0, member))

    def copy(self) -> _Process:
        """The same, to go on in another way."""
        twin = _Process()
        twin.counts, twin.tasks, twin._ranking = dict(self.counts), set(self.tasks), list(self._ranking)
        return twin

    @property
    def load(self) -> float:
        """Tasks per member."""
        return len(self.tasks) / len(self.counts)

    def least_busy(self) -> str:
        """The member with the fewest tasks."""
        while True:
            count, member = self._ranking[0]
            if count == self.counts[member]:
                return member
            heapq.heapreplace(self._ranking, (self.counts[member], member))


class _Quota:
    """Everybody may have the same number of tasks; some may have one more until all are shared out."""

    def __init__(self, tasks: int, counts: Iterable[int]) -> None:
        counts = list(counts)
        self._base, spare = divmod(tasks, len(counts))
        self._spare = spare - sum(count > self._base for count in counts)

    def has_room(self, count: int) -> bool:
        """Whether a member with this many tasks may have another."""
        return count < self._base or (count == self._base and self._spare > 0)

    def take(self, count: int) -> None:
        """A member that had this many tasks has one more."""
        self._spare -= count >= self._base


def _place_active(placement: _Placement, tasks: list[Task]) -> None:
    quota = _Quota(len(tasks), [0] * len(placement.process_of))

    def keep(task: Task, members: Iterable[str]) -> bool:
        for member in members:
            count = placement.count(member)
            if quota.has_room(count):
                quota.take(count)
                placement.give(placement.active, member, task)
                return True
        return False

    # In the order of partitions, so that a member which must give up tasks keeps equal partitions of all subtopologies.
    waiting = sorted(tasks, key=_by_partition)
    waiting = [task for task in waiting if not keep(task, placement.former_active(task))]
    waiting = [task for task in waiting if not keep(task, placement.former_standbys(task))]
    by_load = [(process.load, name) for name, process in placement.processes.items()]
    heapq.heapify(by_load)
    for task in sorted(waiting):
        while not keep(task, [placement.processes[by_load[0][1]].least_busy()]):
            heapq.heappop(by_load)  # Its members have all that they may have, and will not have fewer.
        name = by_load[0][1]
        heapq.heapreplace(by_load, (placement.processes[name].load, name))


def _place_standbys(placement: _Placement, tasks: list[Task], copies: int) -> _Placement:
    """Keep all copies that there are, or only as many as everybody should have: whichever spreads the work better."""
    kept, levelled = placement, placement.copy()
    total = sum(map(len, placement.active.values())) + len(tasks) * copies
    _add_copies(kept, tasks, copies, None)
    _add_copies(levelled, tasks, copies, _Quota(total, [placement.count(member) for member in placement.process_of]))
    return kept if kept.loads() <= levelled.loads() else levelled


def _add_copies(placement: _Placement, tasks: list[Task], copies: int, quota: _Quota | None) -> None:
    open_copies: dict[Task, int] = {}
    for task in sorted(tasks, key=_by_partition, reverse=True):
        left = copies
        for member in (*placement.former_active(task), *placement.former_standbys(task)):
            count = placement.count(member)
            if left and not placement.is_held(task, member) and (quota is None or quota.has_room(count)):
                if quota is not None:
                    quota.take(count)
                placement.give(placement.standby, member, task)
                left -= 1
        if left:
            open_copies[task] = left
    by_load = [(process.load, name) for name, process in placement.processes.items()]
    heapq.heapify(by_load)
    for task in sorted(open_copies, reverse=True):
        for _ in range(open_copies[task]):
            _place_copy(placement, task, by_load)


def _place_copy(placement: _Placement, task: Task, by_load: list[tuple[float, str]]) -> None:
    """Give a copy to the least busy process that does not have the task."""
    passed = []
    while by_load:
        load, name = heapq.heappop(by_load)
        process = placement.processes[name]
        if task not in process.tasks:
            placement.give(placement.standby, process.least_busy(), task)
            passed.append((process.load, name))
            break
        passed.append((load, name))
    for entry in passed:
        heapq.heappush(by_load, entry)
