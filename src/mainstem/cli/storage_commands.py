"""`mainstem storage`: move a log between a data directory and a shared store."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from mainstem.cli.settings_options import EXIT_REFUSED, Assignments, Config, DataDir, resolve_options
from mainstem.cli.terminal.exits import FAILED, fail

storage_app = typer.Typer(help="Stored data: move it into a cluster, and back.", no_args_is_help=True)


class Place(StrEnum):
    """Where a log can be."""

    CLUSTER = "cluster"
    DIRECTORY = "directory"


@storage_app.callback()
def storage() -> None:
    """Stored data: move it into a cluster, and back."""


@storage_app.command()
def move(
    to: Annotated[Place, typer.Option("--to", help="Where the log goes: the other one is where it is.")],
    cluster: Annotated[str, typer.Option("--cluster", metavar="postgresql://...", help="The cluster's database.")],
    store: Annotated[str, typer.Option("--store", metavar="s3://BUCKET/PREFIX", help="Its object store.")],
    data_dir: DataDir = None,
    config: Config = None,
    assignments: Assignments = None,
) -> None:
    """Copy a log while no broker serves it, and compare the copy. The original stays as it was."""
    given = [*(assignments or []), f"cluster.database={cluster}", f"cluster.store={store}"]
    settings = resolve_options(data_dir, None, None, config, given).settings
    try:
        from mainstem.server.cluster.moving import NotMoved, move
    except ModuleNotFoundError as error:
        fail([f"a cluster needs the package {error.name}: pip install 'mainstem[cluster]'"], EXIT_REFUSED)
    try:
        moved = move(settings, lambda line: print(line, file=sys.stderr), into_cluster=to is Place.CLUSTER)
    except NotMoved as error:
        fail([str(error)], FAILED)
    print(f"moved and verified: {moved.files} files, {moved.groups} groups, {moved.bytes} bytes")
