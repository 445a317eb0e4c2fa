"""`mainstem produce`: publish what is given, or what standard input holds: a record per line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from mainstem.cli.terminal.broker import Broker, connect, note, path_of, with_query
from mainstem.cli.terminal.exits import INTERRUPTED, WRONG_USE, fail
from mainstem.cli.terminal.names import names_of
from mainstem.cli.terminal.options import DEFAULT_NAMESPACE, Address, ContextName, Curl, Namespace
from mainstem.cli.terminal.times import parse_length

BATCH_RECORDS = 500
BATCH_BYTES = 512 << 10
LINES = "application/x-ndjson"


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to publish.", autocompletion=names_of("topics"))],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="[VALUE]...", help="A record each. Without any: standard input.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", metavar="KEY", help="The key of all records.")] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=TEXT", help="A header of all; repeatable.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", metavar="N", min=0, help="Of all records.")] = None,
    any_partition: Annotated[
        bool, typer.Option("--any-partition", help="Forget the partitions that records of `consume` have.")
    ] = False,
    after: Annotated[str | None, typer.Option("--in", metavar="TIME", help="Publish after this time, as 2h.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Each line is a value as it stands, not a record.")] = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    address: Address = None,
    context: ContextName = None,
    curl: Curl = False,
) -> None:
    """Publish records: arguments, or the lines of standard input.

    A line is a record as `consume -o jsonl` writes it; any other line is a value.
    """
    more: dict[str, Any] = {} if key is None else {"key": key}
    if headers:
        more["headers"] = dict(parse_header(text) for text in headers)
    if partition is not None:
        more["partition"] = partition
    if after is not None:
        more["after_ms"] = parse_length(after)
    broker = connect(address, context, curl=curl)
    path = with_query(path_of("v1", "topics", topic, "records"), {"namespace": namespace})
    lines = _given(values) if values else _input(raw, any_partition)
    sent = 0
    try:
        for batch in _batches(lines, more):
            broker.send("POST", path, b"\n".join(batch) + b"\n", {"content-type": LINES})
            sent += len(batch)
    except KeyboardInterrupt:
        note(f"{sent:,} records were published.")
        raise typer.Exit(INTERRUPTED) from None
    _report(broker, topic, sent)


def _report(broker: Broker, topic: str, sent: int) -> None:
    if sys.stderr.isatty():
        note(f"{sent:,} records were published to {topic} at {broker.context.address}.")


def parse_header(text: str) -> tuple[str, str]:
    """A header as it is typed. Ends the command for anything else."""
    name, separator, content = text.partition("=")
    if not separator or not name:
        fail([f"--header {text}: must be NAME=TEXT"], WRONG_USE)
    return name, content


def _given(values: list[str]) -> Iterator[bytes]:
    for value in values:
        yield _value(value)


def _value(text: str) -> bytes:
    return json.dumps({"text": text}).encode()


def _input(raw: bool, any_partition: bool) -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        line = line.rstrip(b"\r\n")
        if raw:
            yield _raw(line)
        elif line.strip():
            record = _record(line)
            if record is None:
                yield _raw(line)
            elif any_partition:
                yield _without_partition(line, record)
            else:
                yield line


def _raw(line: bytes) -> bytes:
    try:
        return _value(line.decode())
    except UnicodeDecodeError:
        import base64

        return json.dumps({"base64": base64.b64encode(line).decode()}).encode()


_FIELDS = {
    "key", "value", "text", "base64", "headers", "partition", "offset", "time_ms", "size", "after_ms", "due_ms",
}  # fmt: skip


def _record(line: bytes) -> dict[str, Any] | None:
    """A record in the form of `consume`; None: anything else."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    is_one = found.keys() <= _FIELDS and not found.keys().isdisjoint({"value", "text", "base64"})
    return found if is_one else None


def _without_partition(line: bytes, record: dict[str, Any]) -> bytes:
    # The value stays byte for byte: only the first field is taken out, where `consume` writes it.
    head = b'{"partition":%d,' % record.get("partition", 0)
    if line.startswith(head):
        return b"{" + line[len(head) :]
    record.pop("partition", None)
    return json.dumps(record).encode()


def _batches(lines: Iterator[bytes], more: dict[str, Any]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for line in lines:
        if more:
            line = json.dumps({**json.loads(line), **more}).encode()
        if batch and (len(batch) >= BATCH_RECORDS or size + len(line) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    if batch:
        yield batch
