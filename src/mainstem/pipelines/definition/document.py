"""YAML, or values of Python, as a tree in which everything knows its line.

PyYAML's own loader forgets lines and lets a key that is there twice pass; so its nodes are taken, and no tags but those of
plain data.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import yaml

from mainstem.pipelines.definition.errors import DefinitionRefused, FileLine, Problem

FILE_BYTES_MAX = 512 << 10
VALUES_MAX = 20_000
"""Values in one document: an alias can stand for much."""
DEPTH_MAX = 20

Scalar: TypeAlias = str | int | float | bool | None


class Node(NamedTuple):
    """A value, and where it begins."""

    value: Scalar | list[Node] | dict[str, Node]
    place: FileLine
    key_place: FileLine
    """Where its key stands; its own place for what has none."""
    text_line: int = 0
    """Where the first line of a text of several lines is."""


def read_yaml(text: str, file: str) -> Node:
    """The tree of a document. Raises DefinitionRefused."""
    if len(text.encode()) > FILE_BYTES_MAX:
        raise _refused(file, 1, f"a definition has at most {FILE_BYTES_MAX} bytes")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _refused(
            file, mark.line + 1 if mark else 1, f"this is not YAML: {error.problem or error.context}"
        ) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise _refused(file, 1, f"this is not YAML: {str(error).splitlines()[0]}") from None
    if root is None:
        raise _refused(file, 1, "the file is empty")
    return _Reader(file).node(root, FileLine(file, root.start_mark.line + 1), 0)


def from_values(values: Any, place: FileLine) -> Node:
    """The tree of what a Python file says; all of it stands where the file says it. Raises DefinitionRefused."""
    if isinstance(values, Mapping):
        pairs = {str(key): from_values(value, place) for key, value in values.items()}
        return Node(pairs, place, place, place.line)
    if isinstance(values, list | tuple):
        return Node([from_values(value, place) for value in values], place, place, place.line)
    if values is None or isinstance(values, str | int | float | bool):
        return Node(values, place, place, place.line)
    if isinstance(values, datetime.datetime):
        return Node(values.isoformat(), place, place, place.line)
    raise DefinitionRefused([Problem(place, f"a definition has no place for a {type(values).__name__}")])


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file
        self._values = 0
        self._scalars = yaml.SafeLoader("")

    def node(self, given: yaml.Node, key_place: FileLine, depth: int) -> Node:
        place = FileLine(self._file, given.start_mark.line + 1)
        self._values += 1
        if self._values > VALUES_MAX or depth > DEPTH_MAX:
            raise _refused(self._file, place.line, "the document is too large or too deep")
        if isinstance(given, yaml.MappingNode):
            return Node(self._mapping(given, depth), place, key_place, place.line)
        if isinstance(given, yaml.SequenceNode):
            items = [self.node(item, FileLine(self._file, item.start_mark.line + 1), depth + 1) for item in given.value]
            return Node(items, place, key_place, place.line)
        assert isinstance(given, yaml.ScalarNode)
        text_line = place.line + 1 if given.style in ("|", ">") else place.line
        return Node(self._scalar(given, place), place, key_place, text_line)

    def _mapping(self, given: yaml.MappingNode, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for key, value in given.value:
            place = FileLine(self._file, key.start_mark.line + 1)
            if not isinstance(key, yaml.ScalarNode):
                raise _refused(self._file, place.line, "a key is a word")
            if key.tag == "tag:yaml.org,2002:merge":
                raise _refused(self._file, place.line, "`<<` is not taken: write the keys out")
            name = str(key.value)
            if name in found:
                raise _refused(self._file, place.line, f"`{name}` is there twice")
            found[name] = self.node(value, place, depth + 1)
        return found

    def _scalar(self, given: yaml.Node, place: FileLine) -> Scalar:
        if given.tag == "tag:yaml.org,2002:timestamp":
            return str(given.value)
        try:
            value = self._scalars.construct_object(given, deep=True)
        except (yaml.YAMLError, ValueError) as error:
            problem = getattr(error, "problem", None) or str(error)
            raise _refused(self._file, place.line, f"this value cannot be read: {problem}") from None
        if value is not None and not isinstance(value, str | int | float | bool):
            raise _refused(self._file, place.line, f"a definition has no place for a {type(value).__name__}")
        return value


def _refused(file: str, line: int, text: str) -> DefinitionRefused:
    return DefinitionRefused([Problem(FileLine(file, line), text)])
