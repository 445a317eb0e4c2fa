"""Groups: the story of a few members, and any story against a small model."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mainstem.coordination.errors import (
    FencedInstance,
    GroupError,
    GroupFull,
    InconsistentProtocol,
    MemberIdRequired,
    RebalanceUnderWay,
    StaleGeneration,
    UnknownMember,
)
from mainstem.coordination.groups.classic_group import Group, GroupState
from mainstem.coordination.groups.classic_members import Assigned, GroupRules, Joined, JoinWish
from mainstem.storage.answer import Answer

SESSION_MS = 10_000
REBALANCE_MS = 30_000
RULES = GroupRules(initial_delay_ms=0)
DELAYED = GroupRules(initial_delay_ms=3_000)


def numbered() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: str(next(numbers))


def new_group(rules: GroupRules = RULES) -> Group:
    return Group("g", rules, numbered())


def wish(member_id: str = "", instance_id: str | None = None, **said: object) -> JoinWish:
    base = JoinWish(
        member_id=member_id,
        instance_id=instance_id,
        client_id="c",
        client_host="",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        protocol_type="consumer",
        protocols=(("range", b"r"),),
        id_required=False,
        skips_assignment=False,
    )
    return base._replace(**said)  # type: ignore[arg-type]


def sync(group: Group, joined: Joined, now_ms: int, **assignments: bytes) -> Answer[Assigned]:
    return group.sync(joined.member_id, None, joined.generation, (None, None), assignments, now_ms)


def settled(rules: GroupRules = RULES, members: int = 2) -> tuple[Group, list[Joined]]:
    """A stable group of `count` members; the first one leads."""
    group = new_group(rules)
    answers = [group.join(wish(), 0)]
    for _ in range(members - 1):
        answers.append(group.join(wish(), 0))
        answers[0] = group.join(wish("c-1"), 0) if answers[0].done else answers[0]
        for index, answer in enumerate(answers[1:-1], start=1):
            if answer.done:
                answers[index] = group.join(wish(answer.result().member_id), 0)
    joined = [answer.result() for answer in answers]
    for one in joined:
        sync(group, one, 0, **{other.member_id: other.member_id.encode() for other in joined})
    group.assign(group.generation, 0)
    assert group.state is GroupState.STABLE
    return group, joined


def test_a_first_member_leads_alone() -> None:
    group = new_group()
    joined = group.join(wish(), 0).result()
    assert (joined.generation, joined.leader, joined.protocol) == (1, "c-1", "range")
    assert joined.members == (("c-1", None, b"r"),)
    assigned = sync(group, joined, 0, **{"c-1": b"all"})
    assert not assigned.done, "answered before it was stored"
    group.assign(1, 0)
    assert assigned.result() == Assigned("consumer", "range", b"all")
    assert group.state is GroupState.STABLE


def test_a_second_member_makes_the_first_join_again() -> None:
    group, (first,) = settled(members=1)
    newcomer = group.join(wish(), 5)
    assert not newcomer.done
    with pytest.raises(RebalanceUnderWay):
        group.heartbeat(first.member_id, None, 1, 6)
    with pytest.raises(RebalanceUnderWay):
        sync(group, first, 6)
    again = group.join(wish(first.member_id), 7)
    assert (again.result().generation, newcomer.result().generation) == (2, 2)
    assert newcomer.result().members == ()
    assert {m[0] for m in again.result().members} == {first.member_id, newcomer.result().member_id}
    with pytest.raises(StaleGeneration):
        group.heartbeat(first.member_id, None, 1, 8)


def test_who_does_not_join_again_is_dropped_when_time_is_up() -> None:
    group, _ = settled(members=1)
    newcomer = group.join(wish(), 0)
    group.pass_time(SESSION_MS - 1)
    assert not newcomer.done
    group.pass_time(SESSION_MS)
    assert newcomer.result().generation == 2
    assert list(group.members) == [newcomer.result().member_id]


def test_a_leader_that_never_assigns_is_dropped() -> None:
    group = new_group()
    first = group.join(wish(session_timeout_ms=100_000), 0).result()
    second = group.join(wish(session_timeout_ms=100_000), 0)
    group.join(wish(first.member_id, session_timeout_ms=100_000), 0)
    waiting = sync(group, second.result(), 0)
    group.pass_time(REBALANCE_MS)
    assert isinstance(waiting.error, RebalanceUnderWay)
    assert first.member_id not in group.members


def test_the_first_generation_waits_for_more_members() -> None:
    group = new_group(DELAYED)
    first = group.join(wish(), 0)
    group.pass_time(2_000)
    second = group.join(wish(), 2_000)
    group.pass_time(3_000)
    assert not first.done, "a newcomer prolongs the wait"
    assert group.next_deadline_ms() == 6_000
    group.pass_time(6_000)
    assert first.result().generation == second.result().generation == 1


def test_a_newcomer_may_be_asked_to_come_back_with_an_id() -> None:
    group = new_group()
    with pytest.raises(MemberIdRequired) as told:
        group.join(wish(id_required=True), 0)
    member_id = told.value.member_id
    assert group.join(wish(member_id, id_required=True), 1).result().member_id == member_id
    with pytest.raises(MemberIdRequired):
        group.join(wish(id_required=True), 2)
    group.pass_time(SESSION_MS + 2)
    assert group.state is GroupState.EMPTY, "its session ended, and the id that was given was never used"


def test_no_protocol_in_common() -> None:
    group, _ = settled(members=1)
    with pytest.raises(InconsistentProtocol):
        group.join(wish(protocols=(("sticky", b""),)), 0)
    with pytest.raises(InconsistentProtocol):
        group.join(wish(protocol_type="connect"), 0)
    with pytest.raises(InconsistentProtocol):
        group.join(wish(protocols=()), 0)


def test_the_protocol_that_most_prefer_is_chosen() -> None:
    group = new_group(DELAYED)
    a, b, c = (("a", b""), ("b", b"")), (("b", b""), ("a", b"")), (("c", b""), ("b", b""), ("a", b""))
    answers = [group.join(wish(protocols=protocols), 0) for protocols in (a, b, c)]
    group.pass_time(3_000)
    group.pass_time(6_000)
    assert {answer.result().protocol for answer in answers} == {"b"}


def test_a_full_group_takes_nobody() -> None:
    group, _ = settled(GroupRules(initial_delay_ms=0, members_max=1), members=1)
    with pytest.raises(GroupFull):
        group.join(wish(), 0)


def test_leaving_ends_in_an_empty_group() -> None:
    group, (one, two) = settled()
    group.leave(one.member_id, None, 0)
    assert group.state is GroupState.JOINING
    with pytest.raises(UnknownMember):
        group.leave(one.member_id, None, 0)
    group.leave(two.member_id, None, 0)
    assert group.state is GroupState.EMPTY
    assert group.is_unsaved


def test_a_static_member_takes_its_own_place() -> None:
    group = new_group()
    joined = group.join(wish(instance_id="i"), 0).result()
    group.sync(joined.member_id, "i", 1, (None, None), {joined.member_id: b"mine"}, 0)
    group.assign(1, 0)
    back = group.join(wish(instance_id="i", skips_assignment=True), 1).result()
    assert (back.generation, back.leader, back.skip_assignment) == (1, back.member_id, True)
    assert back.member_id != joined.member_id
    assigned = group.sync(back.member_id, "i", 1, ("consumer", "range"), {}, 1).result()
    assert assigned.assignment == b"mine"
    with pytest.raises(FencedInstance):
        group.heartbeat(joined.member_id, "i", 1, 1)
    assert group.is_unsaved
    group.leave("", "i", 2)
    assert not group.members


def test_offsets_are_for_members_of_the_generation_or_for_nobodys_group() -> None:
    group, (one, _) = settled()
    group.check_commit(one.member_id, None, one.generation, 0)
    with pytest.raises(UnknownMember):
        group.check_commit("", None, -1, 0)
    with pytest.raises(StaleGeneration):
        group.check_commit(one.member_id, None, one.generation - 1, 0)
    new_group().check_commit("", None, -1, 0)


def test_a_proposal_that_cannot_be_stored_lets_everybody_begin_anew() -> None:
    group = new_group()
    joined = group.join(wish(), 0).result()
    waiting = sync(group, joined, 0)
    group.fail_assignment(1, UnknownMember("no"), 0)
    assert isinstance(waiting.error, UnknownMember)
    assert group.state is GroupState.JOINING


class Client:
    """What one member knows."""

    def __init__(self, instance_id: str | None) -> None:
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.joining: Answer[Joined] | None = None
        self.syncing: Answer[Assigned] | None = None
        self.is_leader = False


class AnyStory(RuleBasedStateMachine):
    """Whatever members do, in whatever order: the rules that clients rely on hold."""

    @initialize(delay=st.sampled_from([0, 3_000]))
    def begin(self, delay: int) -> None:
        self.now_ms = 0
        self.group = Group("g", GroupRules(initial_delay_ms=delay), numbered())
        self.clients = [Client(None), Client(None), Client("i"), Client("j")]
        self.joined: dict[int, list[Joined]] = {}
        self.proposals: dict[int, dict[str, bytes]] = {}
        self.assigned: list[tuple[int, str, bytes]] = []

    who = st.integers(0, 3)

    @rule(who=who, forgets=st.booleans(), says=st.sampled_from([b"x", b"y"]))
    def join(self, who: int, forgets: bool, says: bytes) -> None:
        client = self.clients[who]
        if client.joining is not None or client.syncing is not None:
            return
        if forgets:
            client.member_id = ""
        try:
            client.joining = self.group.join(
                wish(client.member_id, client.instance_id, protocols=(("range", says),)), self.now_ms
            )
        except UnknownMember:
            client.member_id = ""
        except FencedInstance:
            client.member_id = ""
        self.collect()

    @rule(who=who)
    def sync(self, who: int) -> None:
        client = self.clients[who]
        if client.joining is not None or client.syncing is not None or client.generation < 0:
            return
        proposal: dict[str, bytes] = {}
        if client.is_leader:
            proposal = {
                member_id: b"%d:%s" % (client.generation, member_id.encode()) for member_id in self.group.members
            }
        try:
            client.syncing = self.group.sync(
                client.member_id, client.instance_id, client.generation, (None, None), proposal, self.now_ms
            )
        except GroupError:
            client.generation = -1
        self.collect()

    @rule()
    def store(self) -> None:
        if self.group.proposal is not None:
            entry = self.group.entry(0)
            self.proposals[self.group.generation] = {member.id: member.assignment for member in entry.members}
            self.group.assign(self.group.generation, self.now_ms)
            restored = new_group()
            restored.restore(entry, self.now_ms)
            assert restored.state is GroupState.STABLE
            assert {m.id: m.assignment for m in restored.members.values()} == self.proposals[self.group.generation]
            assert restored.generation == self.group.generation
        self.collect()

    @rule(who=who)
    def heartbeat(self, who: int) -> None:
        client = self.clients[who]
        try:
            self.group.heartbeat(client.member_id, client.instance_id, client.generation, self.now_ms)
        except RebalanceUnderWay:
            assert self.group.state is GroupState.JOINING
        except GroupError:
            client.generation = -1
        else:
            assert client.generation == self.group.generation

    @rule(who=who)
    def leave(self, who: int) -> None:
        client = self.clients[who]
        if client.joining is None and client.syncing is None:
            try:
                self.group.leave(client.member_id, client.instance_id, self.now_ms)
            except GroupError:
                pass
            else:
                assert client.member_id not in self.group.members or client.instance_id is None
            client.member_id, client.generation = "", -1
        self.collect()

    @rule(milliseconds=st.sampled_from([1, 1_000, 3_000, 10_000, 30_000]))
    def wait(self, milliseconds: int) -> None:
        until = self.now_ms + milliseconds
        while (due := self.group.next_deadline_ms()) is not None and due <= until:
            self.now_ms = max(self.now_ms, due)
            self.group.pass_time(self.now_ms)
            self.collect()
            after = self.group.next_deadline_ms()
            assert after is None or after > self.now_ms, "time stands still"
        self.now_ms = until

    def collect(self) -> None:
        for client in self.clients:
            if client.joining is not None and client.joining.done:
                answer, client.joining = client.joining, None
                if answer.error is not None:
                    assert isinstance(answer.error, GroupError)
                    client.member_id, client.generation = "", -1
                    continue
                joined = answer.result()
                client.member_id, client.generation = joined.member_id, joined.generation
                client.is_leader = joined.leader == joined.member_id
                self.joined.setdefault(joined.generation, []).append(joined)
            if client.syncing is not None and client.syncing.done:
                assigned, client.syncing = client.syncing, None
                if assigned.error is None:
                    self.assigned.append((client.generation, client.member_id, assigned.result().assignment))
                else:
                    client.generation = -1

    @invariant()
    def one_generation_has_one_leader_who_knows_everybody(self) -> None:
        for generation, answers in self.joined.items():
            assert generation <= self.group.generation
            assert len({answer.protocol for answer in answers}) == 1
            for answer in answers:
                if answer.members:
                    assert answer.leader == answer.member_id
                    assert answer.member_id in {member_id for member_id, _, _ in answer.members}

    @invariant()
    def nobody_is_told_what_was_not_stored(self) -> None:
        for generation, member_id, assignment in self.assigned:
            stored = self.proposals[generation]
            # a static member that came back has a new id and its old assignment
            assert stored.get(member_id, assignment) == assignment
            assert assignment in {*stored.values(), b""}

    @invariant()
    def states_say_what_is_so(self) -> None:
        group = self.group
        waiting = [m for m in group.members.values() if m.joining is not None]
        assert not waiting or group.state is GroupState.JOINING
        assert group.state is not GroupState.EMPTY or not group.members
        if group.state in (GroupState.ASSIGNING, GroupState.STABLE):
            assert group.leader in group.members
        if group.members:
            assert group.next_deadline_ms() is not None, "nobody would ever look"

    def teardown(self) -> None:
        if not hasattr(self, "group"):
            return
        # When nobody says anything any more, everybody is gone in the end and nobody waits.
        for _ in range(20):
            self.store()
            self.wait(30_000)
        assert self.group.state is GroupState.EMPTY
        assert all(client.joining is None and client.syncing is None for client in self.clients)


TestAnyStory = AnyStory.TestCase
TestAnyStory.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
