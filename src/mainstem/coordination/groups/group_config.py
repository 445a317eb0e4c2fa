"""Settings of single groups, as Kafka names them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from mainstem.coordination.dead_letters.targets import LetterTopic
from mainstem.coordination.errors import InvalidGroupConfig
from mainstem.coordination.groups.heartbeats import BeatRules
from mainstem.coordination.groups.streams.heartbeats import StreamsRules
from mainstem.coordination.subscriptions.delivery_policy import DeliveryPolicy

SCOPE = "group-configs"
"""What was set, by group."""

DURATION_PREFIX = "by_duration:"
SESSION_TIMEOUT_MS = (45_000, 60_000)
"""Bounds of what a group may ask for, as Kafka has them."""
HEARTBEAT_INTERVAL_MS = (5_000, 15_000)
ASSIGNMENT_INTERVAL_MS = (0, 15_000)
STORED = frozenset({"consumer.assignment.interval.ms", "share.assignment.interval.ms"})
"""What is checked, stored and shown, and has no effect: these groups are assigned anew as soon as something changes."""
STANDBY_REPLICAS_MAX = 2
INT_MAX = 2**31 - 1
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


class GroupOption(NamedTuple):
    """One setting."""

    name: str
    default: str
    kind: str
    text: str
    is_valid: Callable[[str], bool]


def duration_ms(text: str) -> int | None:
    """The length of an ISO 8601 duration of days, hours, minutes and seconds."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def _whole(low: int, high: int) -> Callable[[str], bool]:
    return lambda value: value.isdecimal() and value.isascii() and low <= int(value) <= high


def _is_reset(value: str) -> bool:
    if value.startswith(DURATION_PREFIX):
        return duration_ms(value.removeprefix(DURATION_PREFIX)) is not None
    return value in ("latest", "earliest")


GROUP_OPTIONS: dict[str, GroupOption] = {
    option.name: option
    for option in (
        GroupOption(
            "consumer.assignment.interval.ms",
            "1000",
            "int",
            "The shortest time between two assignments; here each change is assigned at once.",
            _whole(*ASSIGNMENT_INTERVAL_MS),
        ),
        GroupOption(
            "consumer.heartbeat.interval.ms",
            "5000",
            "int",
            "How often members of the newer protocol are asked to show that they live.",
            _whole(*HEARTBEAT_INTERVAL_MS),
        ),
        GroupOption(
            "consumer.session.timeout.ms",
            "45000",
            "int",
            "After so long without a heartbeat a member of the newer protocol is dropped.",
            _whole(*SESSION_TIMEOUT_MS),
        ),
        GroupOption(
            "errors.deadletterqueue.topic.name",
            "",
            "string",
            "The topic to which records go that were rejected or given out too often; empty: they go nowhere.",
            lambda value: True,
        ),
        GroupOption(
            "errors.deadletterqueue.copy.record.enable",
            "false",
            "boolean",
            "Whether a dead letter has the key and value of its record; otherwise only headers that say where it is.",
            lambda value: value in ("true", "false"),
        ),
        GroupOption(
            "share.assignment.interval.ms",
            "1000",
            "int",
            "The shortest time between two assignments; here each change is assigned at once.",
            _whole(*ASSIGNMENT_INTERVAL_MS),
        ),
        GroupOption(
            "share.auto.offset.reset",
            "latest",
            "string",
            "Where a share group begins in a partition that it has not read: latest, earliest, by_duration:PnDTnHnMn.nS.",
            _is_reset,
        ),
        GroupOption(
            "share.heartbeat.interval.ms",
            "5000",
            "int",
            "How often members of a share group are asked to show that they live.",
            _whole(*HEARTBEAT_INTERVAL_MS),
        ),
        GroupOption(
            "share.isolation.level",
            "read_uncommitted",
            "string",
            "Whether open and aborted transactions are given out: read_uncommitted, read_committed.",
            lambda value: value in ("read_uncommitted", "read_committed"),
        ),
        GroupOption(
            "share.record.lock.duration.ms",
            "30000",
            "int",
            "How long a member may work on a record before it is given to another.",
            _whole(1_000, 3_600_000),
        ),
        GroupOption(
            "share.renew.acknowledge.enable",
            "true",
            "boolean",
            "Whether members may prolong that.",
            lambda value: value in ("true", "false"),
        ),
        GroupOption(
            "share.session.timeout.ms",
            "45000",
            "int",
            "After so long without a heartbeat a member of a share group is dropped.",
            _whole(*SESSION_TIMEOUT_MS),
        ),
        GroupOption(
            "streams.assignment.interval.ms",
            "1000",
            "int",
            "The shortest time between two assignments of a streams group.",
            _whole(*ASSIGNMENT_INTERVAL_MS),
        ),
        GroupOption(
            "streams.heartbeat.interval.ms",
            "5000",
            "int",
            "How often members of a streams group are asked to show that they live.",
            _whole(*HEARTBEAT_INTERVAL_MS),
        ),
        GroupOption(
            "streams.initial.rebalance.delay.ms",
            "3000",
            "int",
            "How long the first assignment of a streams group waits for further members.",
            _whole(0, INT_MAX),
        ),
        GroupOption(
            "streams.num.standby.replicas",
            "0",
            "int",
            "In how many further processes the state of a task of a streams group is kept.",
            _whole(0, STANDBY_REPLICAS_MAX),
        ),
        GroupOption(
            "streams.session.timeout.ms",
            "45000",
            "int",
            "A member of a streams group is dropped after this time without a heartbeat.",
            _whole(*SESSION_TIMEOUT_MS),
        ),
        GroupOption(
            "share.delivery.count.limit",
            "5",
            "int",
            "How often a record is given out at most.",
            _whole(2, 10),
        ),
        GroupOption(
            "share.partition.max.record.locks",
            "2000",
            "int",
            "How many records of a partition members may work on at the same time.",
            _whole(100, 10_000),
        ),
    )
}


SHARE_POLICY = DeliveryPolicy(lease_ms=30_000, deliveries_max=5, leases_max=2_000)
"""What holds for a share group where nothing was set, as in Kafka."""


class ShareRules(NamedTuple):
    """What was set for one group, read."""

    policy: DeliveryPolicy = SHARE_POLICY
    reset: str = "latest"
    committed_only: bool = False
    may_renew: bool = True


def read_rules(configs: Mapping[str, str], defaults: DeliveryPolicy = SHARE_POLICY) -> ShareRules:
    """From what was set; the rest has its default."""

    def value(name: str) -> str:
        return configs.get(name, GROUP_OPTIONS[name].default)

    def number(name: str, default: int | None) -> int | None:
        return int(configs[name]) if name in configs else default

    letters = value("errors.deadletterqueue.topic.name")
    copies = value("errors.deadletterqueue.copy.record.enable") == "true"

    policy = DeliveryPolicy(
        lease_ms=number("share.record.lock.duration.ms", defaults.lease_ms),
        deliveries_max=number("share.delivery.count.limit", defaults.deliveries_max),
        leases_max=number("share.partition.max.record.locks", defaults.leases_max),
        dead_letter=LetterTopic(letters, copies) if letters else None,
    )
    return ShareRules(
        policy,
        value("share.auto.offset.reset"),
        value("share.isolation.level") == "read_committed",
        value("share.renew.acknowledge.enable") == "true",
    )


def beat_rules(configs: Mapping[str, str], kind: str, rules: BeatRules) -> BeatRules:
    """The rules of all groups of a kind, with what was set for one."""
    session, interval = configs.get(f"{kind}.session.timeout.ms"), configs.get(f"{kind}.heartbeat.interval.ms")
    if session is not None:
        rules = rules._replace(session_timeout_ms=int(session))
    if interval is not None:
        rules = rules._replace(heartbeat_interval_ms=int(interval))
    return rules


STREAMS_FIELDS = {
    "streams.assignment.interval.ms": "assignment_interval_ms",
    "streams.heartbeat.interval.ms": "heartbeat_interval_ms",
    "streams.initial.rebalance.delay.ms": "initial_delay_ms",
    "streams.num.standby.replicas": "standby_replicas",
    "streams.session.timeout.ms": "session_timeout_ms",
}
"""The rule that each setting is about."""


def streams_rules(configs: Mapping[str, str], rules: StreamsRules) -> StreamsRules:
    """The rules of all streams groups, with what was set for one."""
    return rules._replace(**{field: int(configs[name]) for name, field in STREAMS_FIELDS.items() if name in configs})


def check_group_config(configs: Mapping[str, str]) -> None:
    """Raises InvalidGroupConfig."""
    for name, value in configs.items():
        option = GROUP_OPTIONS.get(name)
        if option is None:
            raise InvalidGroupConfig(f"Unknown group config name: {name}")
        if not option.is_valid(value):
            raise InvalidGroupConfig(f"Invalid value {value} for configuration {name}")
