"""Times as people write them: 2026-11-18T14:03:20, 15m (ago), or milliseconds since 1970."""

from __future__ import annotations

import datetime
import re
import time

from mainstem.cli.terminal.exits import WRONG_USE, fail

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
EPOCH_MS_MIN = 100_000_000_000


def parse_length(text: str) -> int:
    """A length of time in ms: 30s, 5m, 2h. Ends the command for anything else."""
    found = _LENGTH.fullmatch(text.strip())
    if found is None:
        fail([f"{text} is not a length of time, as 500ms, 30s, 5m, 2h, 1d"], WRONG_USE)
    return int(float(found[1]) * _UNITS[found[2]])


def parse_time(text: str) -> int | None:
    """A time in ms since 1970; None for what is none."""
    plain = text.strip()
    if plain.isdecimal() and int(plain) >= EPOCH_MS_MIN:
        return int(plain)
    if _LENGTH.fullmatch(plain):
        return int(time.time() * 1000) - parse_length(plain)
    try:
        moment = datetime.datetime.fromisoformat(plain)
    except ValueError:
        return None
    if plain.isdecimal():
        return None  # An offset: Python reads eight digits as a day.
    return int((moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp() * 1000)
