"""Members of both protocols in one group: no partition is ever with two of them, and everybody gets there in the end."""

import itertools
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mainstem.coordination.errors import GroupError, MemberIdRequired, RebalanceUnderWay, UnknownGroup
from mainstem.coordination.groups.classic_group import Group, GroupState
from mainstem.coordination.groups.classic_members import GroupRules, JoinWish
from mainstem.coordination.groups.directed_group import DirectedGroup, DirectedState
from mainstem.coordination.groups.group_offsets import TopicPlace
from mainstem.coordination.groups.heartbeats import JOINS, LEAVES, Beat, BeatRules
from mainstem.coordination.groups.mixed_group import ClassicMembers, downgraded, upgraded
from mainstem.coordination.groups.topology import TopicShape
from mainstem.wire.kafka.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from tests.support.worlds.topologies import Topics

T = UUID(int=1)
TOPICS = Topics({"t": TopicShape(T, 5)})
Partitions = frozenset[int]


def wish(member_id: str, owned: Partitions, *, protocol: str = "cooperative-sticky", version: int = 3) -> JoinWish:
    said = {"topics": ["t"], "owned_partitions": [{"topic": "t", "partitions": sorted(owned)}]}
    metadata = bytes(encode_subscription(said, version))
    return JoinWish(member_id, None, "c", "", 10_000, 20_000, "consumer", ((protocol, metadata),), True, True)


def partitions(assignment: bytes) -> Partitions:
    _, said = decode_assignment(assignment)
    return frozenset(partition for entry in said.assigned_partitions for partition in entry.partitions)


def places(owned: Partitions) -> frozenset[TopicPlace]:
    return frozenset(TopicPlace(T, partition) for partition in owned)


def stable_classic(*shares: tuple[int, ...], protocol_type: str = "consumer") -> Group:
    """A group whose members have these partitions."""
    numbers = itertools.count()
    group = Group("g", GroupRules(initial_delay_ms=0), lambda: str(next(numbers)))
    ids = []
    for _ in shares:
        said = wish("", frozenset())._replace(id_required=False, protocol_type=protocol_type)
        answer = group.join(said, 0)
        for member_id in ids:
            group.join(said._replace(member_id=member_id), 0)
        ids.append(answer.result().member_id)
    assigned = {
        member_id: bytes(encode_assignment({"assigned_partitions": [{"topic": "t", "partitions": list(share)}]}))
        for member_id, share in zip(ids, shares, strict=True)
    }
    for member_id in ids:
        group.sync(member_id, None, group.generation, (None, None), assigned if member_id == group.leader else {}, 0)
    group.assign(group.generation, 0)
    assert group.state is GroupState.STABLE
    return group


def test_there_and_back() -> None:
    classic = stable_classic((0, 1, 2), (3, 4))
    group = upgraded(classic, BeatRules(10), TOPICS, 0)
    assert group.epoch == classic.generation
    assert {m: sorted(p.partition for p in share) for m, share in group.target.items()} == {
        "c-0": [0, 1, 2],
        "c-1": [3, 4],
    }
    assert group.is_to_downgrade, "until somebody of the newer protocol is in it"
    entry = downgraded(group, TOPICS, 7)
    assert (entry.generation, entry.protocol_type, entry.changed_ms) == (classic.generation, "consumer", 7)
    assert [partitions(member.assignment) for member in entry.members] == [{0, 1, 2}, {3, 4}]
    again = Group("g", GroupRules(), lambda: "")
    again.restore(entry, 0)
    again.heartbeat("c-0", None, classic.generation, 0)


def test_what_is_not_taken_over() -> None:
    with pytest.raises(UnknownGroup):
        upgraded(stable_classic((0,)), BeatRules(10, may_upgrade=False), TOPICS, 0)
    with pytest.raises(UnknownGroup):
        upgraded(stable_classic((0,), protocol_type="connect"), BeatRules(10), TOPICS, 0)
    with pytest.raises(UnknownGroup):
        upgraded(stable_classic((0,), (1,)), BeatRules(1), TOPICS, 0)


def test_a_member_is_answered_in_the_version_it_speaks() -> None:
    group = upgraded(stable_classic((0,)), BeatRules(10, may_downgrade=False), TOPICS, 0)
    members = ClassicMembers(group, TOPICS)
    joined = members.join(wish("old", frozenset(), version=0), lambda: "", 0)
    assigned = members.sync("old", None, joined.generation, (None, None), 0)
    assert decode_assignment(assigned.assignment)[0] == 0


def test_who_does_not_join_again_is_dropped() -> None:
    group = DirectedGroup("g", BeatRules(10))
    group.beat(Beat("new", JOINS, "", frozenset({"t"}), rebalance_timeout_ms=1_000), TOPICS, lambda: "", 0)
    members = ClassicMembers(group, TOPICS)
    joined = members.join(wish("old", frozenset()), lambda: "", 0)
    members.sync("old", None, joined.generation, (None, None), 0)
    group.beat(Beat("newer", JOINS, "", frozenset({"t"}), rebalance_timeout_ms=1_000), TOPICS, lambda: "", 0)
    for now_ms in (1_000, 9_000, 18_000):
        with pytest.raises(RebalanceUnderWay):
            members.heartbeat("old", None, joined.generation, now_ms)
        group.beat(Beat("new", 1 if now_ms == 1_000 else group.members["new"].epoch, ""), TOPICS, lambda: "", now_ms)
    assert group.members["old"].rejoin_by_ms == 21_000
    group.pass_time(TOPICS, 21_000)
    assert "old" not in group.members


class Member:
    """What one member knows and holds; classic ones are cooperative or eager."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.id = ""
        self.epoch = JOINS
        self.holds: Partitions = frozenset()
        self.must_join = True

    def forget(self) -> None:
        self.epoch, self.holds, self.must_join = JOINS, frozenset(), True


class AnyRoll(RuleBasedStateMachine):
    """Members of both kinds that come, go, are silent and change places."""

    @initialize()
    def begin(self) -> None:
        self.now_ms = 0
        self.group = DirectedGroup("g", BeatRules(100, may_downgrade=False))
        self.topics = Topics(TOPICS)
        kinds = ("new", "new", "cooperative", "eager", "cooperative")
        self.members = [Member(kind) for kind in kinds]
        numbers = itertools.count(1)
        self.new_id = lambda: f"m{next(numbers)}"

    who = st.integers(0, 4)

    @rule(who=who)
    def step(self, who: int) -> None:
        member = self.members[who]
        try:
            if member.kind == "new":
                self._beat(member)
            elif member.must_join:
                self._join(member)
            else:
                self._show_life(member)
        except GroupError:
            member.forget()

    def _beat(self, member: Member) -> None:
        is_joining = member.epoch == JOINS
        beat = Beat(
            member.id,
            member.epoch,
            "c",
            frozenset({"t"}) if is_joining else None,
            rebalance_timeout_ms=20_000 if is_joining else -1,
            owned=places(member.holds),
        )
        told = self.group.beat(beat, self.topics, self.new_id, self.now_ms)
        member.id, member.epoch = told.member_id, told.epoch
        if told.share is not None:
            member.holds = frozenset(place.partition for place in told.share)

    def _join(self, member: Member) -> None:
        if member.kind == "eager":
            member.holds = frozenset()
        members = ClassicMembers(self.group, self.topics)
        try:
            joined = members.join(wish(member.id, member.holds), self.new_id, self.now_ms)
        except MemberIdRequired as required:
            member.id = required.member_id
            joined = members.join(wish(member.id, member.holds), self.new_id, self.now_ms)
        member.epoch = joined.generation
        try:
            assigned = members.sync(member.id, None, joined.generation, ("consumer", None), self.now_ms)
        except RebalanceUnderWay:
            return
        share = partitions(assigned.assignment)
        member.must_join = bool(member.holds - share)  # a cooperative member joins again when it has let go
        member.holds = share

    def _show_life(self, member: Member) -> None:
        try:
            ClassicMembers(self.group, self.topics).heartbeat(member.id, None, member.epoch, self.now_ms)
        except RebalanceUnderWay:
            member.must_join = True

    @rule(who=who)
    def leave(self, who: int) -> None:
        member = self.members[who]
        try:
            if member.kind == "new":
                self.group.beat(Beat(member.id, LEAVES, ""), self.topics, self.new_id, self.now_ms)
            else:
                ClassicMembers(self.group, self.topics).leave(member.id, None)
        except GroupError:
            pass
        self.members[who] = Member(member.kind)

    @rule()
    def grow(self) -> None:
        self.topics["t"] = TopicShape(T, self.topics["t"].partitions + 1)

    @rule(milliseconds=st.sampled_from([100, 9_000, 25_000, 50_000]))
    def wait(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.group.pass_time(self.topics, self.now_ms)

    @invariant()
    def nothing_is_given_to_two(self) -> None:
        given_out = [place for m in self.group.members.values() for place in (*m.share, *m.revoking)]
        assert len(given_out) == len(set(given_out))

    @invariant()
    def living_members_never_hold_the_same(self) -> None:
        alive = [m for m in self.members if m.id in self.group.members and m.epoch != JOINS]
        held = [partition for member in alive for partition in member.holds]
        assert len(held) == len(set(held))

    @invariant()
    def what_is_stored_is_what_is(self) -> None:
        for member in self.group.members.values():
            assert type(member).restored(member.entry()).entry() == member.entry()

    def teardown(self) -> None:
        if not hasattr(self, "group"):
            return
        for _ in range(25):
            for who in range(5):
                self.step(who)
            self.now_ms += 2_000
            self.group.pass_time(self.topics, self.now_ms)
        assert self.group.state is DirectedState.STABLE
        held = sorted(partition for member in self.members for partition in member.holds)
        assert held == list(range(self.topics["t"].partitions))


TestAnyRoll = AnyRoll.TestCase
TestAnyRoll.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
