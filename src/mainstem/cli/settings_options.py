"""The options with which commands take settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from mainstem.cli.terminal.exits import WRONG_USE, fail

if TYPE_CHECKING:
    from mainstem.server.settings_resolution import Resolved

EXIT_REFUSED = WRONG_USE

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
    # Late: it knows the settings of every protocol, and loads them all.
    from mainstem.server.settings_resolution import SettingsRefused, resolve
    from mainstem.server.settings_sources import Flags

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
