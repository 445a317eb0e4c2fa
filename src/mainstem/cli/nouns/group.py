"""`mainstem group`: consumer groups of every kind, and share groups."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from mainstem.cli.terminal.asking import confirm
from mainstem.cli.terminal.broker import connect, path_of
from mainstem.cli.terminal.exits import FAILED, WRONG_USE, fail
from mainstem.cli.terminal.names import names_of
from mainstem.cli.terminal.options import Address, ContextName, Curl, DryRun, Limit, Output, Search, Yes
from mainstem.cli.terminal.output import write_list, write_one
from mainstem.cli.terminal.times import parse_length, parse_time

group_app = typer.Typer(help="Groups: list, show, seek, delete.", no_args_is_help=True)

Name: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of a group.", autocompletion=names_of("groups"))
]


@group_app.callback()
def group() -> None:
    """Groups: list, show, seek, delete."""


@group_app.command("list")
def list_groups(
    search: Search = "",
    limit: Limit = None,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show groups."""
    found = connect(address, context, curl=curl).pages("/v1/groups", "groups", limit, search=search)
    write_list(found, ("name", "state", "members", "is_shared"), output)


@group_app.command()
def show(
    name: Name,
    fail_above: Annotated[
        str | None, typer.Option("--fail-above", metavar="TIME", help="End with 1 if its lag is longer, as 10s.")
    ] = None,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show a group: members, offsets, lag in messages and seconds."""
    found = connect(address, context, curl=curl).get(path_of("v1", "groups", name))
    write_one(found, output, leave_out=("next",))
    if fail_above is not None and (found["lag_seconds"] or 0) * 1000 > parse_length(fail_above):
        fail([f"group {name} is {found['lag_seconds']:.1f} s behind."], FAILED)


@group_app.command()
def seek(
    name: Name,
    to_start: Annotated[bool, typer.Option("--to-start", help="To the oldest record.")] = False,
    to_end: Annotated[bool, typer.Option("--to-end", help="Behind the newest record.")] = False,
    to_time: Annotated[
        str | None, typer.Option("--to-time", metavar="TIME", help="As 2026-11-18T14:03:20, or 15m ago.")
    ] = None,
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="N", min=0, help="To this offset.")] = None,
    by: Annotated[
        int | None, typer.Option("--by", metavar="N", help="By this number of records: -100 goes back.")
    ] = None,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME", help="Only this one; repeatable.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", metavar="N", min=0, help="Only this one.")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Move a group that has no members, after showing what would move."""
    wish: dict[str, Any] = {"topics": topics or []}
    if partition is not None:
        wish["partition"] = partition
    targets: dict[str, Any] = {}
    if to_start or to_end:
        targets["to"] = "start" if to_start else "end"
    if to_time is not None:
        time_ms = parse_time(to_time)
        if time_ms is None:
            fail([f"{to_time} is not a time, as 2026-11-18T14:03:20 or 15m"], WRONG_USE)
        targets["time_ms"] = time_ms
    if to_offset is not None:
        targets["offset"] = to_offset
    if by is not None:
        targets["by"] = by
    if len(targets) != 1 or (to_start and to_end):
        fail(["one of --to-start, --to-end, --to-time, --to-offset and --by"], WRONG_USE)
    broker = connect(address, context, curl=curl)
    path = path_of("v1", "groups", name, "seek")
    if not curl:
        preview = broker.ask("POST", path, {**wish, **targets, "dry_run": True})
        if dry_run or not yes:
            write_list(preview["moves"], ("topic", "partition", "before", "after"), output, name="topic")
        if dry_run:
            return
        confirm(f"Group {name} will be moved in {len(preview['moves'])} partitions", name, yes=yes)
    moved = broker.ask("POST", path, {**wish, **targets})
    if yes:
        write_list(moved["moves"], ("topic", "partition", "before", "after"), output, name="topic")


@group_app.command()
def delete(
    name: Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    address: Address = None,
    context: ContextName = None,
    curl: Curl = False,
) -> None:
    """Delete a group without members, with its offsets."""
    broker = connect(address, context, curl=curl)
    if not curl:
        found = broker.get(path_of("v1", "groups", name))
        if dry_run:
            print(f"Group {name} with {len(found['offsets'])} offsets would be deleted.")
            return
        confirm(f"Group {name} with {len(found['offsets'])} offsets will be deleted", name, yes=yes)
    broker.ask("DELETE", path_of("v1", "groups", name))
    print(f"Group {name} is deleted.")
