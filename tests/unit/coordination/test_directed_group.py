"""Groups that the broker assigns: no partition is ever with two members, and everybody gets there in the end."""

import itertools
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mainstem.coordination.errors import (
    FencedMember,
    GroupError,
    GroupFull,
    InstanceInUse,
    StaleMember,
    UnknownAssignor,
    UnknownMember,
)
from mainstem.coordination.groups.assignors import ASSIGNORS
from mainstem.coordination.groups.directed_group import DirectedGroup, DirectedState
from mainstem.coordination.groups.group_offsets import TopicPlace
from mainstem.coordination.groups.heartbeats import JOINS, LEAVES, PAUSES, Beat, BeatRules, HeartbeatReply
from mainstem.coordination.groups.topology import TopicShape
from tests.support.worlds.topologies import Topics

SESSION_MS = 45_000
REBALANCE_MS = 60_000
A, B = uuid.UUID(int=1), uuid.UUID(int=2)
TOPICS = Topics({"a": TopicShape(A, 4), "b": TopicShape(B, 3)})


def numbered() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"m{next(numbers)}"


def says(member_id: str = "", epoch: int = JOINS, **said: object) -> Beat:
    beat = Beat(
        member_id=member_id,
        epoch=epoch,
        instance_id=None,
        rack_id=None,
        client_id="c",
        rebalance_timeout_ms=REBALANCE_MS if epoch == JOINS else -1,
        topics=frozenset({"a"}) if epoch == JOINS else None,
        assignor=None,
        owned=frozenset() if epoch == JOINS else None,
    )
    return beat._replace(**said)  # type: ignore[arg-type]


def group_of(members_max: int = 100) -> DirectedGroup:
    return DirectedGroup("g", BeatRules(members_max, SESSION_MS))


def a(*partitions: int) -> frozenset[TopicPlace]:
    return frozenset(TopicPlace(A, partition) for partition in partitions)


def test_a_second_member_waits_until_the_first_lets_go() -> None:
    group, new_id = group_of(), numbered()
    first = group.beat(says(), TOPICS, new_id, 0)
    assert first == HeartbeatReply("m1", 1, a(0, 1, 2, 3))
    second = group.beat(says(), TOPICS, new_id, 0)
    assert second == HeartbeatReply("m2", 2, frozenset())
    assert group.state is DirectedState.RECONCILING
    told = group.beat(says("m1", 1), TOPICS, new_id, 1)
    assert (told.epoch, told.share) == (1, a(0, 1)), "told to let go, in its old epoch"
    assert group.beat(says("m2", 2), TOPICS, new_id, 1).share is None, "not free yet"
    assert group.beat(says("m1", 1), TOPICS, new_id, 2) == HeartbeatReply("m1", 1, None), (
        "it has not said that it has let go"
    )
    assert group.beat(says("m1", 1, owned=a(0, 1)), TOPICS, new_id, 3).epoch == 2
    assert group.beat(says("m2", 2), TOPICS, new_id, 4).share == a(2, 3)
    assert group.state is DirectedState.STABLE


def test_epochs_fence() -> None:
    group, new_id = group_of(), numbered()
    group.beat(says(), TOPICS, new_id, 0)
    with pytest.raises(FencedMember):
        group.beat(says("m1", 7), TOPICS, new_id, 0)
    with pytest.raises(UnknownMember):
        group.beat(says("stranger", 1), TOPICS, new_id, 0)
    group.beat(says("m1", 1, topics=frozenset({"a", "b"})), TOPICS, new_id, 0)
    assert group.members["m1"].epoch == 2
    with pytest.raises(FencedMember):
        group.beat(says("m1", 1), TOPICS, new_id, 0)
    repeated = group.beat(says("m1", 1, owned=a(0)), TOPICS, new_id, 0)
    assert repeated.epoch == 2, "our answer was lost"
    group.check_commit("m1", None, 2)
    with pytest.raises(StaleMember):
        group.check_commit("m1", None, 1)


def test_refusals() -> None:
    group, new_id = group_of(members_max=1), numbered()
    with pytest.raises(UnknownAssignor):
        group.beat(says(assignor="best"), TOPICS, new_id, 0)
    group.beat(says(instance_id="i"), TOPICS, new_id, 0)
    with pytest.raises(GroupFull):
        group.beat(says(), TOPICS, new_id, 0)
    with pytest.raises(InstanceInUse):
        group.beat(says("other", instance_id="i"), TOPICS, new_id, 0)


def test_a_static_member_that_goes_for_a_while_keeps_its_share() -> None:
    group, new_id = group_of(), numbered()
    group.beat(says(instance_id="i"), TOPICS, new_id, 0)
    assert group.beat(says("m1", PAUSES, instance_id="i"), TOPICS, new_id, 0).epoch == PAUSES
    back = group.beat(says("new", instance_id="i"), TOPICS, new_id, 10)
    assert (back.member_id, back.share) == ("new", a(0, 1, 2, 3))
    assert list(group.members) == ["new"]


def test_topics_that_appear_or_grow_are_assigned() -> None:
    group, new_id = group_of(), numbered()
    assert group.beat(says(topics=frozenset({"later"})), TOPICS, new_id, 0).share == frozenset()
    grown = Topics(TOPICS | {"later": TopicShape(B, 1)})
    assert group.beat(says("m1", 1), grown, new_id, 1).share == frozenset({TopicPlace(B, 0)})
    grown["later"] = TopicShape(B, 2)
    assert group.beat(says("m1", 2), grown, new_id, 2).share == frozenset({TopicPlace(B, 0), TopicPlace(B, 1)})


def test_who_does_not_let_go_in_time_is_dropped() -> None:
    group, new_id = group_of(), numbered()
    group.beat(says(rebalance_timeout_ms=1_000), TOPICS, new_id, 0)
    group.beat(says(), TOPICS, new_id, 0)
    group.beat(says("m1", 1), TOPICS, new_id, 100)
    assert group.next_deadline_ms() == 1_100
    group.pass_time(TOPICS, 1_100)
    assert list(group.members) == ["m2"]
    assert group.beat(says("m2", 2), TOPICS, new_id, 1_200).share == a(0, 1, 2, 3)


@given(
    wanted=st.dictionaries(
        st.sampled_from(["m1", "m2", "m3", "m4"]), st.sets(st.sampled_from(["a", "b", "none"])), min_size=1
    ),
    held=st.dictionaries(
        st.sampled_from(["m1", "m2", "m3", "gone"]),
        st.sets(st.builds(TopicPlace, st.sampled_from([A, B]), st.integers(0, 5))),
    ),
    assignor=st.sampled_from(sorted(ASSIGNORS)),
)
def test_assignors_give_everything_once_to_who_asks_for_it(
    wanted: dict[str, set[str]], held: dict[str, set[TopicPlace]], assignor: str
) -> None:
    shares = ASSIGNORS[assignor](wanted, TOPICS, held)
    given_out = [place for share in shares.values() for place in share]
    assert len(given_out) == len(set(given_out))
    expected = {
        TopicPlace(shape.id, partition)
        for name, shape in TOPICS.items()
        if any(name in topics for topics in wanted.values())
        for partition in range(shape.partitions)
    }
    assert set(given_out) == expected
    names = {shape.id: name for name, shape in TOPICS.items()}
    assert all(names[place.topic] in wanted[member] for member, share in shares.items() for place in share)
    if assignor == "uniform" and len({frozenset(topics) for topics in wanted.values()}) == 1:
        sizes = [len(share) for share in shares.values()]
        assert max(sizes) - min(sizes) <= 1


class Consumer:
    """What one member knows and holds."""

    def __init__(self) -> None:
        self.member_id = ""
        self.epoch = JOINS
        self.holds: frozenset[TopicPlace] = frozenset()
        self.told: frozenset[TopicPlace] = frozenset()


class AnyStory(RuleBasedStateMachine):
    """Members that come, go, are silent, lose answers and let go late."""

    @initialize()
    def begin(self) -> None:
        self.now_ms = 0
        self.group = group_of()
        self.stored: dict[bytes, bytes] = {}
        self.consumers = [Consumer() for _ in range(4)]
        self.topics = Topics(TOPICS)
        self.new_id = numbered()

    who = st.integers(0, 3)

    @rule(
        who=who,
        lets_go=st.booleans(),
        is_lost=st.booleans(),
        topics=st.sampled_from([None, frozenset({"a"}), frozenset({"a", "b"})]),
    )
    def beat(self, who: int, lets_go: bool, is_lost: bool, topics: frozenset[str] | None) -> None:
        consumer = self.consumers[who]
        if lets_go:
            consumer.holds = consumer.told
        beat = says(consumer.member_id, consumer.epoch, owned=consumer.holds)
        if consumer.epoch != JOINS:
            beat = beat._replace(topics=topics)
        try:
            told = self.group.beat(beat, self.topics, self.new_id, self.now_ms)
        except GroupError:
            consumer.epoch, consumer.holds, consumer.told = JOINS, frozenset(), frozenset()
            return
        finally:
            self.store()
        consumer.member_id = told.member_id
        if is_lost and consumer.epoch != JOINS:
            return
        consumer.epoch = told.epoch
        if told.share is not None:
            consumer.told = told.share
            consumer.holds |= told.share

    @rule(who=who)
    def leave(self, who: int) -> None:
        consumer = self.consumers[who]
        if consumer.epoch != JOINS:
            try:
                self.group.beat(says(consumer.member_id, LEAVES), self.topics, self.new_id, self.now_ms)
            except UnknownMember:
                pass
            self.store()
            self.consumers[who] = Consumer()

    @rule()
    def grow(self) -> None:
        self.topics["a"] = TopicShape(A, self.topics["a"].partitions + 1)

    @rule(milliseconds=st.sampled_from([100, 20_000, 50_000]))
    def wait(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.group.pass_time(self.topics, self.now_ms)
        self.store()

    def store(self) -> None:
        for mutation in self.group.take_changes():
            if mutation.value is None:
                self.stored.pop(mutation.key, None)
            elif mutation.scope.startswith("directed/"):
                self.stored[mutation.key] = mutation.value

    @invariant()
    def nothing_is_given_to_two(self) -> None:
        given_out = [place for m in self.group.members.values() for place in (*m.share, *m.revoking)]
        assert len(given_out) == len(set(given_out))

    @invariant()
    def living_members_never_hold_the_same(self) -> None:
        alive = [c for c in self.consumers if c.member_id in self.group.members and c.epoch != JOINS]
        held = [place for consumer in alive for place in consumer.holds]
        assert len(held) == len(set(held))

    @invariant()
    def what_is_stored_is_what_is(self) -> None:
        again = group_of()
        for key, value in self.stored.items():
            again.replay(key, value)
        assert again.epoch == self.group.epoch
        assert again.target == self.group.target
        assert {m.id: m.entry() for m in again.members.values()} == {
            m.id: m.entry() for m in self.group.members.values()
        }

    def teardown(self) -> None:
        if not hasattr(self, "group"):
            return
        for _ in range(12):
            for who in range(4):
                self.beat(who, lets_go=True, is_lost=False, topics=None)
            self.now_ms += 10_000
            self.group.pass_time(self.topics, self.now_ms)
        assert self.group.state is DirectedState.STABLE
        held = sorted(place for consumer in self.consumers for place in consumer.holds)
        wanted = {name for m in self.group.members.values() for name in m.topics}
        assert held == sorted(
            TopicPlace(self.topics[n].id, p) for n in wanted for p in range(self.topics[n].partitions)
        )


TestAnyStory = AnyStory.TestCase
TestAnyStory.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
