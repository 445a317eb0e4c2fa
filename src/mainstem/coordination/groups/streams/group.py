"""A streams group (KIP-1071): the broker knows the topology, sees to its internal topics and assigns its tasks.

The group has an epoch, raised whenever members, topics or the number of standbys change. The assignment has an epoch of its own:
it follows the group's when the next heartbeat comes, unless it must wait for further members. Members move to the assignment
one by one, in heartbeats, as those of other groups that the broker assigns do: a member that must let go of a task says when it
has, and only then does another get the task. So no task is active on two members.

No task is assigned while a topic is missing or has a wrong number of partitions; members are told which one.

Pure: time is passed in. What a call changes is noted, and `take_changes` hands it out to be stored before the member is
answered; `replay` takes stored state back.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from uuid import UUID

import msgspec

from mainstem.coordination.errors import (
    FencedMember,
    GroupFull,
    StaleMember,
    TopologyDiffers,
    UnknownMember,
    UnknownTask,
)
from mainstem.coordination.groups.heartbeats import JOINS
from mainstem.coordination.groups.streams.assignor import Candidate, assign_tasks
from mainstem.coordination.groups.streams.heartbeats import (
    EndpointPartitions,
    Status,
    StatusCode,
    StreamsBeat,
    StreamsHeartbeatReply,
    StreamsRules,
    UserEndpoint,
)
from mainstem.coordination.groups.streams.members import (
    ENTRY_KEY,
    INDEX_SCOPE,
    TARGET_KEY,
    TOPOLOGY_KEY,
    StreamsEntry,
    StreamsMember,
    StreamsTarget,
    decode_entry,
    decode_member,
    decode_target,
    is_member_key,
    member_key,
    put,
    scope_of,
)
from mainstem.coordination.groups.streams.tasks import NO_TASKS, Task, Tasks, pack_tasks, unpack_tasks
from mainstem.coordination.groups.streams.topic_plan import TopicPlan, plan_topics
from mainstem.coordination.groups.streams.topology import StreamsTopology
from mainstem.coordination.groups.topology import TopicShape, Topology
from mainstem.storage.contract import Mutation

FIRST_EPOCH = 1
"""Of a group without members; that of the first member is higher."""

_decode_topology = msgspec.msgpack.Decoder(StreamsTopology).decode


class StreamsState(enum.Enum):
    """How far the group is on the way to its assignment."""

    EMPTY = "empty"
    NOT_READY = "not_ready"
    ASSIGNING = "assigning"
    RECONCILING = "reconciling"
    STABLE = "stable"


class StreamsGroup:
    """One group."""

    def __init__(self, name: str, rules: StreamsRules) -> None:
        self.name = name
        self.rules = rules
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = FIRST_EPOCH
        self.topology: StreamsTopology | None = None
        self.members: dict[str, StreamsMember] = {}
        self.target: dict[str, Tasks] = {}
        self.plan = TopicPlan()
        """What was found when somebody last looked at the topics."""
        self._planned: tuple[int, StreamsTopology] | None = None
        self._found: dict[str, TopicShape] = {}
        """The topics of the plan that are there."""
        self._is_ready = False
        self._shapes: dict[str, TopicShape] = {}
        self._standby_replicas = 0
        self._endpoint_epoch = 0
        self._assigned_ms: int | None = None
        self._delayed_until_ms: int | None = None
        self._shutdown_by: str | None = None
        self._changed: set[str] = set()
        self._is_changed = False
        self._is_target_new = False
        self._is_topology_new = False

    # Storage

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one stored mutation."""
        if value is None:
            return
        if key == ENTRY_KEY:
            entry = decode_entry(value)
            self.epoch, self.assignment_epoch = entry.epoch, entry.assignment_epoch
            self._endpoint_epoch, self._standby_replicas = entry.endpoint_epoch, entry.standby_replicas
            self._is_ready = entry.is_ready
            self._shapes = {name: TopicShape(UUID(bytes=id_), count) for name, (id_, count) in entry.shapes.items()}
        elif key == TARGET_KEY:
            self.target = {
                member: Tasks(unpack_tasks(active), unpack_tasks(standby))
                for member, (active, standby) in decode_target(value).tasks.items()
            }
        elif key == TOPOLOGY_KEY:
            self.topology = _decode_topology(value)
        elif is_member_key(key):
            member = StreamsMember.restored(decode_member(value))
            self.members[member.id] = member

    def wake(self, now_ms: int) -> None:
        """After a start, give every member a session to show that it still lives."""
        for member in self.members.values():
            self._touch(member, now_ms)
            if member.revoking:
                member.revoke_by_ms = now_ms + member.rebalance_timeout_ms

    def take_changes(self) -> list[Mutation]:
        """What has changed since the last call, to be stored."""
        mutations = []
        if self._is_changed:
            shapes = {name: (shape.id.bytes, shape.partitions) for name, shape in self._shapes.items()}
            entry = StreamsEntry(
                self.epoch, self.assignment_epoch, self._endpoint_epoch, self._standby_replicas, self._is_ready, shapes
            )
            mutations += [Mutation(INDEX_SCOPE, self.name.encode(), b""), put(self.name, ENTRY_KEY, entry)]
        if self._is_target_new:
            target = {
                member: (pack_tasks(tasks.active), pack_tasks(tasks.standby)) for member, tasks in self.target.items()
            }
            mutations.append(put(self.name, TARGET_KEY, StreamsTarget(target)))
        if self._is_topology_new:
            mutations.append(put(self.name, TOPOLOGY_KEY, self.topology))
        for member_id in sorted(self._changed):
            member = self.members.get(member_id)
            mutations.append(put(self.name, member_key(member_id), None if member is None else member.entry()))
        self._changed.clear()
        self._is_changed = self._is_target_new = self._is_topology_new = False
        return mutations

    def decide_delete(self) -> list[Mutation]:
        """Nothing of the group stays."""
        members = self.members.keys() | self._changed
        return [
            Mutation(INDEX_SCOPE, self.name.encode(), None),
            *(Mutation(scope_of(self.name), key, None) for key in (ENTRY_KEY, TARGET_KEY, TOPOLOGY_KEY)),
            *(put(self.name, member_key(member_id), None) for member_id in sorted(members)),
        ]

    # Heartbeats

    def check(self, beat: StreamsBeat, topics: Topology) -> TopicPlan:
        """Whether the beat can be taken, and what it needs of topics; changes nothing. Raises kinds of GroupError."""
        if beat.epoch == JOINS:
            if beat.member_id not in self.members and len(self.members) >= self.rules.members_max:
                raise GroupFull(f"{self.rules.members_max} members")
        else:
            _check_epoch(self.find(beat.member_id), beat)
        plan = self._plan_topics(self._topology_for(beat), topics)
        if plan.status is None and beat.owned is not None:
            for task in sorted(beat.owned.active | beat.owned.standby):
                if not 0 <= task.partition < plan.task_counts.get(task.subtopology, 0):
                    raise UnknownTask(f"subtopology {task.subtopology} has no task {task.partition}")
        return plan

    def beat(self, beat: StreamsBeat, topics: Topology, now_ms: int) -> StreamsHeartbeatReply:
        """What a member says, and what it is told. Raises kinds of GroupError."""
        if beat.epoch < JOINS:
            return self._leave(beat)
        self.check(beat, topics)
        topology = self._topology_for(beat)
        if topology != self.topology:
            self.topology, self._is_topology_new = topology, True
        is_joining = beat.epoch == JOINS
        member, is_new = (
            self._find_or_add_member(beat.member_id, now_ms) if is_joining else (self.find(beat.member_id), False)
        )
        is_repeated = beat.epoch not in (JOINS, member.epoch)
        if member.take(beat) or is_new:
            self._changed.add(member.id)
            self._raise_epoch()
        self._touch(member, now_ms)
        self._follow()
        if beat.is_shutting_down and self._shutdown_by is None:
            self._shutdown_by = member.id
        delay = self._retarget(now_ms)
        before = member.tasks
        self._reconcile(member, NO_TASKS if is_joining else beat.owned, now_ms)
        is_changed = is_joining or member.tasks != before
        if is_changed and member.endpoint is not None:
            self._raise_endpoint_epoch()
        # An answer may have been lost: what the member has then differs from what it should have.
        is_behind = is_repeated or (beat.owned is not None and beat.owned != member.tasks)
        return StreamsHeartbeatReply(
            member.id,
            member.epoch,
            member.tasks if is_changed or is_behind else None,
            self._statuses(member, delay),
            self._endpoint_epoch,
            None if beat.endpoint_epoch == self._endpoint_epoch else self._endpoints(),
        )

    def _topology_for(self, beat: StreamsBeat) -> StreamsTopology:
        """The topology of the group, or that of its first member. Raises TopologyDiffers."""
        said = beat.topology
        if self.topology is None:
            assert said is not None, "who joins says its topology"
            return said
        if said is not None and said.epoch >= self.topology.epoch and said != self.topology:
            raise TopologyDiffers("Topology updates are not supported yet.")
        return self.topology

    def _plan_topics(self, topology: StreamsTopology, topics: Topology) -> TopicPlan:
        seen = (topics.version, topology)
        if self._planned != seen:
            self.plan = plan_topics(topology, topics)
            self._found = {name: topics[name] for name in sorted(topology.required_topics) if name in topics}
            self._planned = seen
        return self.plan

    def _find_or_add_member(self, member_id: str, now_ms: int) -> tuple[StreamsMember, bool]:
        """The member that joins, and whether the group has not had it before."""
        member = self.members.get(member_id)
        if member is not None:
            return member, False
        if not self.members and self.rules.initial_delay_ms:
            self._delayed_until_ms = now_ms + self.rules.initial_delay_ms
        member = self.members[member_id] = StreamsMember(member_id)
        return member, True

    def _leave(self, beat: StreamsBeat) -> StreamsHeartbeatReply:
        member = self.find(beat.member_id)
        if beat.is_shutting_down and self._shutdown_by is None:
            self._shutdown_by = member.id
        self.remove(member)
        return StreamsHeartbeatReply(member.id, beat.epoch)

    def remove(self, member: StreamsMember) -> None:
        """The member is gone; others get its tasks with their next heartbeats."""
        del self.members[member.id]
        self.target.pop(member.id, None)
        self._is_target_new = True
        self._changed.add(member.id)
        self._raise_epoch()
        if member.endpoint is not None:
            self._raise_endpoint_epoch()
        if not self.members:
            self._shutdown_by = self._delayed_until_ms = None

    def find(self, member_id: str) -> StreamsMember:
        """A member. Raises UnknownMember."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(f"Member {member_id} is not a member of group {self.name}.")
        return member

    # Offsets

    def check_commit(self, member_id: str, epoch: int, places: Iterable[tuple[str, int]]) -> None:
        """Whether a member may commit offsets of these partitions in this epoch. Raises UnknownMember, StaleMember.

        A member whose epoch has been raised meanwhile may still commit what it has held since.
        """
        member = self.find(member_id)
        if epoch == member.epoch:
            return
        if epoch > member.epoch:
            raise StaleMember(f"epoch {epoch}; the current one of {member_id} is {member.epoch}")
        consumers = {} if self.topology is None else self.topology.consumers
        for topic, partition in places:
            since = member.since.get(Task(consumers.get(topic, ""), partition))
            if since is None or epoch < since:
                raise StaleMember(f"{member_id} does not hold partition {partition} of {topic} since epoch {epoch}")

    def check_fetch(self, member_id: str, epoch: int) -> None:
        """Whether a member asks in its current epoch. Raises UnknownMember, StaleMember."""
        member = self.find(member_id)
        if epoch != member.epoch:
            raise StaleMember(f"epoch {epoch}; the current one of {member_id} is {member.epoch}")

    @property
    def subscribed(self) -> frozenset[str]:
        """Topics that members consume."""
        return frozenset(self.topology.consumers if self.topology is not None and self.members else ())

    # The assignment

    def _raise_epoch(self) -> None:
        self.epoch += 1
        self._is_changed = True

    def _raise_endpoint_epoch(self) -> None:
        self._endpoint_epoch += 1
        self._is_changed = True

    def _follow(self) -> None:
        """Raise the epoch if topics or settings are not as they were."""
        found = (self._found, self.plan.status is None, self.rules.standby_replicas)
        if found != (self._shapes, self._is_ready, self._standby_replicas):
            self._shapes, self._is_ready, self._standby_replicas = found
            self._raise_epoch()

    def _retarget(self, now_ms: int) -> str | None:
        """Assign anew if something has changed; answers why that must wait."""
        if self._delayed_until_ms is not None:
            if now_ms < self._delayed_until_ms:
                return "Assignment delayed due to the configured initial rebalance delay."
            self._delayed_until_ms = None
        if self.assignment_epoch >= self.epoch:
            return None
        if self._assigned_ms is not None and now_ms < self._assigned_ms + self.rules.assignment_interval_ms:
            return "Assignment delayed due to the configured assignment interval."
        self.assignment_epoch, self._assigned_ms = self.epoch, now_ms
        self._is_changed = self._is_target_new = True
        if not self._is_ready or self.topology is None:
            self.target = dict.fromkeys(self.members, NO_TASKS)
            return None
        candidates = {
            member.id: Candidate(member.process_id, self.target.get(member.id, NO_TASKS))
            for member in self.members.values()
        }
        stateful = {subtopology.id for subtopology in self.topology.subtopologies if subtopology.changelogs}
        self.target = assign_tasks(candidates, self.plan.task_counts, stateful, self._standby_replicas)
        return None

    def _reconcile(self, member: StreamsMember, owned: Tasks | None, now_ms: int) -> None:
        """Bring a member as near to its assignment as the others allow."""
        before = (member.epoch, member.tasks, member.revoking)
        if member.revoking:
            if owned is None or owned & member.revoking:
                return  # It has not let go yet.
            self._settle(member, member.tasks, NO_TASKS)
        target = self.target.get(member.id, NO_TASKS)
        surplus = member.tasks - target
        if surplus and (owned is None or owned & surplus):
            self._settle(member, member.tasks & target, surplus)
            member.revoke_by_ms = now_ms + member.rebalance_timeout_ms
        else:
            self._settle(member, member.tasks & target, NO_TASKS)
            if target != member.tasks:
                self._settle(member, member.tasks | self._free(target - member.tasks, member), NO_TASKS)
            if member.epoch != self.assignment_epoch:
                member.previous_epoch, member.epoch = member.epoch, self.assignment_epoch
        if before != (member.epoch, member.tasks, member.revoking):
            self._changed.add(member.id)

    def _settle(self, member: StreamsMember, tasks: Tasks, revoking: Tasks) -> None:
        member.tasks, member.revoking = tasks, revoking
        if not revoking:
            member.revoke_by_ms = None
        member.since = {task: member.since.get(task, self.assignment_epoch) for task in tasks.active | revoking.active}

    def _free(self, wanted: Tasks, member: StreamsMember) -> Tasks:
        """Tasks that nobody works on, and that the member's process does not hold in the other way."""
        active, standby = wanted.active, wanted.standby
        for other in self.members.values():
            for held in (other.tasks, other.revoking):
                active -= held.active
                if other.process_id == member.process_id:
                    active -= held.standby
                    standby = standby - held.active - held.standby
        return Tasks(active, standby)

    @property
    def state(self) -> StreamsState:
        """See the enumeration."""
        if not self.members:
            return StreamsState.EMPTY
        if not self._is_ready:
            return StreamsState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsState.ASSIGNING
        is_stable = all(
            member.epoch == self.epoch and not member.revoking and member.tasks == self.target.get(member.id, NO_TASKS)
            for member in self.members.values()
        )
        return StreamsState.STABLE if is_stable else StreamsState.RECONCILING

    # What members are told

    def _statuses(self, member: StreamsMember, delay: str | None) -> tuple[Status, ...]:
        statuses = []
        if self.topology is not None and member.topology_epoch < self.topology.epoch:
            detail = f"The member's topology has epoch {member.topology_epoch}, the group's {self.topology.epoch}."
            statuses.append(Status(StatusCode.STALE_TOPOLOGY, detail))
        if delay is not None:
            statuses.append(Status(StatusCode.ASSIGNMENT_DELAYED, delay))
        if self.plan.status is not None:
            statuses.append(self.plan.status)
        if self._shutdown_by is not None:
            detail = f"Member {self._shutdown_by} asked for the end of the whole application."
            statuses.append(Status(StatusCode.SHUTDOWN_APPLICATION, detail))
        return tuple(statuses)

    def _endpoints(self) -> tuple[EndpointPartitions, ...]:
        """By process: its members share one endpoint, and clients keep one entry of it."""
        by_endpoint: dict[UserEndpoint, Tasks] = {}
        for member in self.members.values():
            if member.endpoint is not None:
                by_endpoint[member.endpoint] = by_endpoint.get(member.endpoint, NO_TASKS) | member.tasks
        return tuple(
            EndpointPartitions(endpoint, self._partitions(tasks.active), self._partitions(tasks.standby))
            for endpoint, tasks in by_endpoint.items()
        )

    def consumed_by(self, member: StreamsMember) -> dict[str, tuple[int, ...]]:
        """The partitions that a member works on, by topic."""
        return self._partitions(member.tasks.active)

    def _partitions(self, tasks: Iterable[Task]) -> dict[str, tuple[int, ...]]:
        """The partitions that some tasks consume, by topic."""
        parts = self.topology.subtopologies if self.topology is not None else ()
        inputs = {subtopology.id: subtopology.input_topics for subtopology in parts}
        partitions: dict[str, list[int]] = {}
        for task in sorted(tasks):
            for name in inputs.get(task.subtopology, ()):
                if name in self._shapes and task.partition < self._shapes[name].partitions:
                    partitions.setdefault(name, []).append(task.partition)
        return {name: tuple(found) for name, found in sorted(partitions.items())}

    # Time

    def _touch(self, member: StreamsMember, now_ms: int) -> None:
        member.deadline_ms = now_ms + self.rules.session_timeout_ms

    def next_deadline_ms(self) -> int | None:
        """When `pass_time` has something to do."""
        return min(map(_due_ms, self.members.values()), default=None)

    def pass_time(self, now_ms: int) -> None:
        """Drop members that are silent for too long, and those that do not let go of a task."""
        for member in list(self.members.values()):
            if _due_ms(member) <= now_ms:
                self.remove(member)


def _due_ms(member: StreamsMember) -> int:
    return member.deadline_ms if member.revoke_by_ms is None else min(member.deadline_ms, member.revoke_by_ms)


def _check_epoch(member: StreamsMember, beat: StreamsBeat) -> None:
    if beat.epoch == member.epoch:
        return
    # Our last answer may have been lost: then the member says what it said before, and owns nothing that is not its own.
    is_repeated = beat.epoch == member.previous_epoch and beat.owned is not None and beat.owned <= member.tasks
    if beat.epoch > member.epoch or not is_repeated:
        raise FencedMember(f"epoch {beat.epoch}; the current one of {member.id} is {member.epoch}")
