"""Whether one JSON Schema takes what another allowed: the rules of Confluent's registry.

What an object allows beside its properties decides what may be added and removed: an open content model allows anything, a closed
one nothing, a partially open one what its patterns and its schema of additional properties say. A property may be added where
the older schema was not open, and removed where the newer one is not closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import re2

from mainstem.wire.schemas.json_schema.nodes import Node, Place
from mainstem.wire.schemas.schema import Difference, InvalidSchema

DEPTH_MAX = 100
"""Well below what the interpreter's stack takes: libraries do not survive its end."""
STEPS_MAX = 200_000
"""Pairs of schemas that one comparison looks at."""


def compare_json(reader: Place, writer: Place) -> list[Difference]:
    """Why `reader` may refuse what `writer` allowed."""
    return _Comparison().compare(writer.node(), reader.node(), "#/")


class _Comparison:
    """The older schema is always given first."""

    def __init__(self) -> None:
        self._steps = 0
        self._under_way: set[tuple[int, int]] = set()
        self._by_kind: dict[str, Callable[[Node, Node, str], list[Difference]]] = {
            "string": _compare_strings,
            "number": _compare_numbers,
            "enum": _compare_enums,
            "object": self._objects,
            "array": self._arrays,
            "combined": self._combined,
            "not": self._nots,
            "condition": _compare_conditions,
        }

    def compare(self, old: Node | None, new: Node | None, path: str) -> list[Difference]:
        if new is None:
            return []
        if old is None:
            return [Difference("SCHEMA_ADDED", path, "a schema is added where anything was allowed")]
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise InvalidSchema("the schemas are too large to compare")
        pair = id(old), id(new)
        if pair in self._under_way:
            return []
        if len(self._under_way) >= DEPTH_MAX:
            raise InvalidSchema("the schemas are nested too deep to compare")
        self._under_way.add(pair)
        try:
            return self._compare(old, new, path)
        finally:
            self._under_way.discard(pair)

    def _compare(self, old: Node, new: Node, path: str) -> list[Difference]:
        if new.kind == "combined" and old.kind != "combined":
            if len(new.parts) == 1 or new.criterion in ("anyOf", "oneOf"):
                if any(not self.compare(old, part, path) for part in new.parts):
                    return []
        elif old.kind == "combined" and new.kind != "combined" and len(old.parts) == 1:
            if not self.compare(old.parts[0], new, path):
                return []
        if old.kind != new.kind:
            if old.kind == "false" or new.kind == "empty":
                return []
            return [Difference("TYPE_CHANGED", path, f"{_word(old)} was allowed, {_word(new)} is")]
        compare = self._by_kind.get(new.kind)
        return [] if compare is None else compare(old, new, path)

    # Combinations

    def _combined(self, old: Node, new: Node, path: str) -> list[Difference]:
        if not _may_become(old, new):
            sentence = f"{old.criterion} becomes {new.criterion}"
            return [Difference("COMBINED_TYPE_CHANGED", path, sentence)]
        found = []
        if len(old.parts) < len(new.parts) and new.criterion == "allOf":
            found.append(Difference("PRODUCT_TYPE_EXTENDED", path, "allOf asks for more"))
        elif len(old.parts) > len(new.parts) and new.criterion != "allOf":
            found.append(Difference("SUM_TYPE_NARROWED", path, f"{new.criterion} allows less"))
        edges = [
            [number for number, part in enumerate(new.parts) if not self.compare(one, part, f"{path}{old.criterion}/")]
            for one in old.parts
        ]
        if _pairs(edges) < min(len(old.parts), len(new.parts)):
            sentence = f"the schemas of {new.criterion} do not take what those before allowed"
            found.append(Difference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path, sentence))
        return found

    def _nots(self, old: Node, new: Node, path: str) -> list[Difference]:
        if not self.compare(new.inner("not"), old.inner("not"), f"{path}not/"):
            return []
        return [Difference("NOT_TYPE_EXTENDED", f"{path}not", "more is excluded than before")]

    # Objects

    def _objects(self, old: Node, new: Node, path: str) -> list[Difference]:
        before, after = old.inner_by_name("properties"), new.inner_by_name("properties")
        found: list[Difference] = []
        was_required, is_required = set(old.word("required") or ()), set(new.word("required") or ())
        for name in before.keys() & (is_required - was_required) & after.keys():
            if not _has_default(after[name]):
                sentence = f"the property {name!r} is required now and has no default"
                found.append(Difference("REQUIRED_ATTRIBUTE_ADDED", f"{path}required/{name}", sentence))
        for name in sorted(before.keys() | after.keys()):
            place = f"{path}properties/{name}"
            if name not in after:
                found += self._removed_property(before[name], new, name, place)
            elif name not in before:
                found += self._added_property(old, after[name], name, place, is_required=name in is_required)
            else:
                found += self.compare(before[name], after[name], f"{place}/")
        found += self._dependencies(old, new, path)
        found += self._rest(old, new, path, "additionalProperties", "ADDITIONAL_PROPERTIES")
        return [
            *found,
            *_upper_bound(old, new, path, "maxProperties", "MAX_PROPERTIES"),
            *_lower_bound(old, new, path, "minProperties", "MIN_PROPERTIES"),
        ]

    def _removed_property(self, old: Node, new: Node, name: str, path: str) -> list[Difference]:
        if _is_open(new):
            return []
        cover = _cover(new, name)
        if cover is None:
            if old.kind == "false":
                return []
            sentence = f"the property {name!r} is removed and nothing else is allowed"
            return [Difference("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path, sentence)]
        found = self.compare(old, cover, f"{path}/")
        if found:
            sentence = f"the property {name!r} is removed, and what else is allowed does not take it"
            kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            found.append(Difference(kind, path, sentence))
        return found

    def _added_property(self, old: Node, new: Node, name: str, path: str, *, is_required: bool) -> list[Difference]:
        if _is_open(old):
            if new.kind == "empty":
                return []
            sentence = f"the property {name!r} is added where anything was allowed under this name"
            return [Difference("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path, sentence)]
        found: list[Difference] = []
        cover = _cover(old, name)
        if cover is not None:
            found = self.compare(cover, new, f"{path}/")
            if found:
                sentence = f"the property {name!r} is added, and does not take what was allowed under this name"
                kind = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
                found.append(Difference(kind, path, sentence))
        if is_required and not _has_default(new):
            sentence = f"the required property {name!r} is added without a default"
            found.append(Difference("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path, sentence))
        return found

    def _rest(self, old: Node, new: Node, path: str, word: str, kind: str) -> list[Difference]:
        """What is allowed beside what is named: nothing, something, anything."""
        before, after = old.word(word), new.word(word)
        if (before is False) != (after is False):
            if before is False:
                return []
            return [Difference(f"{kind}_REMOVED", f"{path}{word}", f"{word} is not allowed any more")]
        if not isinstance(before, dict) and isinstance(after, dict):
            return [Difference(f"{kind}_NARROWED", f"{path}{word}", f"{word} has a schema now")]
        if not isinstance(after, dict):
            return []
        return self.compare(old.inner(word), new.inner(word), f"{path}{word}/")

    def _dependencies(self, old: Node, new: Node, path: str) -> list[Difference]:
        found = []
        before, after = _needed(old), _needed(new)
        for name in sorted(after):
            place = f"{path}dependencies/{name}"
            if name not in before:
                sentence = f"the property {name!r} needs others now"
                found.append(Difference("DEPENDENCY_ARRAY_ADDED", place, sentence))
            elif not after[name] <= before[name]:
                kind = "DEPENDENCY_ARRAY_EXTENDED" if before[name] < after[name] else "DEPENDENCY_ARRAY_CHANGED"
                found.append(Difference(kind, place, f"the property {name!r} needs others than before"))
        were, are = (one.inner_by_name("dependencies", "dependentSchemas") for one in (old, new))
        for name in sorted(are):
            if name not in were:
                sentence = f"the property {name!r} asks for a schema now"
                found.append(Difference("DEPENDENCY_SCHEMA_ADDED", f"{path}dependencies/{name}", sentence))
            else:
                found += self.compare(were[name], are[name], f"{path}dependencies/{name}/")
        return found

    # Arrays

    def _arrays(self, old: Node, new: Node, path: str) -> list[Difference]:
        found = [
            *_upper_bound(old, new, path, "maxItems", "MAX_ITEMS"),
            *_lower_bound(old, new, path, "minItems", "MIN_ITEMS"),
        ]
        if new.word("uniqueItems") is True and old.word("uniqueItems") is not True:
            found.append(Difference("UNIQUE_ITEMS_ADDED", f"{path}uniqueItems", "items must differ now"))
        (before, word), (after, new_word) = _tuple_of(old), _tuple_of(new)
        if not before and not after:
            return [*found, *self.compare(old.inner("items"), new.inner("items"), f"{path}items/")]
        if word == new_word:
            found += self._rest(old, new, path, word, "ADDITIONAL_ITEMS")
        for number in range(max(len(before), len(after))):
            place = f"{path}items/{number}"
            if number >= len(after):
                found += self._removed_item(before[number], new, new_word, place)
            elif number >= len(before):
                found += self._added_item(old, word, after[number], place)
            else:
                found += self.compare(before[number], after[number], f"{place}/")
        return found

    def _removed_item(self, old: Node, new: Node, word: str, path: str) -> list[Difference]:
        rest = new.word(word)
        if rest is False:
            if old.kind == "false":
                return []
            return [
                Difference("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", path, "an item is removed, no other is allowed")
            ]
        if not isinstance(rest, dict):
            return []
        found = self.compare(old, new.inner(word), f"{path}/")
        if found:
            sentence = "an item is removed, and what else is allowed does not take it"
            found.append(Difference("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, sentence))
        return found

    def _added_item(self, old: Node, word: str, new: Node, path: str) -> list[Difference]:
        rest = old.word(word)
        if rest is False:
            return []
        if not isinstance(rest, dict):
            if new.kind == "empty":
                return []
            return [Difference("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", path, "an item is added where any was allowed")]
        found = self.compare(old.inner(word), new, f"{path}/")
        if found:
            sentence = "an item is added, and does not take what was allowed there"
            found.append(Difference("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, sentence))
        return found


# ---------------------------------------------------------------------------------------------------------------------


def _may_become(old: Node, new: Node) -> bool:
    if old.criterion == new.criterion or new.criterion == "anyOf":
        return True
    if new.criterion == "oneOf":
        return len(old.parts) == 1
    return len(old.parts) == 1 and len(new.parts) == 1


def _pairs(edges: Sequence[Sequence[int]]) -> int:
    """How many of the old parts find a new part of their own."""
    partner: dict[int, int] = {}

    def place(one: int, tried: set[int]) -> bool:
        for other in edges[one]:
            if other not in tried:
                tried.add(other)
                if other not in partner or place(partner[other], tried):
                    partner[other] = one
                    return True
        return False

    return sum(place(one, set()) for one in range(len(edges)))


def _is_open(node: Node) -> bool:
    rest = node.word("additionalProperties")
    return not node.word("patternProperties") and (rest is None or rest is True)


def _cover(node: Node, name: str) -> Node | None:
    """What a partially open content model says of a property."""
    for pattern, inner in node.inner_by_name("patternProperties").items():
        try:
            if re2.search(pattern, name):
                return inner
        except re2.error:
            continue  # the pattern is of another dialect: the property is taken not to fit
    rest = node.word("additionalProperties")
    return node.inner("additionalProperties") if isinstance(rest, dict) else None


def _has_default(node: Node) -> bool:
    return isinstance(node.place.content, dict) and "default" in node.place.content


def _needed(node: Node) -> dict[str, set[str]]:
    given = {**(node.word("dependencies") or {}), **(node.word("dependentRequired") or {})}
    return {name: set(needed) for name, needed in given.items() if isinstance(needed, list)}


def _tuple_of(node: Node) -> tuple[list[Node], str]:
    """The items that have a schema each, and the word that says what may follow."""
    prefix = node.word("prefixItems")
    if isinstance(prefix, list):
        return [node.place.at(one).node() for one in prefix], "items"
    items = node.word("items")
    if isinstance(items, list):
        return [node.place.at(one).node() for one in items], "additionalItems"
    return [], "additionalItems"


def _compare_strings(old: Node, new: Node, path: str) -> list[Difference]:
    found = [
        *_upper_bound(old, new, path, "maxLength", "MAX_LENGTH"),
        *_lower_bound(old, new, path, "minLength", "MIN_LENGTH"),
    ]
    before, after = old.word("pattern"), new.word("pattern")
    if after is not None and before != after:
        kind = "PATTERN_ADDED" if before is None else "PATTERN_CHANGED"
        found.append(Difference(kind, f"{path}pattern", f"the pattern is {after!r} now"))
    return found


def _compare_numbers(old: Node, new: Node, path: str) -> list[Difference]:
    found = [
        *_upper_bound(old, new, path, "maximum", "MAXIMUM"),
        *_lower_bound(old, new, path, "minimum", "MINIMUM"),
        *_upper_bound(old, new, path, "exclusiveMaximum", "EXCLUSIVE_MAXIMUM"),
        *_lower_bound(old, new, path, "exclusiveMinimum", "EXCLUSIVE_MINIMUM"),
    ]
    before, after = old.word("multipleOf"), new.word("multipleOf")
    if after is not None and before != after:
        if before is None:
            found.append(Difference("MULTIPLE_OF_ADDED", f"{path}multipleOf", f"a multiple of {after} is asked for"))
        elif before % after != 0:
            kind = "MULTIPLE_OF_EXPANDED" if after % before == 0 else "MULTIPLE_OF_CHANGED"
            found.append(Difference(kind, f"{path}multipleOf", f"a multiple of {after} is asked for, not of {before}"))
    if new.word("type") == "integer" and old.word("type") != "integer":
        found.append(Difference("TYPE_NARROWED", path, "a number was allowed, an integer is"))
    return found


def _compare_enums(old: Node, new: Node, path: str) -> list[Difference]:
    before, after = _values(old), _values(new)
    missing = [one for one in before if not any(_is_same(one, other) for other in after)]
    if not missing:
        return []
    is_narrowed = all(any(_is_same(one, other) for other in before) for one in after)
    kind = "ENUM_ARRAY_NARROWED" if is_narrowed else "ENUM_ARRAY_CHANGED"
    return [Difference(kind, f"{path}enum", f"the value {missing[0]!r} is not allowed any more")]


def _values(node: Node) -> list[Any]:
    return [node.word("const")] if "const" in node.place.content else list(node.word("enum") or ())


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _compare_conditions(old: Node, new: Node, path: str) -> list[Difference]:
    if all(old.word(word) == new.word(word) for word in ("if", "then", "else")):
        return []
    return [Difference("CONDITION_CHANGED", f"{path}if", "what is asked for under a condition changed")]


def _upper_bound(old: Node, new: Node, path: str, word: str, kind: str) -> list[Difference]:
    return _bound(old, new, path, word, f"{kind}_ADDED", f"{kind}_DECREASED", is_upper=True)


def _lower_bound(old: Node, new: Node, path: str, word: str, kind: str) -> list[Difference]:
    return _bound(old, new, path, word, f"{kind}_ADDED", f"{kind}_INCREASED", is_upper=False)


def _bound(
    old: Node, new: Node, path: str, word: str, added: str, narrowed: str, *, is_upper: bool
) -> list[Difference]:
    before, after = old.word(word), new.word(word)
    if after is None or after is False or before == after:
        return []
    if before is None or before is False:
        return [Difference(added, f"{path}{word}", f"{word} is {after} now")]
    # draft 4 has booleans here: true is narrower than nothing
    if isinstance(before, bool) or isinstance(after, bool):
        return []
    if (after < before) if is_upper else (after > before):
        return [Difference(narrowed, f"{path}{word}", f"{word} was {before} and is {after}")]
    return []


def _word(node: Node) -> str:
    kind = {"empty": "anything", "false": "nothing", "combined": node.criterion, "enum": "one of some values"}
    return kind.get(node.kind, f"type {node.kind}")
