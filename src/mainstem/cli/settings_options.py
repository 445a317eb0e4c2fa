"""The options with which commands take settings."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn, TypeAlias

import typer

from mainstem.server.settings_resolution import Resolved, SettingsRefused, resolve
from mainstem.server.settings_sources import Flags

EXIT_REFUSED = 2

DataDir: TypeAlias = Annotated[str | None, typer.Option("--data-dir", metavar="DIR", help="Where data is kept.")]
Listen: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--listen",
        metavar="NAME=HOST:PORT",
        help="Where a protocol listens; repeatable. Port 0 picks a free one, NAME=off switches it off.",
    ),
]
Advertise: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--advertise", metavar="NAME=HOST:PORT", help="The address clients are told, where it differs."),
]
Config: TypeAlias = Annotated[str | None, typer.Option("--config", metavar="FILE", help="Settings in a TOML file.")]
Assignments: TypeAlias = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting by its name; repeatable.")
]


def resolve_options(
    data_dir: str | None,
    listen: list[str] | None,
    advertise: list[str] | None,
    config: str | None,
    assignments: list[str] | None,
) -> Resolved:
    """The settings in force, or the end of the program."""
    flags = Flags(
        config=config,
        data_dir=data_dir,
        listen=listen or (),
        advertise=advertise or (),
        assignments=assignments or (),
    )
    try:
        return resolve(flags, os.environ)
    except SettingsRefused as refused:
        fail(refused.problems, EXIT_REFUSED)


def fail(problems: list[str], status: int) -> NoReturn:
    """End with a word to people, and without a stack trace."""
    for problem in problems:
        print(f"mainstem: error: {problem}", file=sys.stderr)
    raise typer.Exit(status)
