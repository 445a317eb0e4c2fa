"""A JSON Schema as what it asks for: one kind of value each, or a combination of such.

A schema may ask for several things at once (`type` beside `enum`, `properties` beside `oneOf`): they become one combination.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from referencing.jsonschema import DRAFT7

from mainstem.wire.schemas.schema import InvalidSchema

OBJECT_WORDS = (
    "properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties",
    "dependencies", "dependentRequired", "dependentSchemas", "propertyNames",
)  # fmt: skip
ARRAY_WORDS = ("items", "additionalItems", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains")
STRING_WORDS = ("minLength", "maxLength", "pattern")
NUMBER_WORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_SNIFFED = (("object", OBJECT_WORDS), ("array", ARRAY_WORDS), ("string", STRING_WORDS), ("number", NUMBER_WORDS))
CRITERIA = ("allOf", "anyOf", "oneOf")
_PLACES_OF_ONE = ("not", "if", "then", "else", "items", "additionalItems", "additionalProperties", "contains",
                  "propertyNames", "unevaluatedItems", "unevaluatedProperties")  # fmt: skip
_PLACES_OF_MANY = ("allOf", "anyOf", "oneOf", "items", "prefixItems")
_PLACES_BY_NAME = ("properties", "patternProperties", "definitions", "$defs", "dependencies", "dependentSchemas")
REFERENCES_MAX = 100
"""From one to the next."""


class Node:
    """What one schema asks for."""

    def __init__(
        self, kind: str, place: Place, parts: Callable[[], Sequence[Node]] = tuple, criterion: str = ""
    ) -> None:
        self.kind = kind
        """empty, false, string, number, boolean, null, object, array, enum, not, condition, or combined"""
        self.place = place
        self._parts = parts
        self.criterion = criterion

    @functools.cached_property
    def parts(self) -> Sequence[Node]:
        """Of a combination; looked for when they are asked for, because one may be the combination itself."""
        return self._parts()

    def word(self, name: str) -> Any:
        """What the schema says under a keyword; None: nothing."""
        return self.place.content.get(name) if isinstance(self.place.content, dict) else None

    def inner(self, name: str) -> Node | None:
        """The schema under a keyword."""
        content = self.word(name)
        return self.place.at(content).node() if isinstance(content, dict | bool) else None

    def inner_by_name(self, *names: str) -> dict[str, Node]:
        """The schemas under a keyword, by their names."""
        found: dict[str, Node] = {}
        for name in names:
            for key, content in (self.word(name) or {}).items():
                if isinstance(content, dict | bool):
                    found[key] = self.place.at(content).node()
        return found


class Document:
    """Keeps the nodes of one schema: the same place is the same node."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}


class Place:
    """A schema within a document, with what its references are relative to."""

    def __init__(self, content: Any, resolver: Any, document: Document) -> None:
        self.content = content
        self._resolver = resolver
        self._document = document

    def at(self, content: Any) -> Place:
        """A schema within this one."""
        resolver = self._resolver
        if isinstance(content, dict) and isinstance(content.get("$id"), str):
            resolver = resolver.in_subresource(DRAFT7.create_resource(content))
        return Place(content, resolver, self._document)

    def node(self) -> Node:
        """What it asks for; a reference asks for what it leads to."""
        place = self
        for _ in range(REFERENCES_MAX):
            if not isinstance(place.content, dict) or not isinstance(place.content.get("$ref"), str):
                return place.own_node()
            place = place.referred()
        raise InvalidSchema("references lead in a circle")

    def referred(self) -> Place:
        """What `$ref` leads to. Raises Unresolvable."""
        found = self._resolver.lookup(self.content["$ref"])
        return Place(found.contents, found.resolver, self._document)

    def own_node(self) -> Node:
        """Of a schema that is no reference."""
        found = self._document.nodes.get(id(self.content)) if isinstance(self.content, dict) else None
        if found is None:
            found = self._make_node()
            if isinstance(self.content, dict):
                self._document.nodes[id(self.content)] = found
        return found

    def _make_node(self) -> Node:
        content = self.content
        if content is False:
            return Node("false", self)
        if not isinstance(content, dict):
            return Node("empty", self)
        parts = list(self._parts(content))
        if not parts:
            return Node("empty", self)
        return parts[0] if len(parts) == 1 else Node("combined", self, lambda: parts, "allOf")

    def _parts(self, content: dict[str, Any]) -> Iterator[Node]:
        if "enum" in content or "const" in content:
            yield Node("enum", self)
        for criterion in CRITERIA:
            if isinstance(content.get(criterion), list):
                yield Node("combined", self, functools.partial(self._nodes, content[criterion]), criterion)
        if "not" in content:
            yield Node("not", self)
        if "if" in content:
            yield Node("condition", self)
        kinds = content.get("type")
        if isinstance(kinds, list):
            parts = [Node("number" if kind == "integer" else kind, _Narrowed(self, kind)) for kind in kinds]
            yield Node("combined", self, lambda: parts, "anyOf") if len(parts) != 1 else parts[0]
        elif isinstance(kinds, str):
            yield Node("number" if kinds == "integer" else kinds, self)
        else:
            for kind, words in _SNIFFED:
                if any(word in content for word in words):
                    yield Node(kind, self)

    def _nodes(self, contents: Sequence[Any]) -> list[Node]:
        return [self.at(one).node() for one in contents]

    def check_references(self) -> None:
        """Follow every reference once. Raises Unresolvable."""
        waiting, seen = [self], {id(self.content)}
        while waiting:
            place = waiting.pop()
            for inner in place._within():
                if isinstance(inner.content, dict) and id(inner.content) not in seen:
                    seen.add(id(inner.content))
                    waiting.append(inner)

    def _within(self) -> Iterator[Place]:
        content = self.content
        if not isinstance(content, dict):
            return
        if isinstance(content.get("$ref"), str):
            yield self.referred()
        for name in _PLACES_OF_ONE:
            if isinstance(content.get(name), dict):
                yield self.at(content[name])
        for name in _PLACES_OF_MANY:
            if isinstance(content.get(name), list):
                yield from map(self.at, content[name])
        for name in _PLACES_BY_NAME:
            if isinstance(content.get(name), dict):
                yield from map(self.at, content[name].values())


class _Narrowed(Place):
    """A schema of several types, looked at as one of them."""

    def __init__(self, whole: Place, kind: str) -> None:
        super().__init__({**whole.content, "type": kind}, whole._resolver, whole._document)
