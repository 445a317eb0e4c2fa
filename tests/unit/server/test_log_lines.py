"""The log stays one line per event."""

import logging
import sys

from mainstem.server.log_lines import LineFormatter, quote


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
