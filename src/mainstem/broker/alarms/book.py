"""Rules and alarms, pure: values in, changes out.

A rule names a measure and a bound. A measure has a value for each subject: a group, a queue, a pipeline, the broker. An alarm
is raised when the value was beyond the bound for as long as the rule says, and ends when it no longer is, or its subject is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

Severity: TypeAlias = Literal["warning", "critical"]

LAG, DEAD_LETTERS, PIPELINES, STORAGE_FREE, STORAGE_REFUSES = (
    "group_lag_seconds", "dead_letters", "pipelines_failed", "disk_free_bytes", "appends_refused"
)  # fmt: skip
LIVE_PREFIX = "live."
FAILED_LOGINS = f"{LIVE_PREFIX}failed_logins"
MEASURES = frozenset({LAG, DEAD_LETTERS, PIPELINES, STORAGE_FREE, STORAGE_REFUSES})
ALARMS_MAX = 1_000
"""Alarms that are kept at the same time; of more, the first."""


class AlarmRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When to raise an alarm: `above` or `below` a bound."""

    measure: str
    above: float | None = None
    below: float | None = None
    for_s: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 0.0
    """For how long it must be so."""
    severity: Severity = "warning"
    subject: str = ""
    """Only of this group, queue or pipeline; empty: of each."""

    def is_beyond(self, value: float) -> bool:
        """Whether the value is not as it should be."""
        return (self.above is not None and value > self.above) or (self.below is not None and value < self.below)


DEFAULTS: dict[str, AlarmRule] = {
    "group-lag": AlarmRule(LAG, above=300.0, for_s=60.0),
    "dead-letters": AlarmRule(DEAD_LETTERS, above=0.0),
    "disk-free": AlarmRule(STORAGE_FREE, below=float(1 << 30), severity="critical"),
    "disk-full": AlarmRule(STORAGE_REFUSES, above=0.0, severity="critical"),
    "failed-logins": AlarmRule(FAILED_LOGINS, above=1.0, for_s=30.0),
    "pipeline-failed": AlarmRule(PIPELINES, above=0.0, for_s=60.0),
}
"""What most users want to know of. Each can be replaced, or switched off."""


class Alarm(msgspec.Struct, frozen=True):
    """A rule that is broken."""

    rule: str
    subject: str
    severity: Severity
    measure: str
    value: float
    since_ms: int


class AlarmChange(NamedTuple):
    """An alarm was raised, or has ended."""

    alarm: Alarm
    is_raised: bool


class AlarmBook:
    """What is beyond its bound, and since when."""

    def __init__(self) -> None:
        self.rules: dict[str, AlarmRule] = dict(DEFAULTS)
        self.active: dict[tuple[str, str], Alarm] = {}
        self._beyond: dict[tuple[str, str], int] = {}

    def observe(self, measures: Mapping[str, Mapping[str, float]], now_ms: int) -> list[AlarmChange]:
        """Values by measure and subject. Of a measure that is not there nothing is known, and nothing changes."""
        changes: list[AlarmChange] = []
        for name, rule in self.rules.items():
            values = measures.get(rule.measure)
            if values is None:
                continue
            for subject, value in values.items():
                if rule.subject in ("", subject) and rule.is_beyond(value):
                    changes += self._beyond_bound(name, rule, subject, value, now_ms)
                else:
                    changes += self._end(name, subject)
            for known_rule, subject in [key for key in self._beyond if key[0] == name and key[1] not in values]:
                changes += self._end(known_rule, subject)
        return changes

    def _beyond_bound(self, name: str, rule: AlarmRule, subject: str, value: float, now_ms: int) -> list[AlarmChange]:
        key = (name, subject)
        if key not in self._beyond and len(self._beyond) >= ALARMS_MAX:
            return []
        since_ms = self._beyond.setdefault(key, now_ms)
        if now_ms - since_ms < rule.for_s * 1000:
            return []
        is_new = key not in self.active
        alarm = Alarm(name, subject, rule.severity, rule.measure, value, since_ms)
        self.active[key] = alarm
        return [AlarmChange(alarm, True)] if is_new else []

    def _end(self, name: str, subject: str) -> list[AlarmChange]:
        self._beyond.pop((name, subject), None)
        ended = self.active.pop((name, subject), None)
        return [] if ended is None else [AlarmChange(ended, False)]

    def set_rule(self, name: str, rule: AlarmRule | None) -> list[AlarmChange]:
        """Another rule, or none: its alarms end, and are raised anew where they still hold."""
        if rule is None:
            self.rules.pop(name, None)
        else:
            self.rules[name] = rule
        return [change for key in [key for key in self._beyond if key[0] == name] for change in self._end(*key)]
