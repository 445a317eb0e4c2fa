"""The log stays one line per event."""

import io
import logging
import sys

from mainstem.server.log_lines import KINDS_MAX, REPEATED_LINES_MAX, FoldingHandler, LineFormatter, quote


def line(message: str, *args: object, error: bool = False) -> str:
    info = None
    if error:
        try:
            raise ValueError("inner\nline")
        except ValueError:
            info = sys.exc_info()
    record = logging.LogRecord("mainstem.server", logging.INFO, __file__, 1, message, args, info)
    return LineFormatter().format(record)


def test_fields_are_named_and_quoted_where_needed() -> None:
    text = line("two words and a %r", "quote")
    assert text.startswith("time=")
    assert "level=info source=mainstem.server message=\"two words and a 'quote'\"" in text


def test_nothing_breaks_the_line() -> None:
    assert "\n" not in line("a\nb", error=True)
    assert "ValueError" in line("x", error=True)


def test_quoting() -> None:
    assert [quote("plain"), quote(""), quote("a=b"), quote('"')] == ["plain", '""', '"a=b"', '"\\""']


def record(message: str, *args: object, at: float = 0.0) -> logging.LogRecord:
    made = logging.LogRecord("mainstem.broker", logging.WARNING, __file__, 1, message, args, None)
    made.created = at
    return made


def folded() -> tuple[FoldingHandler, io.StringIO]:
    stream = io.StringIO()
    return FoldingHandler(stream), stream


def test_lines_that_repeat_are_counted() -> None:
    handler, stream = folded()
    for number in range(1_000):
        handler.emit(record("commit %d is refused", number, at=number / 1_000))
    assert stream.getvalue().splitlines() == [f"commit {number} is refused" for number in range(REPEATED_LINES_MAX)]
    handler.emit(record("something else", at=60.0))
    assert stream.getvalue().splitlines()[REPEATED_LINES_MAX:] == [
        f"{1_000 - REPEATED_LINES_MAX} more like this, the last one: commit 999 is refused",
        "something else",
    ]


def test_what_was_counted_is_said_at_the_end() -> None:
    handler, stream = folded()
    for _ in range(REPEATED_LINES_MAX + 3):
        handler.emit(record("again"))
    handler.close()
    assert stream.getvalue().splitlines()[-1] == "3 more like this, the last one: again"


def test_after_an_interval_lines_are_written_again() -> None:
    handler, stream = folded()
    for at in (0.0, 11.0, 22.0, 33.0, 44.0, 55.0, 66.0):
        handler.emit(record("now and then", at=at))
    assert stream.getvalue().splitlines() == ["now and then"] * 7


def test_no_more_kinds_are_remembered_than_allowed() -> None:
    handler, _ = folded()
    for number in range(10 * KINDS_MAX):
        handler.emit(record(f"kind {number}"))
    assert len(handler._kinds) <= KINDS_MAX + 1
