"""`mainstem schedule`: records that are published later, or again and again."""

from __future__ import annotations

import time
from typing import Annotated, Any, TypeAlias

import typer

from mainstem.cli.terminal.asking import confirm
from mainstem.cli.terminal.broker import connect, path_of
from mainstem.cli.terminal.exits import WRONG_USE, fail
from mainstem.cli.terminal.options import Address, ContextName, Curl, DryRun, Limit, Output, Yes
from mainstem.cli.terminal.output import write_list, write_one
from mainstem.cli.terminal.times import parse_length, parse_time

schedule_app = typer.Typer(help="The schedule: list, show, add, move, cancel.", no_args_is_help=True)

Id: TypeAlias = Annotated[
    str, typer.Argument(metavar="ID", help="The id of a record that waits, or the name of a recurrence.")
]
At: TypeAlias = Annotated[str | None, typer.Option("--at", metavar="TIME", help="When, as 2026-11-18T14:03:20.")]
In: TypeAlias = Annotated[str | None, typer.Option("--in", metavar="TIME", help="After which time, as 2h.")]
Again: TypeAlias = Annotated[bool, typer.Option("--recurring", help="Of what recurs, by its name.")]


@schedule_app.callback()
def schedule() -> None:
    """The schedule: list, show, add, move, cancel."""


@schedule_app.command("list")
def list_schedules(
    topic: Annotated[str | None, typer.Option("--topic", metavar="NAME", help="Only for this topic.")] = None,
    recurring: Again = False,
    limit: Limit = None,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show what waits for its time, roughly by time."""
    broker = connect(address, context, curl=curl)
    if recurring:
        found = broker.pages("/v1/recurrences", "recurrences", limit)
        write_list(found, ("name", "cron", "zone", "next_ms", "count", "target", "value"), output)
        return
    found = broker.pages("/v1/schedules", "schedules", limit, topic=topic)
    write_list(found, ("id", "due_ms", "target", "key", "value"), output, name="id")


@schedule_app.command()
def show(
    id: Id,
    recurring: Again = False,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show one."""
    path = path_of("v1", "recurrences" if recurring else "schedules", id)
    write_one(connect(address, context, curl=curl).get(path), output, name="name" if recurring else "id")


@schedule_app.command()
def add(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where it is published.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Its value.")],
    at: At = None,
    after: In = None,
    cron: Annotated[
        str | None, typer.Option("--cron", metavar="RULE", help="Again and again, as '0 7 * * MON'.")
    ] = None,
    zone: Annotated[str, typer.Option("--zone", metavar="ZONE", help="Of the rule.")] = "UTC",
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Of what recurs.")] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Its key.")] = None,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Publish a record later, or by a rule again and again."""
    broker = connect(address, context, curl=curl)
    wish: dict[str, Any] = {"target": {"topic": topic}, "value": value, "key": key}
    if cron is not None:
        if name is None:
            fail(["what recurs needs --name"], WRONG_USE)
        write_one(broker.ask("PUT", path_of("v1", "recurrences", name), {**wish, "cron": cron, "zone": zone}), output)
        return
    write_one(broker.ask("POST", "/v1/schedules", {**wish, "due_ms": _due(at, after)}), output, name="id")


@schedule_app.command()
def move(
    id: Id,
    at: At = None,
    after: In = None,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Give a record another time; it gets another id."""
    found = connect(address, context, curl=curl).ask(
        "PATCH", path_of("v1", "schedules", id), {"due_ms": _due(at, after)}
    )
    write_one(found, output, name="id")


@schedule_app.command()
def cancel(
    id: Id,
    recurring: Again = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    address: Address = None,
    context: ContextName = None,
    curl: Curl = False,
) -> None:
    """It is not published."""
    path = path_of("v1", "recurrences" if recurring else "schedules", id)
    broker = connect(address, context, curl=curl)
    if not curl:
        broker.get(path)
        if dry_run:
            print(f"{id} would be cancelled.")
            return
        confirm(f"{id} will be cancelled", id, yes=yes)
    broker.ask("DELETE", path)
    print(f"{id} is cancelled.")


def _due(at: str | None, after: str | None) -> int:
    if (at is None) is (after is None):
        fail(["either --at or --in"], WRONG_USE)
    if after is not None:
        return int(time.time() * 1000) + parse_length(after)
    due_ms = parse_time(at or "")
    if due_ms is None:
        fail([f"{at} is not a time, as 2026-11-18T14:03:20"], WRONG_USE)
    return due_ms
