"""What members of groups that the broker assigns say, what they are told, and the rules that hold for them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from mainstem.coordination.groups.group_offsets import TopicPlace

JOINS, LEAVES, PAUSES = 0, -1, -2
"""Epochs that stand for something else: a member comes, goes, or, being static, goes for a while."""

NOTHING: frozenset[TopicPlace] = frozenset()


class ClassicSide(msgspec.Struct, frozen=True, array_like=True):
    """Of a member that speaks the classic protocol: what it said when it joined."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Beat(NamedTuple):
    """What a member says. None: as before."""

    member_id: str
    epoch: int
    client_id: str
    topics: frozenset[str] | None = None
    pattern: str | None = None
    """Topics by regular expression, besides those by name; empty: none."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    owned: frozenset[TopicPlace] | None = None
    classic: ClassicSide | None = None
    client_host: str = ""


class HeartbeatReply(NamedTuple):
    """What a member is told."""

    member_id: str
    epoch: int
    share: frozenset[TopicPlace] | None
    """Its whole share; None when that has not changed."""


class BeatRules(NamedTuple):
    """What holds for a group."""

    members_max: int
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    may_upgrade: bool = True
    """Whether a group with members may change from the classic protocol."""
    may_downgrade: bool = True
    """And back, when only members are left that speak the classic one."""
