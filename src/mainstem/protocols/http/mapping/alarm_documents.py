"""Alarms and their rules as they are asked for and shown."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mainstem.broker.alarms.book import Alarm, AlarmRule


class RulePath(msgspec.Struct, frozen=True):
    """Which rule."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class AlarmList(msgspec.Struct, frozen=True):
    """What is not as it should be, and the rules that say so."""

    alarms: list[Alarm]
    """The critical first, then the oldest."""
    rules: dict[str, AlarmRule]
