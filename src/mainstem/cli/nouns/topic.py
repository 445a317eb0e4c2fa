"""`mainstem topic`: topics of a running broker."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from mainstem.cli.terminal.asking import confirm
from mainstem.cli.terminal.broker import connect, path_of
from mainstem.cli.terminal.exits import WRONG_USE, fail
from mainstem.cli.terminal.names import names_of
from mainstem.cli.terminal.options import Address, ContextName, Curl, DryRun, Limit, Output, Search, Yes
from mainstem.cli.terminal.output import write_list, write_one

topic_app = typer.Typer(help="Topics: list, show, create, change, delete.", no_args_is_help=True)

OVERTAKES = "retention_overtakes_in"
Name: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of a topic.", autocompletion=names_of("topics"))
]
Partitions: TypeAlias = Annotated[
    int | None, typer.Option("--partitions", metavar="N", min=1, help="How many partitions it has.")
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="KEY=VALUE", help="A configuration; repeatable. KEY= alone: its default."),
]


@topic_app.callback()
def topic() -> None:
    """Topics: list, show, create, change, delete."""


@topic_app.command("list")
def list_topics(
    search: Search = "",
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="stream, queue, table or compacted.")
    ] = None,
    sort: Annotated[str, typer.Option("--sort", metavar="BY", help="name, records, bytes or partitions.")] = "name",
    limit: Limit = None,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show topics, with their size."""
    broker = connect(address, context, curl=curl)
    found = broker.pages("/v1/topics", "topics", limit, search=search, kind=kind, sort=sort)
    write_list(found, ("name", "kind", "partitions", "records", "bytes"), output)


@topic_app.command()
def show(
    name: Name, address: Address = None, context: ContextName = None, output: Output = None, curl: Curl = False
) -> None:
    """Show a topic: partitions and configuration."""
    write_one(connect(address, context, curl=curl).get(path_of("v1", "topics", name)), output, leave_out=("next",))


@topic_app.command()
def consumers(
    name: Name,
    search: Search = "",
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="group, share-group, queue or subscription.")
    ] = None,
    sort: Annotated[str, typer.Option("--sort", metavar="BY", help="messages, seconds or name.")] = "messages",
    limit: Limit = None,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show all who read a topic, whatever their protocol: the longest lag first."""
    broker = connect(address, context, curl=curl)
    path = path_of("v1", "topics", name, "consumers")
    columns = ("name", "kind", "members", "lag_messages", "lag_seconds", "trend", "stuck_since_ms", OVERTAKES)
    found = broker.pages(path, "consumers", limit, search=search, kind=kind, sort=sort)
    write_list(({**one, OVERTAKES: _length(one["retention_overtakes_in_ms"])} for one in found), columns, output)


@topic_app.command()
def create(
    name: Name,
    partitions: Partitions = None,
    config: Settings = None,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Create a topic."""
    wish: dict[str, Any] = {"name": name, "config": _settings(config)}
    if partitions is not None:
        wish["partitions"] = partitions
    found = connect(address, context, curl=curl).ask("POST", "/v1/topics", wish)
    write_one(found, output, leave_out=("next", "config"))


@topic_app.command()
def change(
    name: Name,
    partitions: Partitions = None,
    config: Settings = None,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Add partitions, change the configuration."""
    wish: dict[str, Any] = {"config": {key: value or None for key, value in _settings(config).items()}}
    if partitions is not None:
        wish["partitions"] = partitions
    found = connect(address, context, curl=curl).ask("PATCH", path_of("v1", "topics", name), wish)
    write_one(found, output, leave_out=("next", "config"))


@topic_app.command()
def delete(
    name: Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    address: Address = None,
    context: ContextName = None,
    curl: Curl = False,
) -> None:
    """Delete a topic with all that is in it."""
    broker = connect(address, context, curl=curl)
    if not curl:
        found = broker.get(path_of("v1", "topics", name))
        records = sum(one["end"] - one["start"] for one in found["partitions"])
        if dry_run:
            print(f"Topic {name} with {records:,} records would be deleted.")
            return
        confirm(f"Topic {name} with {records:,} records will be deleted", name, yes=yes)
    broker.ask("DELETE", path_of("v1", "topics", name))
    print(f"Topic {name} is deleted.")


def _length(ms: int | None) -> str | None:
    """For people: the largest unit that fits."""
    if ms is None:
        return None
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)):
        if ms >= size:
            return f"{ms / size:.1f} {unit}"
    return f"{ms / 1000:.0f} s"


def _settings(given: list[str] | None) -> dict[str, str]:
    settings = {}
    for text in given or ():
        key, separator, value = text.partition("=")
        if not separator or not key:
            fail([f"--config {text}: must be KEY=VALUE"], WRONG_USE)
        settings[key] = value
    return settings
