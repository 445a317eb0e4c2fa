"""`mainstem connection`: who is connected, by any protocol."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from mainstem.cli.terminal.asking import confirm
from mainstem.cli.terminal.broker import connect, path_of
from mainstem.cli.terminal.names import names_of
from mainstem.cli.terminal.options import Address, ContextName, Curl, DryRun, Limit, Output, Search, Yes
from mainstem.cli.terminal.output import write_list, write_one

connection_app = typer.Typer(help="Connections: list, show, close.", no_args_is_help=True)

Id: TypeAlias = Annotated[
    str, typer.Argument(metavar="ID", help="As `list` shows it.", autocompletion=names_of("connections", "id"))
]
COLUMNS = (
    "id",
    "client",
    "library",
    "version",
    "user",
    "address",
    "since_ms",
    "received_bytes_per_second",
    "sent_bytes_per_second",
)


@connection_app.callback()
def connection() -> None:
    """Connections: list, show, close."""


@connection_app.command("list")
def list_connections(
    search: Search = "",
    protocol: Annotated[str, typer.Option("--protocol", metavar="NAME", help="Only of this listener.")] = "",
    sort: Annotated[
        str, typer.Option("--sort", metavar="BY", help="since, client, user, address, received or sent.")
    ] = "since",
    limit: Limit = None,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show connections of every protocol."""
    broker = connect(address, context, curl=curl)
    found = broker.pages("/v1/connections", "connections", limit, search=search, protocol=protocol, sort=sort)
    write_list(found, COLUMNS, output, name="id")


@connection_app.command()
def show(
    id: Id, address: Address = None, context: ContextName = None, output: Output = None, curl: Curl = False
) -> None:
    """Show one connection."""
    write_one(connect(address, context, curl=curl).get(path_of("v1", "connections", id)), output, name="id")


@connection_app.command()
def close(
    id: Id,
    yes: Yes = False,
    dry_run: DryRun = False,
    address: Address = None,
    context: ContextName = None,
    curl: Curl = False,
) -> None:
    """Close a connection, once what is in flight is finished."""
    broker = connect(address, context, curl=curl)
    path = path_of("v1", "connections", id)
    if not curl:
        found = broker.get(path)
        who = f"Connection {id} of {found['client'] or found['library'] or 'a client'} from {found['address']}"
        if dry_run:
            print(f"{who} would be closed.")
            return
        confirm(f"{who} will be closed", id, yes=yes)
    broker.ask("DELETE", path)
    print(f"Connection {id} is closed.")
