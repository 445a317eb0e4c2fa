"""`mainstem`: the entry point and its commands."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from mainstem.cli.config import config_app
from mainstem.cli.deployment_commands import pipeline_app
from mainstem.cli.log_commands import log_app
from mainstem.cli.queue_commands import queue_app
from mainstem.cli.serve import serve
from mainstem.cli.sql_command import sql

app = typer.Typer(
    name="mainstem",
    help="One durable log that every message-queue client already speaks to.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(serve)
app.command()(sql)
app.add_typer(config_app, name="config")
app.add_typer(log_app, name="log")
app.add_typer(pipeline_app, name="pipeline")
app.add_typer(queue_app, name="queue")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"mainstem {version('mainstem')}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """One durable log that every message-queue client already speaks to."""


def main() -> None:
    """Run the command line."""
    app()
