"""`mainstem context`: brokers by name."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from mainstem.cli.terminal.asking import confirm
from mainstem.cli.terminal.broker import split_address
from mainstem.cli.terminal.contexts import Context, Contexts, read_contexts, write_contexts
from mainstem.cli.terminal.exits import NOT_FOUND, fail
from mainstem.cli.terminal.options import DryRun, Output, Yes
from mainstem.cli.terminal.output import write_list, write_one

context_app = typer.Typer(help="Brokers by name: list, show, add, use, remove.", no_args_is_help=True)

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="What the broker is called here.")]


@context_app.callback()
def context() -> None:
    """Brokers by name: list, show, add, use, remove."""


@context_app.command("list")
def list_contexts(output: Output = None) -> None:
    """Show all, and which one is in use."""
    contexts = read_contexts()
    rows = [{"name": name, **_shown(one), "current": name == contexts.current} for name, one in contexts.known.items()]
    write_list(rows, ("name", "address", "user", "current"), output)


@context_app.command()
def show(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Without it, the one in use.")] = None,
    output: Output = None,
) -> None:
    """Show one."""
    contexts = read_contexts()
    found = _known(contexts, name or contexts.current)
    write_one({"name": found.name, **_shown(found)}, output)


@context_app.command()
def add(
    name: Name,
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Its HTTP listener.")],
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="Who you are there.")] = "",
    password_file: Annotated[str, typer.Option("--password-file", metavar="FILE", help="Holds the password.")] = "",
    password_command: Annotated[
        str, typer.Option("--password-command", metavar="COMMAND", help="Prints the password.")
    ] = "",
) -> None:
    """Add one, or change it. The first is in use at once."""
    split_address(address)
    contexts = read_contexts()
    known = {**contexts.known, name: Context(name, address, user, password_file, password_command)}
    write_contexts(Contexts(contexts.current or name, known))
    print(f"Context {name} is {address}.")


@context_app.command()
def use(name: Name) -> None:
    """Use this one from now on."""
    contexts = read_contexts()
    _known(contexts, name)
    write_contexts(contexts._replace(current=name))
    print(f"Context {name} is in use.")


@context_app.command()
def remove(name: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Forget one."""
    contexts = read_contexts()
    _known(contexts, name)
    if dry_run:
        print(f"Context {name} would be removed.")
        return
    confirm(f"Context {name} will be removed", name, yes=yes)
    known = {known: one for known, one in contexts.known.items() if known != name}
    write_contexts(Contexts("" if contexts.current == name else contexts.current, known))
    print(f"Context {name} is removed.")


def _known(contexts: Contexts, name: str) -> Context:
    if name not in contexts.known:
        fail(
            [f"there is no context {name}: `mainstem context list` shows them" if name else "no context is in use"],
            NOT_FOUND,
        )
    return contexts.known[name]


def _shown(one: Context) -> dict[str, str]:
    return {field: getattr(one, field) for field in ("address", "user", "password_file", "password_command")}
