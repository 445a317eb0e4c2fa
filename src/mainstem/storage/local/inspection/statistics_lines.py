"""Statistics as tables of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from mainstem.storage.local.inspection.dump.printable import write_time
from mainstem.storage.local.inspection.statistics import LogStatistics, Statistics


def statistics_lines(statistics: Statistics, logs: Sequence[LogStatistics]) -> Iterator[str]:
    """Files, scopes and these logs."""
    rows = [
        [files.type, str(files.count), str(files.bytes), "" if files.groups is None else str(files.groups)]
        for files in statistics.files
    ]
    total = [sum(column) for column in zip(*((f.count, f.bytes) for f in statistics.files), strict=True)] or [0, 0]
    rows.append(["total", *map(str, total), ""])
    yield from _table(["files", "count", "bytes", "live groups"], rows)
    yield ""
    scopes = [[scope, str(size.keys), str(size.bytes)] for scope, size in statistics.scopes.items()]
    yield from _table(["scope", "keys", "bytes"], scopes)
    yield ""
    yield from _table(
        ["log", "start", "end", "bytes", "batches", "runs", "oldest", "newest", "retention"],
        [_log_row(log) for log in logs],
    )
    if len(logs) < len(statistics.logs):
        yield f"and {len(statistics.logs) - len(logs)} smaller logs"
    for trouble in statistics.troubles:
        yield f"! {trouble.file} at {trouble.position}: {trouble.what}"


def _log_row(log: LogStatistics) -> list[str]:
    times = ["-" if time is None else write_time(time) for time in (log.oldest_ms, log.newest_ms)]
    numbers = [str(number) for number in (log.log, log.start, log.end, log.bytes, log.batches, log.runs)]
    retention = " ".join(f"{name}={_write(value)}" for name, value in log.retention.items())
    return [*numbers, *times, retention or "-"]


def _write(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """Columns as wide as they must be; numbers to the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if rows and all(r[column].isdigit() or not r[column] for r in rows) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
