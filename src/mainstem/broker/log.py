"""The words of publishing and reading, as adapters use them: storage itself stays out of their sight."""

from mainstem.storage.answer import Answer
from mainstem.storage.contract import (
    Aborted,
    Append,
    Buffer,
    Commit,
    CommitResult,
    Committed,
    Edge,
    Found,
    LogEnd,
    Place,
    ReadHint,
    ReadResult,
    TimeAfter,
    Watch,
    WatchCallback,
)

__all__ = [
    "Aborted",
    "Answer",
    "Append",
    "Buffer",
    "Commit",
    "CommitResult",
    "Committed",
    "Edge",
    "Found",
    "LogEnd",
    "Place",
    "ReadHint",
    "ReadResult",
    "TimeAfter",
    "Watch",
    "WatchCallback",
]
