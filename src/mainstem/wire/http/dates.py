"""The Date header (RFC 9110, 6.6.1)."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate


class HttpDate:
    """Made anew once a second. `now` gives seconds since 1970."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._second = -1
        self._text = ""

    def __call__(self) -> str:
        """Now, as HTTP writes it."""
        second = int(self._now())
        if second != self._second:
            self._second = second
            self._text = formatdate(second, usegmt=True)
        return self._text
