"""Members of a streams group, while they live and as they are stored."""

from __future__ import annotations

import msgspec

from mainstem.coordination.groups.streams.heartbeats import StreamsBeat, UserEndpoint
from mainstem.coordination.groups.streams.tasks import NO_TASKS, StoredTasks, Task, Tasks, pack_tasks, unpack_tasks
from mainstem.storage.contract import Mutation

INDEX_SCOPE = "streams-groups"
"""Which streams groups there are: a key for each."""
ENTRY_KEY = b"group"
TARGET_KEY = b"target"
TOPOLOGY_KEY = b"topology"
_MEMBER_PREFIX = b"member/"


class StreamsMemberEntry(msgspec.Struct, frozen=True, array_like=True):
    """A member as it is stored."""

    id: str
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    endpoint: tuple[str, int] | None
    client_tags: dict[str, str]
    epoch: int
    previous_epoch: int
    active: tuple[tuple[str, int, int], ...]
    """Subtopology, partition, and the epoch in which the member got the task."""
    standby: StoredTasks
    revoking_active: tuple[tuple[str, int, int], ...]
    revoking_standby: StoredTasks


class StreamsMember:
    """A member that is believed to live until its deadline."""

    __slots__ = (
        "client_host",
        "client_id",
        "client_tags",
        "deadline_ms",
        "endpoint",
        "epoch",
        "id",
        "previous_epoch",
        "process_id",
        "rack_id",
        "rebalance_timeout_ms",
        "revoke_by_ms",
        "revoking",
        "since",
        "tasks",
        "topology_epoch",
    )

    def __init__(self, member_id: str) -> None:
        self.id = member_id
        self.rack_id: str | None = None
        self.client_id = ""
        self.client_host = ""
        self.rebalance_timeout_ms = -1
        self.topology_epoch = -1
        self.process_id = ""
        self.endpoint: UserEndpoint | None = None
        self.client_tags: dict[str, str] = {}
        self.epoch = 0
        self.previous_epoch = 0
        self.tasks = NO_TASKS
        """What it may work on."""
        self.revoking = NO_TASKS
        """What it must let go of, and may still hold."""
        self.since: dict[Task, int] = {}
        """The epoch in which it got each active task, of those that it may hold."""
        self.deadline_ms = 0
        self.revoke_by_ms: int | None = None

    @property
    def held(self) -> Tasks:
        """Everything that nobody else may get yet."""
        return self.tasks | self.revoking

    def take(self, beat: StreamsBeat) -> bool:
        """What it says counts from now on; answers whether anything has changed."""
        before = self._said()
        if beat.rack_id is not None:
            self.rack_id = beat.rack_id
        if beat.rebalance_timeout_ms >= 0:
            self.rebalance_timeout_ms = beat.rebalance_timeout_ms
        if beat.topology is not None:
            self.topology_epoch = beat.topology.epoch
        if beat.process_id is not None:
            self.process_id = beat.process_id
        if beat.endpoint is not None:
            self.endpoint = beat.endpoint
        if beat.client_tags is not None:
            self.client_tags = dict(beat.client_tags)
        self.client_id = beat.client_id
        self.client_host = beat.client_host
        return before != self._said()

    def _said(self) -> tuple[object, ...]:
        return (
            self.rack_id,
            self.rebalance_timeout_ms,
            self.topology_epoch,
            self.process_id,
            self.endpoint,
            self.client_tags,
            self.client_id,
            self.client_host,
        )

    def entry(self) -> StreamsMemberEntry:
        """As stored."""
        return StreamsMemberEntry(
            self.id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.topology_epoch,
            self.process_id,
            self.endpoint,
            self.client_tags,
            self.epoch,
            self.previous_epoch,
            self._pack_active(self.tasks),
            pack_tasks(self.tasks.standby),
            self._pack_active(self.revoking),
            pack_tasks(self.revoking.standby),
        )

    def _pack_active(self, tasks: Tasks) -> tuple[tuple[str, int, int], ...]:
        return tuple((*task, self.since[task]) for task in sorted(tasks.active))

    @classmethod
    def restored(cls, entry: StreamsMemberEntry) -> StreamsMember:
        """From storage."""
        member = cls(entry.id)
        member.rack_id = entry.rack_id
        member.client_id = entry.client_id
        member.client_host = entry.client_host
        member.rebalance_timeout_ms = entry.rebalance_timeout_ms
        member.topology_epoch = entry.topology_epoch
        member.process_id = entry.process_id
        member.endpoint = None if entry.endpoint is None else UserEndpoint(*entry.endpoint)
        member.client_tags = entry.client_tags
        member.epoch, member.previous_epoch = entry.epoch, entry.previous_epoch
        member.tasks = Tasks(_unpack_active(entry.active), unpack_tasks(entry.standby))
        member.revoking = Tasks(_unpack_active(entry.revoking_active), unpack_tasks(entry.revoking_standby))
        member.since = {
            Task(subtopology, partition): epoch
            for subtopology, partition, epoch in (*entry.active, *entry.revoking_active)
        }
        return member


def _unpack_active(stored: tuple[tuple[str, int, int], ...]) -> frozenset[Task]:
    return frozenset(Task(subtopology, partition) for subtopology, partition, _ in stored)


class StreamsEntry(msgspec.Struct, frozen=True, array_like=True):
    """A streams group as it is stored, without its members, its topology and its assignment."""

    epoch: int
    assignment_epoch: int
    endpoint_epoch: int
    standby_replicas: int
    is_ready: bool
    shapes: dict[str, tuple[bytes, int]]
    """Id and number of partitions of the topics that were there."""


class StreamsTarget(msgspec.Struct, frozen=True, array_like=True):
    """An assignment as it is stored: active and standby tasks by member."""

    tasks: dict[str, tuple[StoredTasks, StoredTasks]]


_encode = msgspec.msgpack.Encoder().encode
decode_entry = msgspec.msgpack.Decoder(StreamsEntry).decode
decode_target = msgspec.msgpack.Decoder(StreamsTarget).decode
decode_member = msgspec.msgpack.Decoder(StreamsMemberEntry).decode


def scope_of(group: str) -> str:
    """Where the state of a streams group is."""
    return f"{INDEX_SCOPE}/{group}"


def put(group: str, key: bytes, value: msgspec.Struct | None) -> Mutation:
    """Store a value of the group, or that it is gone."""
    return Mutation(scope_of(group), key, None if value is None else _encode(value))


def member_key(member_id: str) -> bytes:
    """Of a member, in the scope of its group."""
    return _MEMBER_PREFIX + member_id.encode()


def is_member_key(key: bytes) -> bool:
    """Whether a key of the scope is a member's."""
    return key.startswith(_MEMBER_PREFIX)
