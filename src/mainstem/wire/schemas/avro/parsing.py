"""The text of an Avro schema as a tree, and the tree as its canonical text.

A reference between named types is an edge of the tree, so that a record may contain itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from mainstem.wire.schemas.schema import InvalidSchema, Texts

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})
DEPTH_MAX = 100
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN = {
    "record": {"type", "name", "namespace", "doc", "aliases", "fields"},
    "enum": {"type", "name", "namespace", "doc", "aliases", "symbols", "default"},
    "fixed": {"type", "name", "namespace", "doc", "aliases", "size"},
    "array": {"type", "items"},
    "map": {"type", "values"},
}
_FIELD_OWN = {"name", "type", "doc", "default", "order", "aliases"}
MISSING = object()
"""In place of a default that a field has not."""


class Field:
    """Of a record."""

    def __init__(self, name: str, node: Node, source: dict[str, Any]) -> None:
        self.name = name
        self.node = node
        self.aliases: list[str] = source.get("aliases", [])
        self.default = source.get("default", MISSING)
        self.source = source


class Node:
    """One type. Which attributes count depends on `kind`."""

    def __init__(self, kind: str, name: str = "", source: dict[str, Any] | None = None) -> None:
        self.kind = kind
        self.name = name
        """The full name of a named type."""
        self.source = source or {}
        self.aliases: list[str] = []
        """Full names."""
        self.fields: list[Field] = []
        self.symbols: list[str] = []
        self.size = 0
        self.inner: list[Node] = []
        """Branches of a union; the items of an array, the values of a map."""

    @property
    def short_name(self) -> str:
        """Without the namespace."""
        return self.name.rpartition(".")[2]

    @property
    def namespace(self) -> str:
        """Of a named type."""
        return self.name.rpartition(".")[0]


def parse_avro(text: str, texts: Texts) -> tuple[Node, frozenset[str]]:
    """The tree of a schema, and the names of types that other schemas define. Raises InvalidSchema."""
    names: dict[str, Node] = {}
    for name, used in texts.items():
        try:
            _Reader(names).read(_decode(used), "", 0)
        except InvalidSchema as error:
            raise InvalidSchema(f"in the reference {name!r}: {error}") from None
    outside = frozenset(names)
    return _Reader(names).read(_decode(text), "", 0), outside


def _decode(text: str) -> Any:
    if NAME.fullmatch(text.strip()) and text.strip() not in ("true", "false", "null"):
        return text.strip()  # a bare name, as Java's parser takes it
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidSchema(f"not JSON: {error}") from None


class _Reader:
    def __init__(self, names: dict[str, Node]) -> None:
        self._names = names

    def read(self, value: Any, namespace: str, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise InvalidSchema(f"types are nested more than {DEPTH_MAX} deep")
        if isinstance(value, str):
            return self._named(value, namespace)
        if isinstance(value, list):
            return self._union(value, namespace, depth)
        if not isinstance(value, dict):
            raise InvalidSchema(f"{value!r} is not a type")
        kind = value.get("type")
        if isinstance(kind, dict | list):
            return self.read(kind, namespace, depth + 1)
        if kind in PRIMITIVES:
            return Node(str(kind), source=value)
        if kind in NAMED:
            return self._define(str(kind), value, namespace, depth)
        if kind in ("array", "map"):
            node = Node(str(kind), source=value)
            place = "items" if kind == "array" else "values"
            if place not in value:
                raise InvalidSchema(f"a type {kind} has no {place!r}")
            node.inner = [self.read(value[place], namespace, depth + 1)]
            return node
        if isinstance(kind, str):
            return self._named(kind, namespace)
        raise InvalidSchema("a type has no 'type'" if kind is None else f"{kind!r} is not a type")

    def _named(self, name: str, namespace: str) -> Node:
        if name in PRIMITIVES:
            return Node(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._names.get(full) or self._names.get(name)
        if found is None:
            raise InvalidSchema(f"the type {name!r} is not defined")
        return found

    def _union(self, value: list[Any], namespace: str, depth: int) -> Node:
        node = Node("union")
        seen: set[str] = set()
        for branch in value:
            inner = self.read(branch, namespace, depth + 1)
            if inner.kind == "union":
                raise InvalidSchema("a union stands in a union")
            identity = inner.name or inner.kind
            if identity in seen:
                raise InvalidSchema(f"a union has {identity!r} twice")
            seen.add(identity)
            node.inner.append(inner)
        return node

    def _define(self, kind: str, value: dict[str, Any], namespace: str, depth: int) -> Node:
        name = _full_name(value, namespace)
        node = Node("record" if kind == "error" else kind, name, value)
        if name in self._names:
            raise InvalidSchema(f"the type {name!r} is defined twice")
        for alias in _texts(value, "aliases"):
            node.aliases.append(alias if "." in alias or not node.namespace else f"{node.namespace}.{alias}")
        self._names[name] = node
        if kind == "enum":
            node.symbols = _texts(value, "symbols")
            if "symbols" not in value:
                raise InvalidSchema(f"the enum {name!r} has no 'symbols'")
            _check_symbols(node)
        elif kind == "fixed":
            size = value.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise InvalidSchema(f"the fixed {name!r} has no 'size' that is a number")
            node.size = size
        else:
            self._fields(node, value, depth)
        return node

    def _fields(self, node: Node, value: dict[str, Any], depth: int) -> None:
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f"the record {node.name!r} has no 'fields'")
        seen: set[str] = set()
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
                raise InvalidSchema(f"a field of {node.name!r} has no 'name' or no 'type'")
            name = field["name"]
            if not NAME.fullmatch(name):
                raise InvalidSchema(f"the field name {name!r} of {node.name!r} is not a name")
            if name in seen:
                raise InvalidSchema(f"the record {node.name!r} has the field {name!r} twice")
            if field.get("order", "ascending") not in ("ascending", "descending", "ignore"):
                raise InvalidSchema(f"the field {name!r} of {node.name!r} has an unknown 'order'")
            seen.add(name)
            _texts(field, "aliases")
            node.fields.append(Field(name, self.read(field["type"], node.namespace, depth + 1), field))


def _full_name(value: dict[str, Any], namespace: str) -> str:
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidSchema(f"a type {value['type']} has no 'name'")
    if "." not in name:
        given = value.get("namespace", namespace)
        if not isinstance(given, str):
            raise InvalidSchema(f"the namespace of {name!r} is not text")
        name = f"{given}.{name}" if given else name
    name = name.removeprefix(".")
    if not all(NAME.fullmatch(part) for part in name.split(".")):
        raise InvalidSchema(f"{name!r} is not a name")
    if name in PRIMITIVES:
        raise InvalidSchema(f"the name {name!r} is that of a primitive type")
    return name


def _texts(value: dict[str, Any], key: str) -> list[str]:
    found = value.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InvalidSchema(f"{key!r} is not a list of texts")
    return found


def _check_symbols(node: Node) -> None:
    if len(set(node.symbols)) < len(node.symbols):
        raise InvalidSchema(f"the enum {node.name!r} has a symbol twice")
    for symbol in node.symbols:
        if not NAME.fullmatch(symbol):
            raise InvalidSchema(f"the symbol {symbol!r} of {node.name!r} is not a name")
    default = node.source.get("default", MISSING)
    if default is not MISSING and default not in node.symbols:
        raise InvalidSchema(f"the default {default!r} of the enum {node.name!r} is none of its symbols")


# ---------------------------------------------------------------------------------------------------------------------


def write_avro(node: Node, outside: Iterable[str] = (), *, is_normal: bool = False) -> str:
    """Its canonical text: each named type is defined where it comes first, but for those that are defined outside."""
    return msgspec.json.encode(_write(node, "", set(outside), is_normal)).decode()


def _write(node: Node, namespace: str, seen: set[str], is_normal: bool) -> Any:
    if node.kind == "union":
        return [_write(branch, namespace, seen, is_normal) for branch in node.inner]
    if node.name:
        if node.name in seen:
            return node.short_name if node.namespace == namespace else node.name
        seen.add(node.name)
    return _write_type(node, namespace, seen, is_normal)


def _write_type(node: Node, namespace: str, seen: set[str], is_normal: bool) -> Any:
    others = _others(node.source, _OWN.get(node.kind, {"type"}), is_normal)
    if node.kind in PRIMITIVES:
        return {"type": node.kind, **others} if others else node.kind
    written: dict[str, Any] = {"type": node.kind}
    if node.name:
        written["name"] = node.short_name
        if node.namespace and node.namespace != namespace:
            written["namespace"] = node.namespace
        if "doc" in node.source:
            written["doc"] = node.source["doc"]
    if node.kind == "record":
        written["fields"] = [_write_field(field, node.namespace, seen, is_normal) for field in node.fields]
    elif node.kind == "enum":
        written["symbols"] = node.symbols
        if "default" in node.source:
            written["default"] = node.source["default"]
    elif node.kind == "fixed":
        written["size"] = node.size
    else:
        written["items" if node.kind == "array" else "values"] = _write(node.inner[0], namespace, seen, is_normal)
    if node.aliases:
        written["aliases"] = sorted(node.aliases) if is_normal else node.aliases
    return written | others


def _write_field(field: Field, namespace: str, seen: set[str], is_normal: bool) -> dict[str, Any]:
    written = {"name": field.name, "type": _write(field.node, namespace, seen, is_normal)}
    for key in ("doc", "default"):
        if key in field.source:
            written[key] = field.source[key]
    if field.source.get("order", "ascending") != "ascending":
        written["order"] = field.source["order"]
    if field.aliases:
        written["aliases"] = sorted(field.aliases) if is_normal else field.aliases
    return written | _others(field.source, _FIELD_OWN, is_normal)


def _others(source: dict[str, Any], own: set[str], is_normal: bool) -> dict[str, Any]:
    """Properties that Avro does not know, and logical types."""
    found = {key: value for key, value in source.items() if key not in own}
    return dict(sorted(found.items())) if is_normal else found
