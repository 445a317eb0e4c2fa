"""A frame to text: a table for people, JSON and CSV for programs. Rows are fetched as they are written."""

from __future__ import annotations

import base64
import csv
import datetime
import decimal
import json
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

FORMATS = ("table", "json", "csv")
TABLE_ROWS_MAX = 1_000
"""Of a table that nobody gave a limit for: it is laid out in memory."""
CELL_CHARACTERS_MAX = 80
CONTROL = dict.fromkeys(range(32), " ")


def write_result(frame: DataFrame, out: TextIO, form: str, limit: int | None) -> None:
    """All rows, or at most this number."""
    if not frame.columns:
        return
    match form:
        case "json":
            for row in _rows(frame, limit):
                out.write(json.dumps(_plain(row.asDict()), ensure_ascii=False) + "\n")
        case "csv":
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(frame.columns)
            for row in _rows(frame, limit):
                writer.writerow([_text(value, "") for value in row])
        case _:
            _write_table(frame, out, limit)


def _write_table(frame: DataFrame, out: TextIO, limit: int | None) -> None:
    most = TABLE_ROWS_MAX if limit is None else limit
    # one more tells whether there are more
    rows = list(islice(_rows(frame, most + 1), most + 1))
    cells = [[_cell(value) for value in row] for row in rows[:most]]
    names = [name.translate(CONTROL) for name in frame.columns]
    widths = [max([len(name), *(len(row[index]) for row in cells)]) for index, name in enumerate(names)]
    numeric = [kind.split("(")[0] in ("tinyint", "smallint", "int", "bigint", "double", "float", "decimal")
               for _, kind in frame.dtypes]  # fmt: skip

    def line(texts: list[str]) -> str:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(texts, widths, numeric, strict=True)
        ]
        return " | ".join(padded).rstrip() + "\n"

    out.write(line(names))
    out.write("-+-".join("-" * width for width in widths) + "\n")
    for row in cells:
        out.write(line(row))
    more = f"; there are more: --limit shows them, it is {most} now" if len(rows) > most else ""
    out.write(f"({len(cells)} {'row' if len(cells) == 1 else 'rows'}{more})\n")


def _rows(frame: DataFrame, limit: int | None) -> Iterator[Row]:
    wanted = frame if limit is None else frame.limit(limit)
    return iter(wanted.toLocalIterator())


def _cell(value: Any) -> str:
    text = _text(value, "NULL").translate(CONTROL)
    return text if len(text) <= CELL_CHARACTERS_MAX else text[: CELL_CHARACTERS_MAX - 1] + "…"


def _text(value: Any, null: str) -> str:
    plain = _plain(value)
    match plain:
        case None:
            return null
        case str():
            return plain
        case bool():
            return str(plain).lower()
        case int() | float():
            return str(plain)
        case _:
            return json.dumps(plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """As JSON can have it; bytes that are text as text, others in base64."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
        case bytes() | bytearray():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(value).decode()}
        case datetime.datetime():
            return _moment(value)
        case datetime.date() | datetime.timedelta():
            return str(value)
        case decimal.Decimal():
            return str(value)
        case dict():
            return {str(_plain(key)): _plain(item) for key, item in value.items()}
        case _ if hasattr(value, "asDict"):
            return {key: _plain(item) for key, item in value.asDict().items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return str(value)


def _moment(value: datetime.datetime) -> str:
    """Spark gives times in the zone of this machine, and does not say so."""
    return value.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
