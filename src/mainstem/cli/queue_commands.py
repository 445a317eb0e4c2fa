"""`mainstem queue`: what queries of Spark have acquired, and letting it go. Asks a running broker."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import typer

from mainstem.cli.settings_options import fail
from mainstem.model.errors import MainstemError
from mainstem.sdk.http_api import ADDRESS_DEFAULT

TIMEOUT_S = 5.0
LISTED_MAX = 1_000
HELD = ("leased", "pinned")
EXIT_FAILED = 1

queue_app = typer.Typer(help="Queues, and what queries of Spark have acquired from them.", no_args_is_help=True)

Http: TypeAlias = Annotated[str, typer.Option("--http", metavar="HOST:PORT", help="The broker's HTTP listener.")]


@queue_app.callback()
def queue() -> None:
    """Queues, and what queries of Spark have acquired from them."""


@queue_app.command()
def acquisitions(
    subscription: Annotated[
        str, typer.Option("--subscription", metavar="NAME", help="Of this queue or subscription alone.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Those too that have ended.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    http: Http = ADDRESS_DEFAULT,
) -> None:
    """Print what is acquired and not settled, the oldest first."""
    from mainstem.sdk.acquisitions import Acquisitions

    try:
        found = Acquisitions(http, timeout_s=TIMEOUT_S).list(subscription, LISTED_MAX)
    except MainstemError as error:
        fail([str(error)], EXIT_FAILED)
    for one in found:
        if everything or one["condition"] in HELD:
            print(json.dumps(one) if as_json else _line(one))


@queue_app.command()
def release(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Which, as `acquisitions` names them.")],
    http: Http = ADDRESS_DEFAULT,
) -> None:
    """Let others have the records of acquisitions. Their query, if it runs again, is told so and ends."""
    from mainstem.sdk.acquisitions import Acquisitions

    calls = Acquisitions(http, timeout_s=TIMEOUT_S)
    for name in ids:
        try:
            released = calls.release(name)
        except MainstemError as error:
            fail([str(error)], EXIT_FAILED)
        if released["condition"] == "released":
            print(f"{released['records']} records of {released['subscription']} are free")
        else:
            print(f"{name} is {released['condition']}: nothing was to be released")


def _line(one: Mapping[str, Any]) -> str:
    age_s = max(time.time() - one["opened_ms"] / 1000, 0)
    of = (
        one["subscription"]
        if one.get("namespace") in (None, "default")
        else f"{one['namespace']}/{one['subscription']}"
    )
    queries = ", ".join(one.get("queries", [])) or "-"
    return f"{one['id']}  {one['condition']:<8}  {one['records']:>8}  {age_s:>8.0f} s  {of}  {queries}"
