"""How answers are written: a table for people at a terminal, else JSON lines; or as `-o` says."""

from __future__ import annotations

import csv
import datetime
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import typer

from mainstem.cli.terminal.exits import BROKEN_PIPE

CELL_CHARACTERS_MAX = 80


class Form(StrEnum):
    """Of what is written."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    NAME = "name"


def form_of(wanted: Form | None) -> Form:
    """The one that is meant."""
    return wanted or (Form.TABLE if sys.stdout.isatty() else Form.JSONL)


def write_list(
    items: Iterable[Mapping[str, Any]], columns: Sequence[str], wanted: Form | None, name: str = "name"
) -> None:
    """Many things; `columns` are those of a table, `name` is what `-o name` prints."""
    form = form_of(wanted)
    try:
        if form is Form.TABLE:
            _write_table(items, columns)
        elif form is Form.JSON:
            print(json.dumps(list(items), indent=2))
        elif form is Form.CSV:
            writer = csv.writer(sys.stdout)
            writer.writerow(columns)
            for item in items:
                writer.writerow([_cell(item.get(column)) for column in columns])
        else:
            for item in items:
                print(item[name] if form is Form.NAME else json.dumps(item), flush=True)
        sys.stdout.flush()
    except BrokenPipeError:
        end_pipe()


def write_one(item: Mapping[str, Any], wanted: Form | None, name: str = "name", leave_out: Sequence[str] = ()) -> None:
    """One thing: its fields line by line for people, lists as tables below."""
    form = form_of(wanted)
    if form is Form.NAME:
        print(item[name])
    elif form is Form.JSON:
        print(json.dumps(item, indent=2))
    elif form is Form.JSONL:
        print(json.dumps(item))
    elif form is Form.CSV:
        write_list([item], [key for key, value in item.items() if not isinstance(value, list | dict)], form)
    else:
        _write_fields({key: value for key, value in item.items() if key not in leave_out})


def _write_fields(item: Mapping[str, Any]) -> None:
    plain = {key: value for key, value in item.items() if not isinstance(value, list | dict)}
    width = max((len(key) for key in plain), default=0)
    for key, value in plain.items():
        print(f"{key:<{width}}  {_named_cell(key, value)}")
    for key, value in item.items():
        if isinstance(value, dict) and value:
            print(f"\n{key}")
            inner = max(len(str(name)) for name in value)
            for name, one in value.items():
                shown = one.get("value") if isinstance(one, dict) and "value" in one else one
                print(f"  {name:<{inner}}  {_cell(shown)}")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            print(f"\n{key}")
            _write_table(value, list(value[0]))
        elif isinstance(value, list) and value:
            print(f"\n{key}\n  " + "\n  ".join(map(str, value)))


def _write_table(items: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    rows = [[_named_cell(column, item.get(column)) for column in columns] for item in items]
    numeric = [
        all(isinstance(item, str) and (item[:1].isdigit() or item in ("-", "")) for item in column)
        for column in (list(zip(*rows, strict=True)) or [() for _ in columns])
    ]
    widths = [max([len(name), *(len(row[at]) for row in rows)]) for at, name in enumerate(columns)]
    for row in [[column.upper() for column in columns], *rows]:
        cells = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(row, widths, numeric, strict=True)
        ]
        print("  ".join(cells).rstrip())


def _named_cell(name: str, value: Any) -> str:
    if name.endswith("_ms") and isinstance(value, int) and value > 100_000_000_000:
        return moment(value)
    return _cell(value)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}"
    text = value if isinstance(value, str) else str(value) if isinstance(value, int) else json.dumps(value)
    text = "".join(character if character.isprintable() else "?" for character in text)
    return text if len(text) <= CELL_CHARACTERS_MAX else text[: CELL_CHARACTERS_MAX - 1] + "~"


def moment(ms: int) -> str:
    """A time, in UTC."""
    time = datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
    return time.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def end_pipe() -> None:
    """Nobody reads any more: end as a program does that SIGPIPE ended."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(BROKEN_PIPE)
