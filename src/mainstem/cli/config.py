"""`mainstem config`: look at the settings."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

import msgspec
import typer

from mainstem.cli.settings_options import Advertise, Assignments, Config, DataDir, Listen, resolve_options

config_app = typer.Typer(help="Look at the settings.", no_args_is_help=True)


@config_app.callback()
def config() -> None:
    """Look at the settings."""


@config_app.command()
def show(
    data_dir: DataDir = None,
    listen: Listen = None,
    advertise: Advertise = None,
    config: Config = None,
    assignments: Assignments = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print every setting in force and where it came from."""
    listed = resolve_options(data_dir, listen, advertise, config, assignments).listed
    rows = [(setting.key, _show(setting.key, setting.value), setting.origin) for setting in listed]
    if as_json:
        values = [{"key": key, "value": value, "origin": origin} for key, value, origin in rows]
        print(msgspec.json.format(msgspec.json.encode(values)).decode())
    elif sys.stdout.isatty():
        _print_table(rows)
    else:
        for key, value, origin in rows:
            print(f"{key} = {_write(value)}  # {origin}")


def _show(key: str, value: Any) -> Any:
    """A value as it would be written in a file."""
    if key == "cluster.database":
        return re.sub(r"(?<=:)[^:/@]+(?=@)|(?<=password=)[^&]+", "***", value)
    if key.startswith("listen."):
        return [str(address) for address in value] or "off"
    return str(value) if key.startswith("advertise.") and value is not None else value


def _write(value: Any) -> str:
    return "none" if value is None else msgspec.json.encode(value).decode()


def _print_table(rows: list[tuple[str, Any, str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("setting", "value", "from", box=None)
    for key, value, origin in rows:
        table.add_row(key, _write(value), origin, style=None if origin == "default" else "bold")
    Console().print(table)
