"""`mainstem user`: who may log in, whatever the protocol."""

from __future__ import annotations

import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from mainstem.cli.terminal.asking import confirm
from mainstem.cli.terminal.broker import connect, path_of
from mainstem.cli.terminal.exits import WRONG_USE, fail
from mainstem.cli.terminal.names import names_of
from mainstem.cli.terminal.options import Address, ContextName, Curl, DryRun, Limit, Output, Search, Yes
from mainstem.cli.terminal.output import write_list, write_one

user_app = typer.Typer(
    help="Users: list, show, create, delete, password, roles, disable, enable, logout.", no_args_is_help=True
)

Name: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of a user.", autocompletion=names_of("users"))
]
Role: TypeAlias = Annotated[
    list[str] | None, typer.Option("--role", metavar="ROLE", help="administrator, monitoring and others; repeatable.")
]
PasswordFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--password-file", metavar="FILE", help="Its first line. Default: asked for, or read from the input."),
]
NoPassword: TypeAlias = Annotated[bool, typer.Option("--no-password", help="No password is right.")]


@user_app.callback()
def user() -> None:
    """Users: list, show, create, delete, password, roles, disable, enable, logout."""


@user_app.command("list")
def list_users(
    search: Search = "",
    limit: Limit = None,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show users."""
    found = connect(address, context, curl=curl).pages("/v1/users", "users", limit, search=search)
    write_list(found, ("name", "roles", "disabled", "proofs", "sessions"), output)


@user_app.command()
def show(
    name: Name, address: Address = None, context: ContextName = None, output: Output = None, curl: Curl = False
) -> None:
    """Show a user."""
    write_one(connect(address, context, curl=curl).get(path_of("v1", "users", name)), output)


@user_app.command()
def create(
    name: Name,
    role: Role = None,
    password_file: PasswordFile = None,
    no_password: NoPassword = False,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
) -> None:
    """Make a user."""
    wish: dict[str, Any] = {"name": name, "roles": role or []}
    if not no_password:
        wish["password"] = _password(password_file)
    write_one(connect(address, context).ask("POST", "/v1/users", wish), output)


@user_app.command()
def password(
    name: Name,
    password_file: PasswordFile = None,
    no_password: NoPassword = False,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
) -> None:
    """Set a new password; the user's sessions of browsers end."""
    change = {"password": None if no_password else _password(password_file)}
    write_one(connect(address, context).ask("PATCH", path_of("v1", "users", name), change), output)


@user_app.command()
def roles(
    name: Name,
    role: Role = None,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Give a user these roles and no others."""
    _change(name, {"roles": role or []}, address, context, output, curl=curl)


@user_app.command()
def disable(
    name: Name, address: Address = None, context: ContextName = None, output: Output = None, curl: Curl = False
) -> None:
    """Let nobody in as this user; its connections are closed."""
    _change(name, {"disabled": True}, address, context, output, curl=curl)


@user_app.command()
def enable(
    name: Name, address: Address = None, context: ContextName = None, output: Output = None, curl: Curl = False
) -> None:
    """Let the user in again."""
    _change(name, {"disabled": False}, address, context, output, curl=curl)


@user_app.command()
def logout(name: Name, address: Address = None, context: ContextName = None, curl: Curl = False) -> None:
    """End the user's sessions of browsers."""
    connect(address, context, curl=curl).ask("DELETE", path_of("v1", "users", name, "sessions"))
    print(f"User {name} is logged out of all browsers.")


@user_app.command()
def delete(
    name: Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    address: Address = None,
    context: ContextName = None,
    curl: Curl = False,
) -> None:
    """Delete a user with all that was given to it; its connections are closed."""
    broker = connect(address, context, curl=curl)
    path = path_of("v1", "users", name)
    if not curl:
        broker.get(path)
        if dry_run:
            print(f"User {name} would be deleted.")
            return
        confirm(f"User {name} will be deleted", name, yes=yes)
    broker.ask("DELETE", path)
    print(f"User {name} is deleted.")


def _change(
    name: str,
    change: dict[str, Any],
    address: str | None,
    context: str | None,
    output: Output,
    *,
    curl: bool,
) -> None:
    write_one(connect(address, context, curl=curl).ask("PATCH", path_of("v1", "users", name), change), output)


def _password(file: Path | None) -> str:
    """Never an argument: all users of the machine see those."""
    try:
        if file is not None:
            text = file.expanduser().read_text(encoding="utf-8").partition("\n")[0]
        elif sys.stdin.isatty():
            text = getpass("Password: ")
            if text != getpass("Again: "):
                fail(["the two passwords differ"], WRONG_USE)
        else:
            text = sys.stdin.readline().removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        fail([f"the password cannot be read: {error}"], WRONG_USE)
    if not text:
        fail(["the password is empty"], WRONG_USE)
    return text
