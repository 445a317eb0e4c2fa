"""Whether one Avro schema reads what another wrote: the rules of schema resolution.

Logical types do not count, as in Avro's own check: what is written is their underlying type.
"""

from __future__ import annotations

from mainstem.wire.schemas.avro.parsing import MISSING, Field, Node
from mainstem.wire.schemas.schema import Difference, InvalidSchema

STEPS_MAX = 200_000
"""Pairs of types that one comparison looks at."""

PROMOTED: dict[str, frozenset[str]] = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
"""What a reader's primitive type takes beside itself."""


def compare_avro(reader: Node, writer: Node) -> list[Difference]:
    """Why `reader` cannot read what `writer` wrote."""
    return _Comparison().compare(reader, writer, "/")


class _Comparison:
    def __init__(self) -> None:
        self._steps = 0
        self._known: dict[tuple[int, int], list[Difference]] = {}
        """By what was compared; a pair that is being compared is taken to agree, so that recursion ends."""

    def compare(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        if not reader.name or not writer.name:
            return self._compare(reader, writer, path)
        pair = id(reader), id(writer)
        if pair not in self._known:
            self._known[pair] = []
            self._known[pair] = self._compare(reader, writer, path)
        return self._known[pair]

    def _compare(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise InvalidSchema("the schemas are too large to compare")
        if writer.kind == "union":
            found = []
            for number, branch in enumerate(writer.inner):
                if reader.kind == "union":
                    found += self._branch(reader, branch, f"{path}{number}")
                else:
                    found += self.compare(reader, branch, path)
            return found
        if reader.kind == "union":
            return self._branch(reader, writer, path)
        if reader.kind != writer.kind:
            if writer.kind in PROMOTED.get(reader.kind, ()):
                return []
            sentence = f"the type {_word(writer)} was written, the type {_word(reader)} is read"
            return [Difference("TYPE_MISMATCH", path, sentence)]
        if reader.kind in ("array", "map"):
            step = "items" if reader.kind == "array" else "values"
            return self.compare(reader.inner[0], writer.inner[0], f"{path.rstrip('/')}/{step}")
        if reader.kind == "record":
            return self._names(reader, writer, path) + self._records(reader, writer, path)
        if reader.kind == "enum":
            return self._names(reader, writer, path) + _symbols(reader, writer, path)
        if reader.kind == "fixed":
            return self._names(reader, writer, path) + _sizes(reader, writer, path)
        return []

    def _branch(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        """Whether any branch of the reader's union takes it."""
        if any(not self.compare(branch, writer, path) for branch in reader.inner):
            return []
        sentence = f"the union that is read has no branch for the type {_word(writer)}"
        return [Difference("MISSING_UNION_BRANCH", path, sentence)]

    def _names(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        if reader.short_name == writer.short_name or writer.name in reader.aliases:
            return []
        sentence = f"the name {writer.name} was written, the name {reader.name} is read"
        return [Difference("NAME_MISMATCH", f"{path.rstrip('/')}/name", sentence)]

    def _records(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        found: list[Difference] = []
        written = {field.name: field for field in writer.fields}
        for number, field in enumerate(reader.fields):
            place = f"{path.rstrip('/')}/fields/{number}"
            source = _written_field(field, written)
            if source is not None:
                found += self.compare(field.node, source.node, f"{place}/type")
            elif field.default is MISSING:
                sentence = f"the field {field.name!r} is not written and has no default"
                found.append(Difference("READER_FIELD_MISSING_DEFAULT_VALUE", place, sentence))
        return found


def _written_field(field: Field, written: dict[str, Field]) -> Field | None:
    found = written.get(field.name)
    for alias in field.aliases if found is None else ():
        if alias in written:
            return written[alias]
    return found


def _symbols(reader: Node, writer: Node, path: str) -> list[Difference]:
    missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
    if not missing or "default" in reader.source:
        return []
    sentence = f"the enum {reader.name} has no symbol {', '.join(missing)} and no default"
    return [Difference("MISSING_ENUM_SYMBOLS", f"{path.rstrip('/')}/symbols", sentence)]


def _sizes(reader: Node, writer: Node, path: str) -> list[Difference]:
    if reader.size == writer.size:
        return []
    sentence = f"the fixed {reader.name} has {reader.size} bytes where {writer.size} were written"
    return [Difference("FIXED_SIZE_MISMATCH", f"{path.rstrip('/')}/size", sentence)]


def _word(node: Node) -> str:
    return f"{node.kind} {node.name}" if node.name else node.kind
