"""What cannot be done with the schedule, named by the fact.

PeerError
`-- ScheduleError
    |-- NotScheduled, DueTimeTooFar
    `-- InvalidRecurrence
"""

from mainstem.model.errors import PeerError


class ScheduleError(PeerError):
    """Something about the schedule cannot be."""


class NotScheduled(ScheduleError):
    """Nothing of this id waits: it was never there, is cancelled, or has happened."""


class DueTimeTooFar(ScheduleError):
    """Not a time that can be kept."""


class InvalidRecurrence(ScheduleError):
    """Not a rule of repetition, or not a time zone."""
