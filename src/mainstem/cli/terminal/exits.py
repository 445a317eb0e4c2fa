"""How a command ends."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

FAILED = 1
WRONG_USE = 2
NOT_FOUND = 3
REFUSED = 4
AWAY = 5
INTERRUPTED = 130
BROKEN_PIPE = 141
"""As a shell reports a program that was ended by SIGPIPE."""

NOT_FOUND_STATUS = 404
UNAVAILABLE_STATUS = 503


def fail(problems: list[str], status: int) -> NoReturn:
    """End with a sentence for people, and without a stack trace."""
    for problem in problems:
        print(f"mainstem: error: {problem}", file=sys.stderr)
    raise typer.Exit(status)


def status_of(http_status: int) -> int:
    """The exit status for what the broker refused."""
    if http_status == NOT_FOUND_STATUS:
        return NOT_FOUND
    if http_status == UNAVAILABLE_STATUS:
        return AWAY
    return FAILED if http_status >= 500 else REFUSED
