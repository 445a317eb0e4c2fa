"""`mainstem completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

from typing import Annotated

import typer

from mainstem.cli.terminal.exits import WRONG_USE, fail

SHELLS = ("bash", "zsh", "fish")


def completion(shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Print a script to be sourced: eval "$(mainstem completion bash)"."""
    if shell not in SHELLS:
        fail([f"{shell} is not one of {', '.join(SHELLS)}"], WRONG_USE)
    from typer._completion_shared import get_completion_script

    print(get_completion_script(prog_name="mainstem", complete_var="_MAINSTEM_COMPLETE", shell=shell))
