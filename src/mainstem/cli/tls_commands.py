"""`mainstem tls`: certificates of our own, for trying TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mainstem.cli.terminal.exits import FAILED, fail

tls_app = typer.Typer(help="Certificates for trying TLS.", no_args_is_help=True)


@tls_app.callback()
def tls() -> None:
    """Certificates for trying TLS."""


@tls_app.command("init")
def init(
    directory: Annotated[Path, typer.Argument(help="Where the files go; made when missing.", show_default=False)],
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="NAME", help="A name or address by which clients reach the broker; repeatable."),
    ] = None,
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="Whom the client's certificate names.")
    ] = "client",
) -> None:
    """Make an authority, a certificate for the broker and one for a client. Files that are there stay."""
    # Late: other commands need no cryptography.
    from mainstem.server.certificate_authority import LOCAL_NAMES, issue_client, issue_server, make_authority

    names = ("ca", "server", "client")
    present = [name for name in names if any((directory / f"{name}{end}").exists() for end in (".crt", ".key"))]
    if present:
        fail([f"{directory} has files of {', '.join(present)} already; name another directory"], FAILED)
    hosts = list(dict.fromkeys([*LOCAL_NAMES, *(host or ())]))
    try:
        authority = make_authority("Mainstem local authority")
        identities = (authority, issue_server(authority, hosts[-1], hosts), issue_client(authority, user))
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        paths = [path for name, one in zip(names, identities, strict=True) for path in one.write(directory, name)]
    except (OSError, ValueError) as error:
        fail([f"cannot make certificates: {error}"], FAILED)
    for path in paths:
        print(path)
