"""`mainstem deadletter`: what queues gave up: looked at, edited, sent back."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from mainstem.cli.terminal.asking import confirm
from mainstem.cli.terminal.broker import connect, path_of, with_query
from mainstem.cli.terminal.exits import NOT_FOUND, fail
from mainstem.cli.terminal.options import (
    DEFAULT_NAMESPACE,
    Address,
    ContextName,
    Curl,
    DryRun,
    Limit,
    Namespace,
    Output,
    Yes,
)
from mainstem.cli.terminal.output import write_list, write_one

deadletter_app = typer.Typer(help="Dead letters: list, show, edit, redrive, delete.", no_args_is_help=True)

Queue: TypeAlias = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue that has the dead letters.")]
Place: TypeAlias = Annotated[str, typer.Argument(metavar="PLACE", help="LANE:OFFSET, as `list` shows it.")]
Reason: TypeAlias = Annotated[
    str | None, typer.Option("--reason", metavar="REASON", help="Only these: rejected, expired ...")
]
Origin: TypeAlias = Annotated[str | None, typer.Option("--origin", metavar="QUEUE", help="Only those that died there.")]
Where: TypeAlias = Annotated[
    str | None, typer.Option("--where", metavar="SQL", help="An SQL92 expression over headers.")
]


@deadletter_app.callback()
def deadletter() -> None:
    """Dead letters: list, show, edit, redrive, delete."""


@deadletter_app.command("list")
def list_letters(
    queue: Queue,
    reason: Reason = None,
    origin: Origin = None,
    where: Where = None,
    limit: Limit = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show dead letters of a queue, with why and where each died."""
    query: dict[str, Any] = {"namespace": namespace, "reason": reason, "origin": origin, "where": where}
    broker = connect(address, context, curl=curl)
    found = broker.pages(path_of("v1", "queues", queue, "messages"), "messages", limit, **query)
    flat = ({**one, **_facts(one)} for one in found)
    write_list(flat, ("place", "died_ms", "reason", "died_in", "error", "value"), output, name="place")


def _facts(letter: dict[str, Any]) -> dict[str, Any]:
    origin = letter["origin"] or {}
    return {
        "reason": origin.get("reason"),
        "died_in": origin.get("queue"),
        "died_ms": origin.get("died_ms"),
        "error": origin.get("error"),
    }


@deadletter_app.command()
def show(
    queue: Queue,
    place: Place,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show one dead letter with its history."""
    lane, _, offset = place.partition(":")
    before = f"{lane}:{int(offset) - 1}" if offset.isdecimal() and offset != "0" else ""
    broker = connect(address, context, curl=curl)
    query = {"namespace": namespace, "after": before, "limit": 1}
    page = broker.get(path_of("v1", "queues", queue, "messages"), **query)
    found = next((one for one in page["messages"] if one["place"] == place), None)
    if found is None:
        fail([f"no message waits at {place} of queue {queue}."], NOT_FOUND)
    write_one(found, output, name="place")


@deadletter_app.command()
def edit(
    queue: Queue,
    place: Place,
    value: Annotated[str | None, typer.Option("--value", metavar="TEXT", help="Another value.")] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=TEXT", help="Another header; repeatable. NAME= removes it."),
    ] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    curl: Curl = False,
) -> None:
    """Change one: it moves to the end of its queue."""
    change: dict[str, Any] = {"headers": {}}
    if value is not None:
        change["value"] = value
    for text in headers or ():
        name, _, content = text.partition("=")
        change["headers"][name] = content or None
    path = with_query(path_of("v1", "queues", queue, "messages", place), {"namespace": namespace})
    connect(address, context, curl=curl).ask("PATCH", path, change)
    print(f"Message {place} is changed, and at the end of queue {queue}.")


@deadletter_app.command()
def redrive(
    queue: Queue,
    to: Annotated[str | None, typer.Option("--to", metavar="QUEUE", help="Not where each died, but there.")] = None,
    rate: Annotated[float, typer.Option("--rate", metavar="N", min=0.1, help="Messages in a second.")] = 100.0,
    reason: Reason = None,
    origin: Origin = None,
    where: Where = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Send dead letters back to where they died."""
    broker = connect(address, context, curl=curl)
    choice = {"reason": reason, "origin": origin, "where": where}
    if dry_run:
        path = path_of("v1", "queues", queue, "messages")
        found = list(broker.pages(path, "messages", limit, namespace=namespace, **choice))
        print(f"{len(found):,} messages of queue {queue} would be sent back.")
        return
    wish = {"to_queue": to, "rate": rate, "limit": limit, **choice}
    path = with_query(path_of("v1", "queues", queue, "redrive"), {"namespace": namespace})
    started = broker.ask("POST", path, {key: value for key, value in wish.items() if value is not None})
    write_one(started, output, name="number")


@deadletter_app.command()
def delete(
    queue: Queue,
    place: Place,
    yes: Yes = False,
    dry_run: DryRun = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    curl: Curl = False,
) -> None:
    """Settle one: it is gone."""
    if dry_run:
        print(f"Message {place} of queue {queue} would be deleted.")
        return
    if not curl:
        confirm(f"Message {place} of queue {queue} will be deleted", place, yes=yes)
    path = with_query(path_of("v1", "queues", queue, "messages", place), {"namespace": namespace})
    connect(address, context, curl=curl).ask("DELETE", path)
    print(f"Message {place} is deleted.")
