"""The log: one line per event on standard error, as key=value, whatever the message contains."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

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


def configure_logging(level: str) -> None:
    """Send the log of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
