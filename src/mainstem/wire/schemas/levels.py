"""Levels of compatibility: which older schemas a new one is compared with, and in which direction."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from mainstem.wire.schemas.schema import Difference, Parsed


class Level(enum.Enum):
    """As Confluent's registry names them, and one of Pulsar's."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    """No second schema is taken."""

    @property
    def is_transitive(self) -> bool:
        """Whether all older schemas count, and not the newest alone."""
        return self.value.endswith("_TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        """Whether the new schema has to read what older ones wrote."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        """Whether older schemas have to read what the new one writes."""
        return self.value.startswith(("FORWARD", "FULL"))


PULSAR_LEVELS = {"ALWAYS_COMPATIBLE": Level.NONE} | {level.value: level for level in Level if level is not Level.NONE}
"""Pulsar's eight strategies."""


class Older(NamedTuple):
    """A schema that the subject has."""

    version: int
    format: str
    parsed: Parsed


class Incompatibility(NamedTuple):
    """With one version of the subject."""

    version: int
    is_forward: bool
    """Whether the older schema is the one that cannot read."""
    difference: Difference


def check_level(format: str, new: Parsed, older: Sequence[Older], level: Level) -> list[Incompatibility]:
    """What stands against registering a schema beside older ones, given by rising version; nothing: it may come."""
    if level is Level.NONE or not older:
        return []
    found: list[Incompatibility] = []
    for one in older if level.is_transitive else older[-1:]:
        if level is Level.ALWAYS_INCOMPATIBLE:
            found.append(_refused(one, "NOT_ALLOWED", "the subject takes no other schema"))
        elif one.format != format:
            sentence = f"the format changed from {one.format} to {format}"
            found.append(_refused(one, "FORMAT_CHANGED", sentence))
        else:
            if level.is_backward:
                found += [Incompatibility(one.version, False, each) for each in new.differences(one.parsed)]
            if level.is_forward:
                found += [Incompatibility(one.version, True, each) for each in one.parsed.differences(new)]
    return found


def _refused(older: Older, kind: str, sentence: str) -> Incompatibility:
    return Incompatibility(older.version, False, Difference(kind, "/", sentence))
