"""`mainstem consume`: read what is there and end, or follow what comes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from mainstem.cli.terminal.broker import Broker, Reply, connect, note, path_of, with_query
from mainstem.cli.terminal.exits import INTERRUPTED, WRONG_USE, fail
from mainstem.cli.terminal.names import names_of
from mainstem.cli.terminal.options import DEFAULT_NAMESPACE, Address, ContextName, Curl, Namespace, Output
from mainstem.cli.terminal.output import Form, end_pipe, form_of, moment, write_list
from mainstem.cli.terminal.times import parse_time

PAGE_RECORDS = 1_000
WAIT_MS = 10_000
LINES = "application/x-ndjson"
COLUMNS = ("partition", "offset", "time_ms", "key", "value", "headers")


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.", autocompletion=names_of("topics"))],
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="An offset, a time as 2026-11-18T14:03:20 or 15m ago, -10 for the last ten, or end.",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", metavar="N", min=1, help="End after this number of records.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    key: Annotated[str | None, typer.Option("--key", "-k", metavar="KEY", help="Only records of this key.")] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="Only what fits: an expression over key, headers, JSON value."),
    ] = None,
    decode: Annotated[
        bool, typer.Option("--decode", help="Show what values say by the schemas of the registry that they name.")
    ] = False,
    partition: Annotated[int | None, typer.Option("--partition", metavar="N", min=0, help="Only this one.")] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Read records: what is there, and then end; with -f, what comes too.

    `-o jsonl` is what `produce` reads; `-o name` prints values alone.
    """
    broker = connect(address, context, curl=curl)
    query: dict[str, Any] = {"namespace": namespace, "key": key, "where": where, "partition": partition}
    if decode:
        query["decode"] = "true"
    path = path_of("v1", "topics", topic, "records")
    try:
        _write(_read(broker, path, query, begin, count, follow), form_of(output))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        end_pipe()


def _read(
    broker: Broker, path: str, query: dict[str, Any], begin: str | None, count: int | None, follow: bool
) -> Iterator[bytes]:
    """Records as lines."""
    left = count
    last = _last_count(begin)
    place: dict[str, Any] = {}
    if last is not None:
        reply = _page(broker, path, {**query, "newest": min(last, PAGE_RECORDS)})
        lines = reply.body.splitlines()[::-1]
        yield from lines if left is None else lines[:left]
        left = None if left is None else left - len(lines)
        if not follow or (left is not None and left <= 0):
            return
        place = {"after": reply.headers["mainstem-follow"]}
    else:
        place = _place(begin, query)
    scanned = 0
    while left is None or left > 0:
        limit = PAGE_RECORDS if left is None else min(left, PAGE_RECORDS)
        wait_ms = WAIT_MS if follow else 0
        reply = _page(broker, path, {**query, **place, "limit": limit, "wait_ms": wait_ms})
        lines = reply.body.splitlines()
        yield from lines
        scanned += int(reply.headers["mainstem-scanned"])
        left = None if left is None else left - len(lines)
        query = {**query, "partition": None}
        place = {"after": reply.headers["mainstem-position"]}
        if reply.headers["mainstem-complete"] == "true":
            if not follow:
                return
        elif not lines and sys.stderr.isatty():
            note(f"{scanned:,} records scanned")


def _page(broker: Broker, path: str, query: dict[str, Any]) -> Reply:
    return broker.send("GET", with_query(path, query), headers={"accept": LINES})


def _last_count(begin: str | None) -> int | None:
    return int(begin[1:]) if begin and begin.startswith("-") and begin[1:].isdecimal() and int(begin[1:]) else None


def _place(begin: str | None, query: dict[str, Any]) -> dict[str, Any]:
    if begin is None:
        return {}
    if begin == "end":
        return {"time_ms": 2**53}
    time_ms = parse_time(begin)
    if time_ms is not None:
        return {"time_ms": time_ms}
    if not begin.isdecimal():
        fail([f"--from {begin}: must be an offset, a time, -N or end"], WRONG_USE)
    return {"offset": begin}


def _write(lines: Iterator[bytes], form: Form) -> None:
    out = sys.stdout.buffer
    if form is Form.JSONL:
        for line in lines:
            out.write(line + b"\n")
            out.flush()
    elif form is Form.TABLE:
        for line in lines:
            record = json.loads(line)
            where = f"{record['partition']}:{record['offset']}"
            print(f"{moment(record['time_ms'])}  {where:>12}  {_text(record['key'])}  {_value(record)}", flush=True)
    elif form is Form.NAME:
        for line in lines:
            print(_value(json.loads(line)), flush=True)
    else:
        rows = ({**(record := json.loads(line)), "value": _value(record)} for line in lines)
        if form is Form.JSON:
            rows = (json.loads(line) for line in lines)
        write_list(rows, COLUMNS, form)


def _text(content: Any) -> str:
    return "-" if content is None else content if isinstance(content, str) else f"base64:{content['base64']}"


def _value(record: dict[str, Any]) -> str:
    if "decoded" in record:
        return json.dumps(record["decoded"], ensure_ascii=False)
    if "text" in record:
        return str(record["text"])
    if "base64" in record:
        return f"base64:{record['base64']}"
    return "" if record["value"] is None else json.dumps(record["value"], ensure_ascii=False)
