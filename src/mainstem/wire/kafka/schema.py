"""The language of the field tables.

One line is one field, indented lines are the fields of a struct:

    name: type [versions] [tag=N] [default=VALUE]

*type* is a primitive, `[]` before it makes an array, `?` after it says that null is allowed, `?2+` from which version on.
A capitalised type is a struct: its fields follow, or did where the name first occurred in the same table. *versions* is
`3+`, `0-3` or `2`, and all versions of the message where it is left out. A tagged field stands in the tag section
of flexible versions. Without a default, a field is zero, empty or false, and a struct is one of defaults.

Values are light structs with a class per struct of the table (`StructSchema.type`), made when a table is first used. A
class has the fields of every version, with their defaults, so one value can be written in any version: what a version
does not have is not written, and reads as its default.
"""

import functools
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

PRIMITIVES = frozenset(
    {"bool", "int8", "int16", "uint16", "int32", "int64", "float64", "uuid", "string", "bytes", "records"}
)
ZERO_UUID = uuid.UUID(int=0)
INDENT = 4


class Versions(NamedTuple):
    """A closed range."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


class Field(msgspec.Struct, frozen=True):
    """One line of a table."""

    name: str
    kind: str
    """A primitive, or `struct`."""
    struct: "StructSchema | None"
    is_array: bool
    versions: Versions
    nullable: Versions | None
    tag: int | None
    default: Any
    """Of a scalar, or None for null; arrays and structs that are not null have an empty one made for each value."""


class StructSchema:
    """The fields of one struct, and the class of its values."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: list[Field] = []

    @functools.cached_property
    def type(self) -> type[Any]:
        """The class of the values: keyword arguments only, all of them optional."""
        return msgspec.defstruct(self.name, [_attribute(field) for field in self.fields], kw_only=True)


def _attribute(field: Field) -> tuple[str, Any, Any]:
    if field.default is None and field.nullable is not None:
        return field.name, Any, None
    if field.is_array:
        return field.name, Any, msgspec.field(default_factory=list)
    if field.struct is not None:
        struct = field.struct
        return field.name, Any, msgspec.field(default_factory=lambda: struct.type())
    return field.name, Any, field.default


class Message:
    """A table with its versions. The table is parsed when it is first needed."""

    def __init__(self, name: str, versions: tuple[int, int], flexible_from: int | None, table: str) -> None:
        self.name = name
        self.versions = Versions(*versions)
        self.flexible_from = flexible_from
        self._table = table

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tag sections."""
        return self.flexible_from is not None and version >= self.flexible_from

    @functools.cached_property
    def schema(self) -> StructSchema:
        """The parsed table."""
        return parse_table(self.name, self.versions, self._table)

    @property
    def type(self) -> type[Any]:
        """The class of the message's values."""
        return self.schema.type


class Api:
    """A request and its response."""

    def __init__(
        self,
        *,
        key: int,
        name: str,
        versions: tuple[int, int],
        flexible_from: int | None,
        request: str,
        response: str,
        unstable_from: int | None = None,
        announced_from: int | None = None,
    ) -> None:
        self.key = key
        self.name = name
        self.versions = Versions(*versions)
        self.flexible_from = flexible_from
        self.announced = Versions(
            versions[0] if announced_from is None else announced_from,
            versions[1] if unstable_from is None else unstable_from - 1,
        )
        """What Kafka says in ApiVersions: not the unfinished versions, and for Produce some that it then refuses."""
        self.request = Message(f"{name}Request", versions, flexible_from, request)
        self.response = Message(f"{name}Response", versions, flexible_from, response)


def parse_table(name: str, versions: Versions, table: str) -> StructSchema:
    """The schema of a message; a table that cannot be parsed is a bug of ours."""
    lines = [line for line in table.splitlines() if line.strip()]
    margin = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    parsed = [((len(line) - len(line.lstrip()) - margin) // INDENT, line.strip()) for line in lines]
    root = StructSchema(name)
    position = _parse_fields(root, parsed, 0, 0, versions, {})
    assert position == len(parsed), f"{name}: bad indentation at {parsed[position][1]!r}"
    return root


def _parse_fields(
    struct: StructSchema,
    lines: list[tuple[int, str]],
    position: int,
    depth: int,
    versions: Versions,
    known: dict[str, StructSchema],
) -> int:
    while position < len(lines) and lines[position][0] == depth:
        name, _, text = lines[position][1].partition(": ")
        type_text, *options = text.split()
        position += 1
        own, tag, default = _parse_options(options, versions)
        base, is_nullable, nullable_text = type_text.partition("?")
        is_array = base.startswith("[]")
        base = base.removeprefix("[]")
        inner: StructSchema | None = None
        if base not in PRIMITIVES:
            assert base[0].isupper(), f"{struct.name}.{name}: no such type as {base}"
            if position < len(lines) and lines[position][0] > depth:
                inner = known[base] = StructSchema(base)
                position = _parse_fields(inner, lines, position, depth + 1, versions, known)
            else:
                inner = known[base]
        nullable = _parse_versions(nullable_text, own) if is_nullable else None
        struct.fields.append(
            Field(
                name=name,
                kind=base if inner is None else "struct",
                struct=inner,
                is_array=is_array,
                versions=own,
                nullable=nullable,
                tag=tag,
                default=_parse_default(default, base, is_array),
            )
        )
    return position


def _parse_options(options: list[str], versions: Versions) -> tuple[Versions, int | None, str | None]:
    tag: int | None = None
    default: str | None = None
    own = versions
    for option in options:
        word, is_setting, value = option.partition("=")
        if not is_setting:
            own = _parse_versions(option, versions)
        elif word == "tag":
            tag = int(value)
        else:
            assert word == "default", f"no such option as {option}"
            default = value
    return own, tag, default


def _parse_versions(text: str, enclosing: Versions) -> Versions:
    if not text:
        return enclosing
    if text.endswith("+"):
        return Versions(int(text[:-1]), enclosing.last)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


def _parse_default(text: str | None, kind: str, is_array: bool) -> Any:
    if text == "null" or (kind not in PRIMITIVES and not is_array):
        return None
    match kind:
        case "bool":
            return text == "true"
        case "float64":
            return float(text or 0)
        case "string":
            return ""
        case "bytes" | "records":
            return b""
        case "uuid":
            return ZERO_UUID
        case _:
            return int(text or 0)


def walk_fields(struct: StructSchema) -> Iterator[Field]:
    """Every field of a struct and of the structs within it."""
    for field in struct.fields:
        yield field
        if field.struct is not None:
            yield from walk_fields(field.struct)
