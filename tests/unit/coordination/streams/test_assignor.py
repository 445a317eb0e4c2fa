"""Who works on which task."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.coordination.groups.streams.assignor import Candidate, assign_tasks
from mainstem.coordination.groups.streams.tasks import NO_TASKS, Task, Tasks

STATEFUL = frozenset({"0", "1"})


def members(*processes: str) -> dict[str, Candidate]:
    return {f"m{number}": Candidate(process, NO_TASKS) for number, process in enumerate(processes)}


def following(candidates: Mapping[str, Candidate], assigned: Mapping[str, Tasks]) -> dict[str, Candidate]:
    return {
        member: Candidate(candidate.process_id, assigned.get(member, NO_TASKS))
        for member, candidate in candidates.items()
    }


def check(
    candidates: Mapping[str, Candidate], counts: Mapping[str, int], replicas: int, assigned: Mapping[str, Tasks]
) -> None:
    """What must hold of every assignment."""
    every = {Task(subtopology, partition) for subtopology, count in counts.items() for partition in range(count)}
    active = Counter(task for tasks in assigned.values() for task in tasks.active)
    assert active == dict.fromkeys(every, 1), "every task is active once"
    sizes = [len(tasks.active) for tasks in assigned.values()]
    assert max(sizes) - min(sizes) <= 1, "balanced"
    processes = {candidate.process_id for candidate in candidates.values()}
    copies = min(replicas, len(processes) - 1)
    standby = Counter(task for tasks in assigned.values() for task in tasks.standby)
    assert standby == {task: copies for task in every if task.subtopology in STATEFUL and copies}
    for process in processes:
        held = Counter(
            task
            for member, candidate in candidates.items()
            if candidate.process_id == process
            for task in (*assigned[member].active, *assigned[member].standby)
        )
        assert all(count == 1 for count in held.values()), "a process has a task once"


def test_equal_partitions_of_all_subtopologies_meet() -> None:
    assigned = assign_tasks(members("a", "b"), {"0": 4, "1": 4}, frozenset(), 0)
    for tasks in assigned.values():
        partitions = [{task.partition for task in tasks.active if task.subtopology == id_} for id_ in ("0", "1")]
        assert partitions[0] == partitions[1]


def test_a_process_with_more_members_gets_more() -> None:
    assigned = assign_tasks(members("a", "b", "b", "b"), {"0": 8}, frozenset(), 0)
    assert [len(tasks.active) for tasks in assigned.values()] == [2, 2, 2, 2]


def test_nobody_and_nothing() -> None:
    assert assign_tasks({}, {"0": 3}, STATEFUL, 1) == {}
    assert assign_tasks(members("a"), {}, STATEFUL, 1) == {"m0": NO_TASKS}


def test_copies_need_other_processes() -> None:
    assigned = assign_tasks(members("a", "a"), {"0": 4}, STATEFUL, 2)
    assert all(not tasks.standby for tasks in assigned.values())


def test_a_newcomer_takes_only_what_it_must_have() -> None:
    before = assign_tasks(members("a", "b"), {"0": 6}, STATEFUL, 0)
    candidates = following(members("a", "b", "c"), before)
    after = assign_tasks(candidates, {"0": 6}, STATEFUL, 0)
    assert len(after["m2"].active) == 2
    for member in ("m0", "m1"):
        assert after[member].active < before[member].active


def test_where_a_member_is_gone_its_copies_take_over() -> None:
    candidates = members("a", "b", "c", "d", "e")
    before = assign_tasks(candidates, {"0": 5}, STATEFUL, 1)
    for gone in candidates:
        left = following({member: candidates[member] for member in candidates.keys() - {gone}}, before)
        after = assign_tasks(left, {"0": 5}, STATEFUL, 1)
        (orphan,) = before[gone].active
        (heir,) = (member for member in left if orphan in after[member].active)
        assert orphan in before[heir].standby
        assert all(before[member].active <= after[member].active for member in left)


def test_what_moves_away_stays_as_a_copy() -> None:
    before = assign_tasks(members("a"), {"0": 4}, STATEFUL, 1)
    after = assign_tasks(following(members("a", "b"), before), {"0": 4}, STATEFUL, 1)
    assert after["m0"].standby == after["m1"].active
    assert after["m1"].standby == after["m0"].active


@pytest.mark.parametrize("replicas", [0, 1, 2])
def test_nothing_changes_without_a_reason(replicas: int) -> None:
    candidates = members("a", "b", "b", "c", "d", "d", "d")
    counts = {"0": 12, "1": 5, "2": 7}
    first = assign_tasks(candidates, counts, STATEFUL, replicas)
    assert assign_tasks(following(candidates, first), counts, STATEFUL, replicas) == first


PROCESSES = st.lists(st.sampled_from("abcd"), min_size=1, max_size=8)
COUNTS = st.fixed_dictionaries({"0": st.integers(0, 9), "1": st.integers(0, 9), "2": st.integers(0, 9)})


@given(st.lists(st.tuples(PROCESSES, COUNTS, st.integers(0, 2)), min_size=1, max_size=4))
def test_whatever_comes_and_goes(history: list[tuple[list[str], dict[str, int], int]]) -> None:
    assigned: dict[str, Tasks] = {}
    for processes, counts, replicas in history:
        candidates = following(members(*processes), assigned)
        before, assigned = assigned, assign_tasks(candidates, counts, STATEFUL, replicas)
        check(candidates, counts, replicas, assigned)
        most = max(len(tasks.active) for tasks in assigned.values())
        for member, tasks in assigned.items():
            every = {Task(id_, partition) for id_, count in counts.items() for partition in range(count)}
            kept = before.get(member, NO_TASKS).active & every
            lost = kept - tasks.active
            assert not lost or len(tasks.active) >= most - 1, "who loses a task has as many as others"
            assert not lost or tasks.active <= kept, "and nothing new"
