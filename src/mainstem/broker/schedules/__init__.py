"""Schedules: records that become visible later, at a time or again and again."""

from mainstem.broker.schedules.schedules import Schedules
from mainstem.broker.schedules.search import Pending, PendingPage, Search, SearchPosition
from mainstem.coordination.schedules.recurrence import Recurrence
from mainstem.coordination.schedules.scheduled_record import Letter, Target, parse_id
from mainstem.model.scheduling import DUE_MS_MAX

__all__ = [
    "DUE_MS_MAX",
    "Letter",
    "Pending",
    "PendingPage",
    "Recurrence",
    "Schedules",
    "Search",
    "SearchPosition",
    "Target",
    "parse_id",
]
