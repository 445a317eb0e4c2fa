"""Headers of each version: what is escaped, and what cannot be said.

    version   escapes in names and values
    1.0       none: a line end cannot be said
    1.1       \\n \\c \\\\
    1.2       \\r too

CONNECT and CONNECTED are never escaped, so that a client of 1.0 can read them.
"""

from __future__ import annotations

import re

from mainstem.protocols.stomp.errors import MalformedFrame

V1_0, V1_1, V1_2 = "1.0", "1.1", "1.2"
VERSIONS = (V1_0, V1_1, V1_2)

_MEANINGS = {
    V1_1: {"\\n": "\n", "\\c": ":", "\\\\": "\\"},
    V1_2: {"\\n": "\n", "\\c": ":", "\\\\": "\\", "\\r": "\r"},
}
_ESCAPE = re.compile(r"\\.?", re.DOTALL)
_TABLES = {
    version: str.maketrans({meaning: escape for escape, meaning in meanings.items()})
    for version, meanings in _MEANINGS.items()
}
_UNSAYABLE = {
    V1_0: re.compile(r"[\n\r\0]"),
    V1_1: re.compile(r"[\r\0]"),
    V1_2: re.compile(r"\0"),
}


def unescape(text: str, version: str) -> str:
    """A name or value as it is meant. Raises MalformedFrame."""
    if "\\" not in text or version == V1_0:
        return text
    meanings = _MEANINGS[version]

    def meant(match: re.Match[str]) -> str:
        meaning = meanings.get(match[0])
        if meaning is None:
            raise MalformedFrame(f"undefined escape {match[0]!r}")
        return meaning

    return _ESCAPE.sub(meant, text)


def escape(text: str, version: str) -> str:
    """The inverse, of what `is_sayable`."""
    table = _TABLES.get(version)
    return text if table is None else text.translate(table)


def is_sayable(name: str, value: str, version: str) -> bool:
    """Whether this version has a way to write the header."""
    unsayable = _UNSAYABLE[version]
    if not name or unsayable.search(name) or unsayable.search(value):
        return False
    return version != V1_0 or ":" not in name
