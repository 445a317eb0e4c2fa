"""`mainstem exchange`: exchanges, and the bindings that lead from them."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from mainstem.cli.terminal.asking import confirm
from mainstem.cli.terminal.broker import connect, path_of, with_query
from mainstem.cli.terminal.exits import NOT_FOUND, WRONG_USE, fail
from mainstem.cli.terminal.names import names_of
from mainstem.cli.terminal.options import (
    DEFAULT_NAMESPACE,
    Address,
    ContextName,
    Curl,
    DryRun,
    Limit,
    Namespace,
    Output,
    Search,
    Yes,
)
from mainstem.cli.terminal.output import write_list, write_one

exchange_app = typer.Typer(help="Exchanges: list, show, create, delete, bind, unbind.", no_args_is_help=True)

Name: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of an exchange.", autocompletion=names_of("exchanges"))
]
Goal: TypeAlias = Annotated[str, typer.Argument(metavar="QUEUE", help="Where the binding leads.")]
ToExchange: TypeAlias = Annotated[bool, typer.Option("--to-exchange", help="It is an exchange, not a queue.")]
Key: TypeAlias = Annotated[str, typer.Option("--key", "-k", metavar="TEXT", help="The routing key.")]
Arguments: TypeAlias = Annotated[
    list[str] | None, typer.Option("--argument", metavar="KEY=VALUE", help="An argument; repeatable.")
]
COLUMNS = ("exchange", "destination", "destination_kind", "routing_key", "arguments")


@exchange_app.callback()
def exchange() -> None:
    """Exchanges: list, show, create, delete, bind, unbind."""


@exchange_app.command("list")
def list_exchanges(
    search: Search = "",
    limit: Limit = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show exchanges."""
    broker = connect(address, context, curl=curl)
    found = broker.pages("/v1/exchanges", "exchanges", limit, search=search, namespace=namespace)
    write_list(found, ("name", "kind", "durable", "auto_delete", "internal", "bindings"), output)


@exchange_app.command()
def show(
    name: Name,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show an exchange, and where it leads."""
    broker = connect(address, context, curl=curl)
    found = broker.get(path_of("v1", "exchanges", name), namespace=namespace)
    leads = broker.pages("/v1/bindings", "bindings", None, exchange=name, namespace=namespace)
    write_one({**found, "bindings": list(leads)}, output)


@exchange_app.command()
def create(
    name: Name,
    kind: Annotated[
        str, typer.Option("--kind", metavar="KIND", help="direct, fanout, topic, headers, and more.")
    ] = "direct",
    transient: Annotated[bool, typer.Option("--transient", help="It ends with the broker.")] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Only other exchanges lead to it.")] = False,
    argument: Arguments = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Create an exchange."""
    wish = {
        "name": name,
        "kind": kind,
        "durable": not transient,
        "internal": internal,
        "arguments": _arguments(argument),
        "namespace": namespace,
    }
    write_one(connect(address, context, curl=curl).ask("POST", "/v1/exchanges", wish), output)


@exchange_app.command()
def delete(
    name: Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    curl: Curl = False,
) -> None:
    """Delete an exchange with its bindings."""
    broker = connect(address, context, curl=curl)
    path = with_query(path_of("v1", "exchanges", name), {"namespace": namespace})
    if not curl:
        bindings = broker.ask("GET", path)["bindings"]
        if dry_run:
            print(f"Exchange {name} with {bindings} bindings would be deleted.")
            return
        confirm(f"Exchange {name} with {bindings} bindings will be deleted", name, yes=yes)
    broker.ask("DELETE", path)
    print(f"Exchange {name} is deleted.")


@exchange_app.command()
def bind(
    name: Name,
    destination: Goal,
    to_exchange: ToExchange = False,
    key: Key = "",
    argument: Arguments = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Bind a queue or an exchange to an exchange."""
    wish = {
        "exchange": name,
        "to_exchange" if to_exchange else "queue": destination,
        "routing_key": key,
        "arguments": _arguments(argument),
        "namespace": namespace,
    }
    write_one(connect(address, context, curl=curl).ask("POST", "/v1/bindings", wish), output, name="id")


@exchange_app.command()
def unbind(
    name: Name,
    destination: Goal,
    to_exchange: ToExchange = False,
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="TEXT", help="The routing key. Default: any.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
) -> None:
    """Remove bindings between an exchange and a queue or an exchange."""
    broker = connect(address, context)
    end = {"to_exchange" if to_exchange else "queue": destination}
    found = [
        one
        for one in broker.pages("/v1/bindings", "bindings", None, exchange=name, namespace=namespace, **end)
        if key in (None, one["routing_key"])
    ]
    if not found:
        fail([f"nothing leads from {name} to {destination} like this."], NOT_FOUND)
    if dry_run or not yes:
        write_list(found, COLUMNS, output, name="id")
    if dry_run:
        return
    confirm(f"{len(found)} bindings of exchange {name} will be removed", name, yes=yes)
    for one in found:
        broker.ask("DELETE", with_query(path_of("v1", "bindings", one["id"]), {"namespace": namespace}))
    print(f"{len(found)} bindings are removed.")


def _arguments(given: list[str] | None) -> dict[str, Any]:
    """Numbers and true, false are what they look like; anything else is text."""
    arguments: dict[str, Any] = {}
    for text in given or ():
        key, separator, value = text.partition("=")
        if not separator or not key:
            fail([f"--argument {text}: must be KEY=VALUE"], WRONG_USE)
        if value in ("true", "false"):
            arguments[key] = value == "true"
        else:
            arguments[key] = int(value) if value.removeprefix("-").isdecimal() else value
    return arguments
