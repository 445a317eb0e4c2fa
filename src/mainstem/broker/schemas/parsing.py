"""Schemas that were read, kept for the next comparison.

Used by one thread at a time: that of heavy work.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from mainstem.wire.schemas.formats import parse_schema
from mainstem.wire.schemas.schema import Parsed

KEPT_BYTES_MAX = 16 << 20
"""Of the texts of what is kept."""


class Source(NamedTuple):
    """A text, and those of its references by name."""

    format: str
    text: str
    references: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """Of all texts."""
        return len(self.text) + sum(len(text) for _, text in self.references)


class ParsedSchemas:
    """The last ones used."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Source, Parsed] = OrderedDict()
        self._bytes = 0

    def get(self, source: Source) -> Parsed:
        """Raises InvalidSchema."""
        found = self._kept.get(source)
        if found is not None:
            self._kept.move_to_end(source)
            return found
        parsed = self._kept[source] = parse_schema(source.format, source.text, dict(source.references))
        self._bytes += source.size
        while self._bytes > KEPT_BYTES_MAX:
            oldest, _ = self._kept.popitem(last=False)
            self._bytes -= oldest.size
        return parsed
