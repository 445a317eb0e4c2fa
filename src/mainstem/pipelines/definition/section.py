"""One mapping of a definition, taken apart key by key. What nobody asked for is unknown, and refused with the nearest key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from mainstem.pipelines.definition.document import Node
from mainstem.pipelines.definition.errors import FileLine, Problem

DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|seconds?|minutes?|hours?|days?|weeks?)")
_LONG = {"ms": "milliseconds", "s": "seconds"}


class Section:
    """Reads a mapping; notes problems and goes on, so that all are told at once."""

    def __init__(self, node: Node, what: str, problems: list[Problem]) -> None:
        self.place = node.key_place
        self._what = what
        self._problems = problems
        self._known: list[str] = []
        self._values: dict[str, Node] = {}
        if isinstance(node.value, dict):
            self._values = node.value
        elif node.value is not None:
            self.problem(f"{what} is a mapping of keys and values", node.place)

    def problem(self, text: str, place: FileLine | None = None) -> None:
        """Something is wrong here."""
        self._problems.append(Problem(place or self.place, text))

    def end(self) -> None:
        """Refuses what was not asked for."""
        for key, node in self._values.items():
            if key not in self._known:
                near = difflib.get_close_matches(key, self._known, 1)
                hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(self._known)}"
                self.problem(f"{self._what} knows no `{key}`; {hint}", node.key_place)

    def given(self, keys: Sequence[str]) -> list[str]:
        """Which of these keys are there."""
        self._known += [key for key in keys if key not in self._known]
        return [key for key in keys if key in self._values]

    def node(self, key: str) -> Node | None:
        """As it stands; None where it is not there or empty."""
        self.given([key])
        found = self._values.get(key)
        return None if found is None or found.value is None else found

    def place_of(self, key: str) -> FileLine:
        """Where a key stands, or this mapping if it is not there."""
        found = self._values.get(key)
        return self.place if found is None else found.key_place

    def section(self, key: str, what: str) -> Section:
        """A mapping below."""
        found = self.node(key)
        return Section(found or Node({}, self.place, self.place), what, self._problems)

    def sections(self, key: str, what: str) -> dict[str, Section]:
        """Mappings by the names that a user chose."""
        named = self.section(key, f"`{key}`")
        found = {}
        for name, node in named._values.items():
            found[name] = Section(node, f"{what} `{name}`", self._problems)
        return found

    def text(self, key: str, *, needed: bool = False) -> str | None:
        """A text; numbers are taken as they are written."""
        found = self.node(key)
        if found is None:
            if needed:
                self.problem(f"{self._what} needs `{key}`")
            return None
        if isinstance(found.value, bool | list | dict):
            self.problem(f"`{key}` is a text", found.place)
            return None
        text = str(found.value)
        if not text.strip():
            self.problem(f"`{key}` is empty", found.place)
            return None
        return text

    def text_line(self, key: str) -> FileLine:
        """Where the first line of a text is."""
        found = self._values[key]
        return FileLine(found.place.file, found.text_line or found.place.line)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        found = self.node(key)
        if found is None:
            return default
        if not isinstance(found.value, bool):
            self.problem(f"`{key}` is true or false", found.place)
            return default
        return found.value

    def choice(self, key: str, choices: Iterable[str], default: str | None) -> str:
        """One of a few words."""
        allowed = list(choices)
        value = self.text(key, needed=default is None) or default or allowed[0]
        if value not in allowed:
            near = difflib.get_close_matches(value, allowed, 1)
            hint = f"did you mean {near[0]}?" if near else f"it can be {', '.join(allowed)}"
            self.problem(f"`{key}` is {value!r}; {hint}", self.place_of(key))
            return default or allowed[0]
        return value

    def duration(self, key: str, default: str | None = None) -> str | None:
        """A time span as Spark writes it."""
        text = self.text(key)
        if text is None:
            return default
        span = as_duration(text)
        if span is None:
            self.problem(f"`{key}` is {text!r}; it is a number with a unit, as 10 seconds", self.place_of(key))
            return default
        return span

    def words(self, key: str) -> tuple[str, ...] | None:
        """A list of texts, or a single one."""
        found = self.node(key)
        if found is None:
            return None
        if isinstance(found.value, str):
            return tuple(part.strip() for part in found.value.split(",") if part.strip())
        if isinstance(found.value, list) and all(isinstance(item.value, str) for item in found.value):
            return tuple(str(item.value) for item in found.value)
        self.problem(f"`{key}` is a list of words", found.place)
        return None

    def options(self, key: str) -> dict[str, str]:
        """Names and values for Spark, of which only Spark knows which there are."""
        found = self.node(key)
        if found is None:
            return {}
        if not isinstance(found.value, dict):
            self.problem(f"`{key}` is a mapping of names and values", found.place)
            return {}
        options = {}
        for name, node in found.value.items():
            match node.value:
                case bool():
                    options[name] = str(node.value).lower()
                case list() | dict() | None:
                    self.problem(f"`{name}` is a text, a number, true or false", node.place)
                case _:
                    options[name] = str(node.value)
        return options


def as_duration(text: str) -> str | None:
    """In the words of Spark's intervals, or None."""
    found = DURATION.fullmatch(text.strip())
    return f"{found[1]} {_LONG.get(found[2], found[2])}" if found else None
