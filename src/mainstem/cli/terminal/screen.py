"""A screen that is drawn again and again: the whole terminal, given back as it was."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys
from collections.abc import Iterator, Sequence

ENTER = "\x1b[?1049h\x1b[?25l"
LEAVE = "\x1b[?25h\x1b[?1049l"
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
BARS = " ▁▂▃▄▅▆▇█"


class Screen:
    """Draws lines, cut to what the terminal shows, and waits for a key."""

    def draw(self, lines: Sequence[str]) -> None:
        """In place of what is there."""
        columns, rows = shutil.get_terminal_size()
        shown = [line[:columns] + REST_OF_LINE for line in lines[: rows - 1]]
        sys.stdout.write(HOME + "\r\n".join(shown) + REST_OF_SCREEN)
        sys.stdout.flush()

    def key(self, timeout_s: float) -> str:
        """What was typed within this time; empty: nothing."""
        ready, _, _ = select.select([sys.stdin], [], [], timeout_s)
        return os.read(sys.stdin.fileno(), 1).decode("latin-1") if ready else ""


@contextlib.contextmanager
def full_screen() -> Iterator[Screen]:
    """Take the terminal; it is given back whatever happens."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin.fileno())
    sys.stdout.write(ENTER)
    try:
        tty.setcbreak(sys.stdin.fileno(), termios.TCSADRAIN)  # What was typed before is not lost.
        yield Screen()
    finally:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)
        sys.stdout.write(LEAVE)
        sys.stdout.flush()


def bars(values: Sequence[float | None], width: int) -> str:
    """The last values as a row of bars, the largest of them full."""
    shown = [value or 0.0 for value in values[-width:]]
    top = max(shown, default=0.0)
    if top <= 0:
        return BARS[0] * len(shown)
    return "".join(BARS[min(len(BARS) - 1, round(value / top * (len(BARS) - 1)))] for value in shown)


def amount(value: float | None) -> str:
    """A number in few characters: 12.3 k."""
    number = value or 0.0
    for unit in ("", " k", " M", " G"):
        if abs(number) < 1000 or unit == " G":
            return f"{number:.0f}{unit}" if not unit or number >= 100 else f"{number:.1f}{unit}"
        number /= 1000
    return ""
