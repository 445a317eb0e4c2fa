"""Streams groups: no task is ever active on two members, and everybody gets there in the end."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mainstem.coordination.errors import (
    FencedMember,
    GroupFull,
    StaleMember,
    TopologyDiffers,
    UnknownMember,
    UnknownTask,
)
from mainstem.coordination.groups.heartbeats import JOINS, LEAVES
from mainstem.coordination.groups.streams.group import StreamsGroup, StreamsState
from mainstem.coordination.groups.streams.heartbeats import (
    StatusCode,
    StreamsBeat,
    StreamsHeartbeatReply,
    StreamsRules,
    UserEndpoint,
)
from mainstem.coordination.groups.streams.tasks import NO_TASKS, Task, Tasks
from tests.support.worlds.applications import COUNTING, application, part, topics
from tests.support.worlds.topologies import Topics

RULES = StreamsRules(session_timeout_ms=45_000, initial_delay_ms=0, assignment_interval_ms=0)
READY = topics(**{"words": 2, "by-word": 2, "counts": 2})
REBALANCE_MS = 60_000


def group_of(**rules: int) -> StreamsGroup:
    return StreamsGroup("g", RULES._replace(**rules))


def joins(member_id: str, process: str = "", **said: object) -> StreamsBeat:
    beat = StreamsBeat(
        member_id,
        JOINS,
        rebalance_timeout_ms=REBALANCE_MS,
        topology=COUNTING,
        owned=NO_TASKS,
        process_id=process or member_id,
    )
    return beat._replace(**said)  # type: ignore[arg-type]


def says(told: StreamsHeartbeatReply, **said: object) -> StreamsBeat:
    beat = StreamsBeat(told.member_id, told.epoch, endpoint_epoch=told.endpoint_epoch)
    return beat._replace(**said)  # type: ignore[arg-type]


def tasks(*names: str) -> frozenset[Task]:
    return frozenset(Task(id_, int(partition)) for id_, partition in (name.split("_") for name in names))


def codes(told: StreamsHeartbeatReply) -> list[StatusCode]:
    return [status.code for status in told.statuses]


def test_who_comes_first_gets_everything() -> None:
    group = group_of()
    told = group.beat(joins("one"), READY, 0)
    assert told.tasks == Tasks(tasks("0_0", "0_1", "1_0", "1_1"))
    assert told.statuses == ()
    assert told.epoch == group.epoch
    assert group.state is StreamsState.STABLE
    assert group.beat(says(told), READY, 1) == told._replace(tasks=None)


def test_a_task_is_given_to_another_only_when_it_was_let_go() -> None:
    group = group_of()
    one = group.beat(joins("one"), READY, 0)
    had = one.tasks
    assert had is not None
    two = group.beat(joins("two"), READY, 1)
    assert two.tasks == NO_TASKS
    assert group.state is StreamsState.RECONCILING
    asked = group.beat(says(one), READY, 2)
    assert asked.epoch == one.epoch, "the epoch stays until it has let go"
    assert asked.tasks is not None
    assert len(asked.tasks.active) == 2
    assert group.beat(says(two), READY, 3).tasks is None
    assert group.beat(says(asked, owned=had), READY, 4).epoch == one.epoch
    done = group.beat(says(asked, owned=asked.tasks), READY, 5)
    assert done.epoch == group.epoch
    given = group.beat(says(two), READY, 6)
    assert given.tasks == Tasks(had.active - asked.tasks.active)
    assert group.state is StreamsState.STABLE


def test_who_does_not_let_go_is_dropped() -> None:
    group = group_of()
    one = group.beat(joins("one", rebalance_timeout_ms=100), READY, 0)
    two = group.beat(joins("two"), READY, 1)
    group.beat(says(one), READY, 2)
    assert group.next_deadline_ms() == 102
    group.pass_time(102)
    assert set(group.members) == {"two"}
    given = group.beat(says(two), READY, 103).tasks
    assert given is not None
    assert len(given.active) == 4


def test_who_is_silent_is_dropped() -> None:
    group = group_of()
    told = group.beat(joins("one"), READY, 0)
    group.pass_time(44_999)
    group.beat(says(told), READY, 44_999)
    group.pass_time(45_000)
    assert group.members
    group.pass_time(89_999)
    assert group.state is StreamsState.EMPTY
    with pytest.raises(UnknownMember):
        group.beat(says(told), READY, 90_000)


def test_who_leaves_is_gone_at_once() -> None:
    group = group_of()
    told = group.beat(joins("one"), READY, 0)
    assert group.beat(says(told, epoch=LEAVES), READY, 1).epoch == LEAVES
    assert group.state is StreamsState.EMPTY
    assert group.topology is not None, "who comes later must bring the same"


def test_the_first_assignment_waits_for_others() -> None:
    group = group_of(initial_delay_ms=3_000)
    one = group.beat(joins("one"), READY, 0)
    two = group.beat(joins("two"), READY, 1_000)
    for told in (one, two):
        assert told.tasks == NO_TASKS
        assert codes(told) == [StatusCode.ASSIGNMENT_DELAYED]
        assert told.epoch > 0
    assert group.state is StreamsState.ASSIGNING
    one, two = group.beat(says(one), READY, 3_000), group.beat(says(two), READY, 3_001)
    for told in (one, two):
        assert told.tasks is not None
        assert len(told.tasks.active) == 2
        assert told.statuses == ()


def test_assignments_keep_a_distance() -> None:
    group = group_of(assignment_interval_ms=1_000)
    group.beat(joins("one"), READY, 5)
    two = group.beat(joins("two"), READY, 500)
    assert codes(two) == [StatusCode.ASSIGNMENT_DELAYED]
    assert codes(group.beat(says(two), READY, 1_005)) == []
    assert group.state is StreamsState.RECONCILING


def test_no_task_without_its_topics() -> None:
    group = group_of()
    told = group.beat(joins("one"), topics(), 0)
    assert codes(told) == [StatusCode.MISSING_SOURCE_TOPICS]
    assert told.tasks == NO_TASKS
    assert group.state is StreamsState.NOT_READY
    told = group.beat(says(told), topics(words=2), 1)
    assert codes(told) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert [topic.name for topic in group.plan.missing] == ["by-word", "counts"]
    told = group.beat(says(told), READY, 2)
    assert told.statuses == ()
    assert told.tasks is not None
    assert len(told.tasks.active) == 4


def test_a_topic_that_goes_takes_the_tasks_with_it() -> None:
    group = group_of()
    told = group.beat(joins("one"), READY, 0)
    told = group.beat(says(told), topics(words=2), 1)
    assert told.tasks == NO_TASKS
    assert codes(told) == [StatusCode.MISSING_INTERNAL_TOPICS]


def test_a_topic_that_grows_brings_more_tasks() -> None:
    stateless = application(part("0", ("words",)))
    group = group_of()
    told = group.beat(joins("one", topology=stateless), topics(words=2), 0)
    grown = group.beat(says(told), topics(words=4), 1).tasks
    assert grown is not None
    assert grown.active == tasks("0_0", "0_1", "0_2", "0_3")


def test_standbys_are_kept_in_other_processes() -> None:
    group = group_of(standby_replicas=1)
    one = group.beat(joins("one", "p1"), READY, 0)
    two = group.beat(joins("two", "p2"), READY, 1)
    one = group.beat(says(one), READY, 2)
    one = group.beat(says(one, owned=one.tasks), READY, 3)
    two = group.beat(says(two), READY, 4)
    assert two.tasks is not None
    held = {member.id: member.tasks for member in group.members.values()}
    assert held["one"].standby == {task for task in held["two"].active if task.subtopology == "1"}
    assert held["two"].standby == {task for task in held["one"].active if task.subtopology == "1"}


def test_the_number_of_standbys_can_change() -> None:
    group = group_of()
    one = group.beat(joins("one", "p1"), READY, 0)
    two = group.beat(joins("two", "p2"), READY, 1)
    one = group.beat(says(one, owned=NO_TASKS), READY, 2)
    two = group.beat(says(two, owned=NO_TASKS), READY, 3)
    group.rules = group.rules._replace(standby_replicas=1)
    changed = group.beat(says(one), READY, 4).tasks
    assert changed is not None
    assert len(changed.standby) == 1


def test_an_answer_that_was_lost_is_given_again() -> None:
    group = group_of()
    one = group.beat(joins("one"), READY, 0)
    group.beat(joins("two"), READY, 1)
    asked = group.beat(says(one), READY, 2)
    assert asked.tasks is not None
    done = group.beat(says(asked, owned=asked.tasks), READY, 3)
    assert done.epoch > one.epoch
    again = group.beat(says(one, owned=asked.tasks), READY, 4)
    assert (again.epoch, again.tasks) == (done.epoch, asked.tasks)


@pytest.mark.parametrize("epoch", [1, 99])
def test_who_has_another_epoch_must_join_anew(epoch: int) -> None:
    group = group_of()
    told = group.beat(joins("one"), READY, 0)
    group.beat(joins("two"), READY, 1)
    with pytest.raises(FencedMember):
        group.beat(says(told, epoch=epoch, owned=told.tasks), READY, 2)


def test_another_topology_is_refused() -> None:
    group = group_of()
    group.beat(joins("one"), READY, 0)
    other = application(part("0", ("words",)), epoch=1)
    with pytest.raises(TopologyDiffers):
        group.beat(joins("two", topology=other), READY, 1)
    assert set(group.members) == {"one"}


def test_an_older_topology_is_told_so() -> None:
    group = group_of()
    group.beat(joins("one", topology=application(*COUNTING.subtopologies, epoch=3)), READY, 0)
    told = group.beat(joins("two", topology=application(part("0", ("words",)), epoch=2)), READY, 1)
    assert codes(told) == [StatusCode.STALE_TOPOLOGY]


def test_one_asks_for_the_end_of_all() -> None:
    group = group_of()
    one = group.beat(joins("one"), READY, 0)
    two = group.beat(joins("two"), READY, 1)
    group.beat(says(one, epoch=LEAVES, is_shutting_down=True), READY, 2)
    told = group.beat(says(two), READY, 3)
    assert codes(told) == [StatusCode.SHUTDOWN_APPLICATION]
    group.beat(says(told, epoch=LEAVES), READY, 4)
    assert group.beat(joins("three"), READY, 5).statuses == ()


def test_there_is_a_limit_of_members() -> None:
    group = group_of(members_max=1)
    group.beat(joins("one"), READY, 0)
    group.beat(joins("one"), READY, 1)
    with pytest.raises(GroupFull):
        group.beat(joins("two"), READY, 2)


def test_a_task_that_there_is_not_cannot_be_owned() -> None:
    group = group_of()
    told = group.beat(joins("one"), READY, 0)
    for owned in (tasks("0_2"), tasks("7_0")):
        with pytest.raises(UnknownTask):
            group.beat(says(told, owned=Tasks(owned)), READY, 1)


def test_members_learn_where_others_answer_queries() -> None:
    group = group_of(standby_replicas=1)
    one = group.beat(joins("one", "p1", endpoint=UserEndpoint("h1", 1)), READY, 0)
    assert one.endpoints is not None
    assert one.endpoints[0].endpoint == UserEndpoint("h1", 1)
    assert one.endpoints[0].active == {"by-word": (0, 1), "words": (0, 1)}
    assert group.beat(says(one), READY, 1).endpoints is None
    two = group.beat(joins("two", "p2", endpoint=UserEndpoint("h2", 2)), READY, 2)
    told = group.beat(says(one), READY, 3)
    assert told.endpoints is not None
    assert [found.endpoint.host for found in told.endpoints] == ["h1", "h2"]
    group.beat(says(two, epoch=LEAVES), READY, 4)
    told = group.beat(says(told), READY, 5)
    assert told.endpoints is not None
    assert [found.endpoint.host for found in told.endpoints] == ["h1"]


def test_members_of_one_process_answer_at_one_endpoint() -> None:
    group = group_of()
    here = UserEndpoint("h", 1)
    one = group.beat(joins("one", "p", endpoint=here), READY, 0)
    two = group.beat(joins("two", "p", endpoint=here), READY, 1)
    one = group.beat(says(one, owned=NO_TASKS), READY, 2)
    told = group.beat(says(two, owned=NO_TASKS), READY, 3)
    assert told.tasks is not None
    assert len(told.tasks.active) == 2
    assert told.endpoints is not None
    (found,) = told.endpoints
    assert found.active == {"by-word": (0, 1), "words": (0, 1)}


# Offsets


def test_offsets_are_committed_in_the_current_epoch() -> None:
    group = group_of()
    told = group.beat(joins("one"), READY, 0)
    group.check_commit("one", told.epoch, [("words", 0)])
    with pytest.raises(StaleMember):
        group.check_commit("one", told.epoch + 1, [("words", 0)])
    with pytest.raises(UnknownMember):
        group.check_commit("two", told.epoch, [])
    group.check_fetch("one", told.epoch)
    with pytest.raises(StaleMember):
        group.check_fetch("one", told.epoch - 1)


def test_what_is_held_since_may_be_committed_in_an_earlier_epoch() -> None:
    group = group_of()
    one = group.beat(joins("one"), READY, 0)
    two = group.beat(joins("two"), READY, 1)
    asked = group.beat(says(one), READY, 2)
    kept, lost = asked.tasks, one.tasks
    assert kept is not None
    assert lost is not None
    topic = {"0": "words", "1": "by-word"}
    places = [(topic[task.subtopology], task.partition) for task in kept.active]
    gone = [(topic[task.subtopology], task.partition) for task in lost.active - kept.active]
    group.check_commit("one", one.epoch, [*places, *gone])
    done = group.beat(says(asked, owned=kept), READY, 3)
    assert done.epoch > one.epoch
    group.check_commit("one", one.epoch, places)
    for place in gone:
        with pytest.raises(StaleMember):
            group.check_commit("one", one.epoch, [place])
    given = group.beat(says(two), READY, 4)
    with pytest.raises(StaleMember):
        group.check_commit("two", given.epoch - 1, gone)
    with pytest.raises(StaleMember):
        group.check_commit("one", one.epoch, [("elsewhere", 0)])


def test_topics_in_use() -> None:
    group = group_of()
    told = group.beat(joins("one"), READY, 0)
    assert group.subscribed == {"words", "by-word"}
    group.beat(says(told, epoch=LEAVES), READY, 1)
    assert group.subscribed == frozenset()


# Any order of events, with the log


class AnyOrder(RuleBasedStateMachine):
    """Members that come, go, are slow to let go and lose answers, and a broker that forgets everything but its log."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.group = group_of(standby_replicas=1, session_timeout_ms=1_000)
        self.stored: dict[bytes, bytes] = {}
        self.topics: Topics = READY
        self.told: dict[str, StreamsHeartbeatReply] = {}
        self.working: dict[str, Tasks] = {}
        """What each member has in its hands, which may be more than it should."""

    def run(self, call: Callable[[], StreamsHeartbeatReply]) -> StreamsHeartbeatReply:
        told = call()
        for mutation in self.group.take_changes():
            if mutation.scope == "streams-groups":
                continue
            if mutation.value is None:
                self.stored.pop(mutation.key, None)
            else:
                self.stored[mutation.key] = mutation.value
        return told

    @rule(number=st.integers(0, 3), is_lost=st.booleans())
    def join(self, number: int, is_lost: bool) -> None:
        member = f"m{number}"
        self.working[member] = NO_TASKS
        beat = joins(member, f"p{number % 3}", rebalance_timeout_ms=500)
        told = self.run(lambda: self.group.beat(beat, self.topics, self.now_ms))
        if is_lost:
            self.told.pop(member, None)
        else:
            self.told[member] = told

    @precondition(lambda self: self.told)
    @rule(data=st.data(), is_slow=st.booleans(), is_lost=st.booleans())
    def beat(self, data: st.DataObject, is_slow: bool, is_lost: bool) -> None:
        member = data.draw(st.sampled_from(sorted(self.told)))
        told = self.told[member]
        if not is_slow and told.tasks is not None:
            self.working[member] = told.tasks
        beat = says(told, owned=self.working[member])
        try:
            answer = self.run(lambda: self.group.beat(beat, self.topics, self.now_ms))
        except (FencedMember, UnknownMember, UnknownTask):
            del self.told[member], self.working[member]
            return
        if not is_lost:
            self.told[member] = answer if answer.tasks is not None else answer._replace(tasks=told.tasks)

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(sorted(self.told)))
        told = self.told.pop(member)
        del self.working[member]
        if member in self.group.members:
            self.run(lambda: self.group.beat(says(told, epoch=LEAVES), self.topics, self.now_ms))

    @rule(step=st.integers(1, 600))
    def wait(self, step: int) -> None:
        self.now_ms += step
        self.group.pass_time(self.now_ms)
        self.run(lambda: StreamsHeartbeatReply("", 0))
        for member in list(self.working):
            if member not in self.group.members:
                # The client knows by its own clock that its session has ended.
                self.working[member] = NO_TASKS
                if member in self.told:
                    self.told[member] = self.told[member]._replace(tasks=None)

    @rule()
    def restart(self) -> None:
        again = group_of(standby_replicas=1, session_timeout_ms=1_000)
        for key, value in self.stored.items():
            again.replay(key, value)
        again.wake(self.now_ms)
        assert again.state == self.group.state
        assert again.target == self.group.target
        self.group = again

    @rule(missing=st.sampled_from(["", "words", "counts"]))
    def alter_topics(self, missing: str) -> None:
        self.topics = Topics({name: shape for name, shape in READY.items() if name != missing})

    @invariant()
    def nobody_works_on_what_another_has(self) -> None:
        held = Counter(task for tasks in self.working.values() for task in tasks.active)
        assert all(count == 1 for count in held.values()), held
        given = Counter(task for member in self.group.members.values() for task in member.held.active)
        assert all(count == 1 for count in given.values()), given

    @invariant()
    def a_process_has_a_task_once(self) -> None:
        held: Counter[tuple[str, Task]] = Counter()
        for member in self.group.members.values():
            mine = member.held
            held.update((member.process_id, task) for task in (*mine.active, *mine.standby))
        assert all(count == 1 for count in held.values()), held

    def teardown(self) -> None:
        """With all topics and patient members, the group comes to rest."""
        self.topics = READY
        if not self.told:
            return
        for _ in range(8):
            for member in sorted(self.told):
                told = self.told[member]
                if told.tasks is not None:
                    self.working[member] = told.tasks
                try:
                    beat = says(told, owned=self.working.get(member, NO_TASKS))
                    answer = self.group.beat(beat, self.topics, self.now_ms)
                except (FencedMember, UnknownMember):
                    beat = joins(member, f"p{int(member[1:]) % 3}")
                    self.working[member] = NO_TASKS
                    answer = self.group.beat(beat, self.topics, self.now_ms)
                self.told[member] = answer if answer.tasks is not None else answer._replace(tasks=told.tasks)
            for member in self.group.members.keys() - self.told.keys():
                self.group.remove(self.group.members[member])
        assert self.group.state is StreamsState.STABLE
        active = Counter(task for member in self.group.members.values() for task in member.tasks.active)
        assert active == dict.fromkeys(tasks("0_0", "0_1", "1_0", "1_1"), 1)


AnyOrder.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
