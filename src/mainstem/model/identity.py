"""Identities of the things that are stored."""

from typing import NewType

LogId = NewType("LogId", int)
"""One ordered log: a partition, a queue's own log, a delay bucket. Unsigned, 63 bits, never used twice."""

Offset = NewType("Offset", int)
"""Position of a record within one log. Assigned densely, never used twice."""

Millis = NewType("Millis", int)
"""Milliseconds since 1970-01-01 UTC, the unit of every record timestamp."""

LOG_ID_MAX = 2**63 - 1
OFFSET_MAX = 2**63 - 1
