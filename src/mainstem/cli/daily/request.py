"""`mainstem request`: publish a request to a topic or queue, and print the reply."""

from __future__ import annotations

import base64
import json
import sys
from typing import Annotated, Any

import typer

from mainstem.cli.daily.produce import parse_header
from mainstem.cli.terminal.broker import Broker, Refused, connect, path_of, with_query
from mainstem.cli.terminal.exits import FAILED, WRONG_USE, fail, status_of
from mainstem.cli.terminal.names import names_of
from mainstem.cli.terminal.options import Address, ContextName, Curl, Output
from mainstem.cli.terminal.output import Form, write_one
from mainstem.cli.terminal.times import parse_length

GATEWAY_TIMEOUT = 504
TIMEOUT_MS_MAX = 60_000


def request(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="A topic, or a queue.", autocompletion=names_of("topics"))
    ],
    value: Annotated[str | None, typer.Argument(metavar="VALUE", help="Default: standard input.")] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", metavar="TEXT", help="The key of the record.")] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=TEXT", help="A header; repeatable.")
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long to wait.")] = "10s",
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Publish a record and print the reply to it."""
    timeout_ms = parse_length(timeout)
    if not 0 < timeout_ms <= TIMEOUT_MS_MAX:
        fail([f"--timeout {timeout}: at most {TIMEOUT_MS_MAX // 1000}s"], WRONG_USE)
    broker = connect(address, context, curl=curl)
    text = sys.stdin.read() if value is None else value
    wish: dict[str, Any] = {"text": text, "headers": dict(map(parse_header, headers or ()))}
    if key is not None:
        wish["key"] = key
    path = with_query(path_of("v1", "topics", topic, "request"), {"timeout_ms": timeout_ms})
    reply = _ask(broker, path, wish)
    if output is None or output is Form.TABLE:
        _print(reply)
    else:
        write_one(reply, output, name="correlation_id")


def _ask(broker: Broker, path: str, wish: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = broker.try_send("POST", path, json.dumps(wish).encode(), {"content-type": "application/json"})
    except Refused as refusal:
        is_silence = refusal.status == GATEWAY_TIMEOUT
        fail([f"{str(refusal).rstrip('.')}."], FAILED if is_silence else status_of(refusal.status))
    reply: dict[str, Any] = json.loads(answer.body)
    return reply


def _print(reply: dict[str, Any]) -> None:
    """The value alone."""
    if "base64" in reply:
        sys.stdout.flush()
        sys.stdout.buffer.write(base64.b64decode(reply["base64"]))
    else:
        print(reply["text"] if "text" in reply else json.dumps(reply["value"]))
