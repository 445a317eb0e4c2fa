"""Before something is destroyed: people at a terminal type its name, programs say --yes."""

from __future__ import annotations

import sys

from mainstem.cli.terminal.exits import REFUSED, WRONG_USE, fail


def confirm(what: str, name: str, *, yes: bool) -> None:
    """Go on, or end the command."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail([f"{what} needs --yes where nobody can be asked"], WRONG_USE)
    print(f"{what}. Type its name to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != name:
        fail(["nothing was done"], REFUSED)
