"""Regular expressions over names, as clients send them.

RE2 and not Python's own engine: it takes time in proportion to the name whatever the pattern says, so that no client can
stop the broker with one. Kafka takes the same dialect, for the same reason.
"""

from __future__ import annotations

import re2

from mainstem.coordination.errors import InvalidNamePattern

COMPILED_BYTES_MAX = 1 << 20
"""What a pattern may come to; larger ones are refused."""


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = COMPILED_BYTES_MAX
    return options


_OPTIONS = _options()


class NamePattern:
    """One pattern, which a name matches as a whole."""

    __slots__ = ("_fullmatch", "text")

    def __init__(self, text: str, fullmatch: object) -> None:
        self.text = text
        self._fullmatch = fullmatch

    @classmethod
    def compile(cls, text: str) -> NamePattern:
        """Raises InvalidNamePattern."""
        try:
            return cls(text, re2.compile(text, _OPTIONS).fullmatch)
        except (re2.error, UnicodeEncodeError) as error:
            reason = error.args[0] if error.args else error
            told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(error)
            raise InvalidNamePattern(f"The regular expression is not one of RE2: {told[:200]}") from None

    def matches(self, name: str) -> bool:
        """Whether the whole name is meant."""
        return self._fullmatch(name) is not None  # type: ignore[operator]
