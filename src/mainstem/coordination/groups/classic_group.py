"""A group whose members share partitions among themselves: one of them, the leader, assigns.

    EMPTY      no members
    JOINING    members are awaited: until all have joined again, or time is up
    ASSIGNING  a generation has begun: the leader's assignment is awaited
    STABLE     everyone knows what to work on

    EMPTY -> JOINING            a first member comes
    JOINING -> ASSIGNING        all have joined, or those who have not are dropped
    JOINING -> EMPTY            nobody is left
    ASSIGNING -> STABLE         the leader has assigned, durably
    ASSIGNING, STABLE -> JOINING   somebody comes, goes, or says something else

Pure: time is passed in, in milliseconds of a clock that never goes back; answers are given by `Answer` objects, at once
or when the others have come. What must survive is handed out as a `GroupEntry`, and `restore` takes it back.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping

from mainstem.coordination.errors import (
    FencedInstance,
    GroupFull,
    InconsistentProtocol,
    MemberIdRequired,
    RebalanceUnderWay,
    StaleGeneration,
    UnknownMember,
)
from mainstem.coordination.groups.classic_members import Assigned, GroupEntry, GroupRules, Joined, JoinWish, Member
from mainstem.storage.answer import Answer


class GroupState(enum.Enum):
    """See the module's table."""

    EMPTY = "empty"
    JOINING = "joining"
    ASSIGNING = "assigning"
    STABLE = "stable"


class Group:
    """One group's members and what they wait for."""

    def __init__(self, name: str, rules: GroupRules, new_id: Callable[[], str]) -> None:
        self.name = name
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.proposal: dict[str, bytes] | None = None
        """The leader's assignment, until it is durable."""
        self.is_unsaved = False
        """Whether what `entry` answers has changed otherwise than by an assignment."""
        self.rules = rules
        self._new_id = new_id
        self._instances: dict[str, str] = {}
        self._expected: dict[str, int] = {}
        """Newcomers that were given an id and have not come back with it, by their deadline."""
        self._deadline_ms: int | None = None
        """When JOINING or ASSIGNING has lasted long enough."""
        self._initial_until_ms: int | None = None
        """While the first generation still waits for more members: the latest end of that."""
        self._has_newcomer = False

    # Storage

    def restore(self, entry: GroupEntry, now_ms: int) -> None:
        """Take a stored generation back."""
        self.generation = entry.generation
        self.protocol_type, self.protocol, self.leader = entry.protocol_type, entry.protocol, entry.leader
        for stored in entry.members:
            member = self.members[stored.id] = Member.restored(stored, now_ms)
            if member.instance_id is not None:
                self._instances[member.instance_id] = member.id
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY

    def entry(self, changed_ms: int) -> GroupEntry:
        """What is to be stored, with the leader's proposal if there is one."""
        proposal = self.proposal or {}
        members = tuple(member.entry(proposal.get(member.id)) for member in self.members.values())
        return GroupEntry(self.generation, self.protocol_type, self.protocol, self.leader, members, changed_ms)

    # Joining

    def join(self, wish: JoinWish, now_ms: int) -> Answer[Joined]:
        """Answered when the generation begins. Raises kinds of GroupError."""
        self._check_protocols(wish)
        if wish.member_id:
            return self._join_known(wish, now_ms)
        if wish.instance_id is not None and wish.instance_id in self._instances:
            return self._replace_static(wish, self._instances[wish.instance_id], now_ms)
        self._check_room(len(self._expected))
        member_id = f"{wish.instance_id or wish.client_id}-{self._new_id()}"
        if wish.id_required and wish.instance_id is None:
            self._expected[member_id] = now_ms + wish.session_timeout_ms
            raise MemberIdRequired(member_id)
        return self._add(member_id, wish, now_ms)

    def _check_protocols(self, wish: JoinWish) -> None:
        if not wish.protocol_type or not wish.protocols:
            raise InconsistentProtocol("a member must know at least one protocol")
        others = [m for m in self.members.values() if m.id != wish.member_id]
        if not others:
            return
        if wish.protocol_type != self.protocol_type:
            raise InconsistentProtocol(f"the group is of the type {self.protocol_type}")
        common = {name for name, _ in wish.protocols}
        for member in others:
            common &= {name for name, _ in member.protocols}
        if not common:
            raise InconsistentProtocol("no protocol is known to all members")

    def _check_room(self, expected: int) -> None:
        if len(self.members) + expected >= self.rules.members_max:
            raise GroupFull(f"{self.rules.members_max} members")

    def _join_known(self, wish: JoinWish, now_ms: int) -> Answer[Joined]:
        if wish.member_id in self._expected:
            self._check_room(0)
            del self._expected[wish.member_id]
            return self._add(wish.member_id, wish, now_ms)
        member = self._find(wish.member_id, wish.instance_id)
        is_changed = member.protocols != wish.protocols
        if self.state is GroupState.ASSIGNING and not is_changed:
            # It did not get our answer: say it again.
            return Answer.of(self._joined(member))
        if self.state is GroupState.STABLE and not is_changed and member.id != self.leader:
            member.touch(now_ms)
            return Answer.of(self._joined(member))
        member.take(wish)
        return self._await_join(member, now_ms)

    def _add(self, member_id: str, wish: JoinWish, now_ms: int) -> Answer[Joined]:
        if not self.members:
            self.protocol_type = wish.protocol_type
        member = self.members[member_id] = Member(member_id, wish, now_ms)
        if member.instance_id is not None:
            self._instances[member.instance_id] = member_id
        self._has_newcomer = True
        return self._await_join(member, now_ms)

    def _await_join(self, member: Member, now_ms: int) -> Answer[Joined]:
        if member.joining is not None:
            member.joining.fail(UnknownMember("joined again from elsewhere"))
        answer = member.joining = Answer[Joined]()
        self._rebalance(now_ms)
        self._complete_if_all_joined(now_ms)
        return answer

    def _replace_static(self, wish: JoinWish, old_id: str, now_ms: int) -> Answer[Joined]:
        """A static member has restarted: it takes its own place, and the former holder is fenced."""
        assert wish.instance_id is not None
        old = self.members.pop(old_id)
        old.fail(FencedInstance(f"{wish.instance_id} has started anew"))
        said_before = old.metadata(self.protocol or "")
        member = Member(f"{wish.instance_id}-{self._new_id()}", wish, now_ms)
        member.assignment = old.assignment
        self.members[member.id] = member
        self._instances[wish.instance_id] = member.id
        was_leader = self.leader == old_id
        if was_leader:
            self.leader = member.id
        if self.state is GroupState.STABLE and member.metadata(self.protocol or "") == said_before:
            self.is_unsaved = True
            joined = self._joined(member)
            if was_leader and not wish.skips_assignment:
                # Told that somebody else leads, it takes its assignment and leaves that of the others alone.
                joined = joined._replace(leader=old_id, members=())
            return Answer.of(joined._replace(skip_assignment=was_leader and wish.skips_assignment))
        return self._await_join(member, now_ms)

    def _joined(self, member: Member) -> Joined:
        protocol = self.protocol or ""
        members: tuple[tuple[str, str | None, bytes], ...] = ()
        if member.id == self.leader:
            members = tuple((m.id, m.instance_id, m.metadata(protocol)) for m in self.members.values())
        return Joined(self.generation, self.protocol_type or "", protocol, self.leader or "", member.id, members)

    # Rebalancing

    def begin_anew(self, now_ms: int) -> None:
        """Somebody else has assigned until now: have everybody join."""
        self._rebalance(now_ms)

    def abandon(self) -> None:
        """The members go on in a group of another kind: those who wait join there."""
        for member in self.members.values():
            member.fail(RebalanceUnderWay("the group begins anew"))

    def _rebalance(self, now_ms: int) -> None:
        """Begin to await everybody, unless that is so already."""
        if self.state is GroupState.JOINING:
            return
        for member in self.members.values():
            if member.syncing is not None:
                member.fail(RebalanceUnderWay("the group begins anew"))
                member.touch(now_ms)
        self.proposal = None
        timeout_ms = self._rebalance_timeout_ms()
        if self.state is GroupState.EMPTY and self.rules.initial_delay_ms > 0:
            self._initial_until_ms = now_ms + timeout_ms
            self._deadline_ms = now_ms + min(self.rules.initial_delay_ms, timeout_ms)
            self._has_newcomer = False
        else:
            self._deadline_ms = now_ms + timeout_ms
        self.state = GroupState.JOINING

    def _rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _complete_if_all_joined(self, now_ms: int) -> None:
        if self.state is not GroupState.JOINING or self._initial_until_ms is not None:
            return
        if not self._expected and all(member.joining is not None for member in self.members.values()):
            self._begin_generation(now_ms)

    def _joining_ended(self, now_ms: int) -> None:
        """The time to join is up: once more while newcomers come, else with those who are here."""
        until = self._initial_until_ms
        if until is not None and self._has_newcomer and now_ms < until:
            self._has_newcomer = False
            self._deadline_ms = min(now_ms + self.rules.initial_delay_ms, until)
            return
        self._initial_until_ms = None
        for member in list(self.members.values()):
            if member.joining is None and member.instance_id is None:
                self._drop(member)
        if self.members and not any(member.joining for member in self.members.values()):
            # Static members only, none of which has come back: their sessions decide.
            self._deadline_ms = now_ms + self._rebalance_timeout_ms()
            return
        self._begin_generation(now_ms)

    def _begin_generation(self, now_ms: int) -> None:
        self._initial_until_ms = self._deadline_ms = None
        self.generation += 1
        if not self.members:
            self.state = GroupState.EMPTY
            self.protocol = self.leader = None
            self.is_unsaved = True
            return
        self.protocol = self._vote()
        if self.leader not in self.members or self.members[self.leader].joining is None:
            self.leader = next(member.id for member in self.members.values() if member.joining is not None)
        self.state = GroupState.ASSIGNING
        self._deadline_ms = now_ms + self._rebalance_timeout_ms()
        for member in self.members.values():
            member.assignment = b""
            if member.joining is not None:
                joining, member.joining = member.joining, None
                member.touch(now_ms)
                joining.resolve(self._joined(member))

    def _vote(self) -> str:
        """The protocol that most members prefer among those that all of them know."""
        known = [{name for name, _ in member.protocols} for member in self.members.values()]
        common = set.intersection(*known)
        votes = Counter(
            next(name for name, _ in member.protocols if name in common) for member in self.members.values()
        )
        return max(votes, key=lambda name: votes[name])

    # Assigning

    def sync(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocols: tuple[str | None, str | None],
        assignments: Mapping[str, bytes],
        now_ms: int,
    ) -> Answer[Assigned]:
        """Answered when the leader's assignment is durable. Raises kinds of GroupError."""
        member = self._find(member_id, instance_id, generation)
        if any(
            said not in (None, known)
            for said, known in zip(protocols, (self.protocol_type, self.protocol), strict=True)
        ):
            raise InconsistentProtocol(f"the group uses {self.protocol_type} {self.protocol}")
        if self.state is GroupState.JOINING:
            raise RebalanceUnderWay("join first")
        member.touch(now_ms)
        if self.state is GroupState.STABLE:
            return Answer.of(self._assigned(member))
        if member.syncing is not None:
            member.syncing.fail(UnknownMember("asked again from elsewhere"))
        answer = member.syncing = Answer[Assigned]()
        if member_id == self.leader and self.proposal is None:
            self.proposal = {member.id: assignments.get(member.id, b"") for member in self.members.values()}
        return answer

    def assign(self, generation: int, now_ms: int) -> None:
        """The leader's proposal is durable: let everybody know."""
        if self.state is not GroupState.ASSIGNING or generation != self.generation or self.proposal is None:
            return  # The group has gone on meanwhile, and those who waited were told.
        for member in self.members.values():
            member.assignment = self.proposal.get(member.id, b"")
        self.proposal = None
        self.state = GroupState.STABLE
        self._deadline_ms = None
        for member in self.members.values():
            if member.syncing is not None:
                syncing, member.syncing = member.syncing, None
                member.touch(now_ms)
                syncing.resolve(self._assigned(member))

    def fail_assignment(self, generation: int, error: Exception, now_ms: int) -> None:
        """The proposal could not be stored: everybody is to begin anew."""
        if self.state is GroupState.ASSIGNING and generation == self.generation:
            self.proposal = None
            for member in self.members.values():
                member.fail(error)
            self._rebalance(now_ms)

    def _assigned(self, member: Member) -> Assigned:
        return Assigned(self.protocol_type or "", self.protocol or "", member.assignment)

    # Living and leaving

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now_ms: int) -> None:
        """The member lives. Raises kinds of GroupError: RebalanceUnderWay when it is to join again."""
        member = self._find(member_id, instance_id, generation)
        member.touch(now_ms)
        if self.state is GroupState.JOINING:
            raise RebalanceUnderWay("join again")

    def check_commit(self, member_id: str, instance_id: str | None, generation: int, now_ms: int) -> None:
        """Whether offsets may be committed in this generation. Raises kinds of GroupError."""
        if generation < 0 and not self.members:
            return  # not by a member: an administrator, or a consumer that assigns itself
        member = self._find(member_id, instance_id, generation)
        if self.state is GroupState.ASSIGNING:
            raise RebalanceUnderWay("offsets wait for the assignment")
        member.touch(now_ms)

    def leave(self, member_id: str, instance_id: str | None, now_ms: int) -> str:
        """The member is gone; answers its id. Raises kinds of GroupError."""
        if instance_id is not None and not member_id:
            member_id = self._instances.get(instance_id, "")
        if self._expected.pop(member_id, None) is None:
            self._remove(self._find(member_id, instance_id), now_ms)
        else:
            self._complete_if_all_joined(now_ms)
        return member_id

    def _find(self, member_id: str, instance_id: str | None, generation: int | None = None) -> Member:
        if instance_id is not None and self._instances.get(instance_id, member_id) != member_id:
            raise FencedInstance(f"{instance_id} has started anew")
        member = self.members.get(member_id)
        if member is None or (instance_id is not None and instance_id not in self._instances):
            raise UnknownMember(f"{member_id or 'nobody'} is no member of {self.name}")
        if generation is not None and generation != self.generation:
            raise StaleGeneration(f"generation {generation}; the current one is {self.generation}")
        return member

    def _drop(self, member: Member) -> None:
        del self.members[member.id]
        if member.instance_id is not None:
            del self._instances[member.instance_id]
        member.fail(UnknownMember(f"{member.id} has left"))

    def _remove(self, member: Member, now_ms: int) -> None:
        self._drop(member)
        self._rebalance(now_ms)
        if not self.members:
            self._initial_until_ms = None
        self._complete_if_all_joined(now_ms)

    # Time

    def next_deadline_ms(self) -> int | None:
        """When `pass_time` has something to do."""
        deadlines = [member.deadline_ms for member in self.members.values() if member.joining is None]
        deadlines += self._expected.values()
        if self._deadline_ms is not None:
            deadlines.append(self._deadline_ms)
        return min(deadlines, default=None)

    def pass_time(self, now_ms: int) -> None:
        """Drop who has been silent for too long, and end waits whose time is up."""
        for member_id, deadline_ms in list(self._expected.items()):
            if deadline_ms <= now_ms:
                del self._expected[member_id]
                self._complete_if_all_joined(now_ms)
        for member in list(self.members.values()):
            if member.id in self.members and member.joining is None and member.deadline_ms <= now_ms:
                self._remove(member, now_ms)
        if self._deadline_ms is not None and self._deadline_ms <= now_ms:
            if self.state is GroupState.JOINING:
                self._joining_ended(now_ms)
            elif self.state is GroupState.ASSIGNING:
                self._assigning_ended(now_ms)

    def _assigning_ended(self, now_ms: int) -> None:
        """Who did not ask for its assignment in time is dropped, and the group begins anew."""
        self._deadline_ms = None
        for member in list(self.members.values()):
            if member.syncing is None:
                self._drop(member)
        self._rebalance(now_ms)
        self._complete_if_all_joined(now_ms)
