"""A schema as it is registered, and what its formats have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from mainstem.model.errors import PeerError

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
SCHEMA_BYTES_MAX = 768 << 10
"""Of a schema's text."""
REFERENCES_MAX = 1_000


class InvalidSchema(PeerError):
    """The text is not a schema of its format, or refers to what is not there."""


class Reference(msgspec.Struct, frozen=True, array_like=True):
    """Another schema that a schema uses, under a name of its own: an Avro name, a URI, the path of an import."""

    name: str
    subject: str
    version: int


class Schema(msgspec.Struct, frozen=True, array_like=True):
    """What is registered."""

    format: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: dict[str, Any] | None = None
    rules: dict[str, Any] | None = None


class Difference(msgspec.Struct, frozen=True):
    """One reason why data of an older schema cannot be read by a newer one."""

    kind: str
    """As Confluent's registry names it: `READER_FIELD_MISSING_DEFAULT_VALUE`."""
    path: str
    sentence: str


Texts: TypeAlias = Mapping[str, str]
"""Texts of the schemas that a schema uses, by the names it has for them; those that use none come first."""


def unknown_form(form: str) -> InvalidSchema:
    """That a format has no such form."""
    return InvalidSchema(f"the schema cannot be given as {form!r}")


class Parsed(Protocol):
    """A schema that was read."""

    @property
    def canonical(self) -> str:
        """The same for all texts that say the same; shown to clients."""

    @property
    def normal(self) -> str:
        """As `canonical`, and without differences of order that mean nothing."""

    def text_in(self, form: str) -> str:
        """In a form of its own that the format has. Raises InvalidSchema."""

    def differences(self, written: Any) -> list[Difference]:
        """Why this schema cannot read what that one, of the same format, wrote."""
