"""Members of a group, while they live and as they are stored, and the rules that hold for them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from mainstem.storage.answer import Answer


class GroupRules(msgspec.Struct, frozen=True):
    """Limits and times of all groups."""

    members_max: int = 10_000
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    initial_delay_ms: int = 3_000
    """How long the first generation waits for further members, each of which prolongs it."""
    offsets_retention_ms: int = 604_800_000
    offset_note_bytes_max: int = 4_096


class JoinWish(NamedTuple):
    """What a member says when it joins."""

    member_id: str
    """Empty for a newcomer."""
    instance_id: str | None
    """The name of a static member, which keeps its place over restarts."""
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """Ways of sharing partitions, the preferred first, each with what the member has to say in it."""
    id_required: bool
    """Whether a newcomer must join twice, the second time with the id that it is given."""
    skips_assignment: bool
    """Whether a returning static leader can be told to leave the assignment as it is."""


class Joined(NamedTuple):
    """A member's place in a new generation."""

    generation: int
    protocol_type: str
    protocol: str
    leader: str
    member_id: str
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    """For the leader: id, instance and what each member said."""
    skip_assignment: bool = False


class Assigned(NamedTuple):
    """What a member is to work on."""

    protocol_type: str
    protocol: str
    assignment: bytes


class MemberEntry(msgspec.Struct, frozen=True, array_like=True):
    """A member as it is stored."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes


class GroupEntry(msgspec.Struct, frozen=True, array_like=True):
    """A generation as it is stored: what lets members go on after a restart without joining again."""

    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    members: tuple[MemberEntry, ...]
    changed_ms: int
    """When it became so, by the wall clock: offsets of a group that has been empty for long expire."""


class Member:
    """A member that is believed to live until its deadline."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline_ms",
        "id",
        "instance_id",
        "joining",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(self, member_id: str, wish: JoinWish, now_ms: int) -> None:
        self.id = member_id
        self.instance_id = wish.instance_id
        self.assignment = b""
        self.joining: Answer[Joined] | None = None
        """Owed while it waits for the others to join."""
        self.syncing: Answer[Assigned] | None = None
        """Owed while it waits for the leader's assignment."""
        self.take(wish)
        self.touch(now_ms)

    @classmethod
    def restored(cls, entry: MemberEntry, now_ms: int) -> Member:
        """A member of the last stored generation, given a session to show that it still lives."""
        wish = JoinWish(
            entry.id,
            entry.instance_id,
            entry.client_id,
            entry.client_host,
            entry.session_timeout_ms,
            entry.rebalance_timeout_ms,
            "",
            entry.protocols,
            id_required=False,
            skips_assignment=False,
        )
        member = cls(entry.id, wish, now_ms)
        member.assignment = entry.assignment
        return member

    def take(self, wish: JoinWish) -> None:
        """What it says now counts."""
        self.client_id = wish.client_id
        self.client_host = wish.client_host
        self.session_timeout_ms = wish.session_timeout_ms
        self.rebalance_timeout_ms = wish.rebalance_timeout_ms
        self.protocols = wish.protocols

    def touch(self, now_ms: int) -> None:
        """It lives."""
        self.deadline_ms = now_ms + self.session_timeout_ms

    def metadata(self, protocol: str) -> bytes:
        """What it said in this protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def fail(self, error: Exception) -> None:
        """Answer whatever it waits for with an error."""
        joining, self.joining = self.joining, None
        syncing, self.syncing = self.syncing, None
        if joining is not None:
            joining.fail(error)
        if syncing is not None:
            syncing.fail(error)

    def entry(self, assignment: bytes | None = None) -> MemberEntry:
        """As stored."""
        return MemberEntry(
            self.id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.protocols,
            self.assignment if assignment is None else assignment,
        )
