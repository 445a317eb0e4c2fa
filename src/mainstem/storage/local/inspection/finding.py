"""What a look at the disk brings up."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from mainstem.model.errors import CorruptData, UnsupportedFormat

Severity: TypeAlias = Literal["damage", "unsupported", "note"]
"""damage: stored bytes are not what they must be. unsupported: of a newer version. note: worth knowing, nothing is wrong."""


class Finding(msgspec.Struct, frozen=True):
    """One fact about one place."""

    severity: Severity
    file: str
    position: int
    what: str
    logs: tuple[int, ...] = ()
    """Logs that are hit, as far as that can be read."""

    @property
    def is_trouble(self) -> bool:
        """Whether the data cannot be relied on."""
        return self.severity != "note"


def damage(file: str, position: int, what: str, logs: tuple[int, ...] = ()) -> Finding:
    """Stored bytes are not what they must be."""
    return Finding("damage", file, position, what, logs)


def note(file: str, position: int, what: str) -> Finding:
    """Worth knowing."""
    return Finding("note", file, position, what)


def finding_of(error: CorruptData | UnsupportedFormat | OSError, file: str) -> Finding:
    """What an error of the storage code, or of the operating system, says about a file."""
    if isinstance(error, CorruptData):
        return Finding("damage", error.file, error.position, error.what, error.logs)
    if isinstance(error, UnsupportedFormat):
        return Finding("unsupported", file, 0, str(error))
    return Finding("damage", file, 0, f"cannot be read: {error.strerror or error}")
