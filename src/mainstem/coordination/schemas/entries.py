"""What is stored of schemas, and the names it is stored by.

n | context                      -> the last id given in the context; none comes twice
s | context | 0 | id             -> SchemaEntry
v | context | 0 | subject | 0 | version  -> VersionEntry
c | context | 0 | subject        -> SubjectSettings; the subject is empty for the whole context
"""

from __future__ import annotations

import re
import struct
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from mainstem.coordination.schemas.errors import InvalidSubject
from mainstem.wire.schemas.schema import Reference, Schema

SCOPE = "schemas"
DEFAULT_CONTEXT = "."
NAME_BYTES_MAX = 1_000
CONTEXT_NAME = re.compile(r"\.[^:/\x00-\x1f]{0,254}")
NUMBER, SCHEMA, VERSION, SETTINGS = b"n", b"s", b"v", b"c"

Mode: TypeAlias = Literal["READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"]


class Subject(NamedTuple):
    """A subject, or with an empty name the whole context."""

    context: str
    name: str

    def __str__(self) -> str:
        return self.name if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.name}"


def parse_subject(text: str, context: str = DEFAULT_CONTEXT) -> Subject:
    """From `name` or `:.context:name`. Raises InvalidSubject."""
    name = text
    if text.startswith(":."):
        context, separator, name = text[1:].partition(":")
        if not separator:
            raise InvalidSubject(f"the subject {text!r} names a context without its end")
    if context == ".:" or not CONTEXT_NAME.fullmatch(context):
        raise InvalidSubject(f"the context {context!r} is not a name")
    if len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX or any(char < " " for char in name):
        raise InvalidSubject(f"a subject has at most {NAME_BYTES_MAX} bytes and no control characters")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidSubject("the subject is not UTF-8") from None
    return Subject(context, name)


class SchemaEntry(msgspec.Struct, frozen=True, array_like=True):
    """A schema under its id."""

    format: str
    text: str
    references: tuple[Reference, ...]
    metadata: dict[str, Any] | None
    rules: dict[str, Any] | None
    identity: bytes
    """A digest of all of it: the same schema, the same id."""

    @property
    def schema(self) -> Schema:
        """As it is given out."""
        return Schema(self.format, self.text, self.references, self.metadata, self.rules)


class VersionEntry(msgspec.Struct, frozen=True, array_like=True):
    """One version of a subject."""

    id: int
    is_deleted: bool = False
    registered_ms: int = 0
    note: bytes = b""
    """What its protocol keeps beside it: Pulsar's properties, who registered it."""


class SubjectSettings(msgspec.Struct, frozen=True, array_like=True):
    """What is set for a subject or a context; None: what holds above it."""

    level: str | None = None
    mode: Mode | None = None
    normalize: bool | None = None
    group: str | None = None
    """The property of metadata in which schemas must agree to be compared."""
    alias: str | None = None


NO_SETTINGS = SubjectSettings()

encode = msgspec.msgpack.Encoder().encode
decode_number = msgspec.msgpack.Decoder(int).decode
decode_schema = msgspec.msgpack.Decoder(SchemaEntry).decode
decode_version = msgspec.msgpack.Decoder(VersionEntry).decode
decode_settings = msgspec.msgpack.Decoder(SubjectSettings).decode

_ID, _VERSION_NUMBER = struct.Struct(">Q"), struct.Struct(">I")


def schema_key(context: str, number: int) -> bytes:
    """Of a schema."""
    return SCHEMA + context.encode() + b"\0" + _ID.pack(number)


def version_key(subject: Subject, version: int) -> bytes:
    """Of a version."""
    return VERSION + subject.context.encode() + b"\0" + subject.name.encode() + b"\0" + _VERSION_NUMBER.pack(version)


def settings_key(subject: Subject) -> bytes:
    """Of what is set."""
    return SETTINGS + subject.context.encode() + b"\0" + subject.name.encode()


def read_schema_key(key: bytes) -> tuple[str, int]:
    """Its context and id."""
    context, rest = key[1:].split(b"\0", 1)
    return context.decode(), _ID.unpack(rest)[0]


def read_version_key(key: bytes) -> tuple[Subject, int]:
    """Its subject and number."""
    context, name = key[1:-5].split(b"\0", 1)
    return Subject(context.decode(), name.decode()), _VERSION_NUMBER.unpack(key[-4:])[0]


def read_settings_key(key: bytes) -> Subject:
    """Its subject."""
    context, name = key[1:].split(b"\0", 1)
    return Subject(context.decode(), name.decode())
