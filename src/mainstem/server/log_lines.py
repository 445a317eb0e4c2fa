"""The log: one line per event on standard error, as key=value, whatever the message contains.

An event that repeats a thousand times a second says no more than one that repeats five times. So of each kind a few lines are
written per interval, and then one that counts the others.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

REPEATED_LINES_MAX = 5
"""Lines of one kind that are written within an interval."""
REPEATS_INTERVAL_S = 10.0
KINDS_MAX = 256
"""Kinds of lines that are remembered."""

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/+,")


def quote(text: str) -> str:
    """As it is where that is unmistakable, else as a JSON string, so that a line stays one line."""
    return text if text and _BARE.issuperset(text) else json.dumps(text, ensure_ascii=False)


class LineFormatter(logging.Formatter):
    """Writes `time=... level=... source=... message=...`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a stack trace, which only a bug of ours has, is a quoted field of it."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "source": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return " ".join(f"{name}={quote(value)}" for name, value in fields.items())


class _Repeats:
    """Lines of one kind within an interval."""

    __slots__ = ("began", "count", "last")

    def __init__(self, record: logging.LogRecord) -> None:
        self.began = record.created
        self.count = 1
        self.last = record


class FoldingHandler(logging.StreamHandler[TextIO]):
    """Writes lines, and counts those that repeat. Lines are of one kind when they differ in their arguments only."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._kinds: dict[tuple[str, int, object], _Repeats] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, unless many of its kind were written lately."""
        self._end_intervals(record.created)
        kind = (record.name, record.levelno, record.msg)
        repeats = self._kinds.get(kind)
        if repeats is None:
            self._kinds[kind] = _Repeats(record)
        else:
            repeats.count += 1
            repeats.last = record
            if repeats.count > REPEATED_LINES_MAX:
                return
        super().emit(record)

    def close(self) -> None:
        """Say what was not said yet."""
        self._end_intervals(float("inf"))
        super().close()

    def _end_intervals(self, now: float) -> None:
        """The oldest kind is the first: the interval of those behind it has not ended if its own has not."""
        while self._kinds:
            kind, repeats = next(iter(self._kinds.items()))
            if now - repeats.began < REPEATS_INTERVAL_S and len(self._kinds) <= KINDS_MAX:
                return
            del self._kinds[kind]
            more = repeats.count - REPEATED_LINES_MAX
            if more > 0:
                last = repeats.last
                text = "%d more like this, the last one: %s"
                summary = logging.makeLogRecord(
                    {**last.__dict__, "msg": text, "args": (more, last.getMessage()), "exc_info": None}
                )
                super().emit(summary)


def configure_logging(level: str) -> None:
    """Send the log of this process to standard error."""
    handler = FoldingHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
