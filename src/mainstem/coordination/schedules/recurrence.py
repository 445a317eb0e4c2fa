"""What happens again and again: a record, a rule, and when it is next.

The next time is stored with what happens at the last one, in one commit: so nothing happens twice, and what was missed
while no broker ran happens once, at the start.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mainstem.coordination.schedules.cron import Cron
from mainstem.coordination.schedules.scheduled_record import Letter
from mainstem.storage.contract import Mutation

SCOPE = "recurring"
NAME_CHARACTERS_MAX = 249


class RecurrenceEntry(msgspec.Struct, frozen=True, array_like=True):
    """As it is stored."""

    name: str
    cron: str
    zone: str
    letter: Letter
    next_ms: int
    is_paused: bool = False
    last_ms: int = 0
    """When it happened last; 0: never."""
    count: int = 0
    """How often it happened."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RecurrenceEntry).decode


class Recurrence:
    """One of them, ready for use. Never changed: another one takes its place."""

    __slots__ = ("entry", "rule")

    def __init__(self, entry: RecurrenceEntry, rule: Cron | None = None) -> None:
        self.entry = entry
        self.rule = rule or Cron(entry.cron, entry.zone)

    def happened(self, now_ms: int) -> Recurrence | None:
        """As it is after this time; None: it was the last one."""
        next_ms = self.rule.next_ms(now_ms)
        if next_ms is None:
            return None
        entry = self.entry
        after = msgspec.structs.replace(entry, next_ms=next_ms, last_ms=now_ms, count=entry.count + 1)
        return Recurrence(after, self.rule)


def put_recurrence(name: str, recurrence: Recurrence | None) -> Mutation:
    """To be stored; None: to be forgotten."""
    return Mutation(SCOPE, name.encode(), None if recurrence is None else _encode(recurrence.entry))


def replay_recurrences(entries: Iterable[bytes]) -> dict[str, Recurrence]:
    """What is stored, by name."""
    decoded = map(_decode, entries)
    return {entry.name: Recurrence(entry) for entry in decoded}
