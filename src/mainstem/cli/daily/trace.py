"""`mainstem trace`: where a message went."""

from __future__ import annotations

from typing import Annotated

import typer

from mainstem.cli.terminal.broker import connect, path_of
from mainstem.cli.terminal.exits import NOT_FOUND, fail
from mainstem.cli.terminal.options import DEFAULT_NAMESPACE, Address, ContextName, Curl, Namespace, Output
from mainstem.cli.terminal.output import write_list


def trace(
    message: Annotated[
        str, typer.Argument(metavar="MESSAGE", help="TOPIC:PARTITION:OFFSET, a traceparent, a key or a message id.")
    ],
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC", help="Look only here, and further back.")
    ] = None,
    key: Annotated[bool, typer.Option("--key", help="MESSAGE is a key, whatever it looks like.")] = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show the stations of a message, those with a time first. Ends with 3 where it is not found."""
    asked = {"topic": topic, "by": "key" if key else None, "namespace": namespace}
    found = connect(address, context, curl=curl).get(path_of("v1", "trace", message), **asked)
    if not found["records"] and not found["stations"]:
        further = "" if found["complete"] else "; name the --topic to look further back"
        fail([f"No message is found among {found['scanned']} records{further}."], NOT_FOUND)
    write_list(map(_flat, found["stations"]), ("time_ms", "what", "who", "at", "detail"), output, name="what")


def _flat(station: dict[str, object]) -> dict[str, object]:
    place = station["place"]
    at = f"{place['topic']}:{place['partition']}:{place['offset']}" if isinstance(place, dict) else None
    return {**station, "at": at}
