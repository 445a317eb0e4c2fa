"""Which topic and key a message of a topic in levels gets, and from a record back to its topic in levels.

    filter             topic    key       stored
    sensors/+/reading  sensors  {1}       yes      sensors/7/reading -> topic sensors, key 7, and back
    live/#             -        -         no       given to subscribers alone
    #                  mqtt     {topic}   yes      what holds where no rule fits

The first rule that fits counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import re2

from mainstem.coordination.devices.errors import InvalidTopicRule
from mainstem.coordination.devices.topic_filters import MANY, ONE, SEPARATOR, check_filter, parts_of
from mainstem.model.errors import MainstemError

DEFAULT_TOPIC, WHOLE = "mqtt", "{topic}"
RULES_MAX = 1_000
"""Of one namespace."""
KEY_CHARACTERS_MAX = 1_024
_FIELD = re.compile(r"\{([0-9]{1,3}|topic)\}")
_QUIET = re2.Options()
_QUIET.log_errors = False
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class TopicRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule, as it is stored and shown."""

    filter: str
    topic: str = DEFAULT_TOPIC
    key: str = WHOLE
    """Text in which `{topic}` stands for the whole name, `{1}` for what fits the first wildcard."""
    stored: bool = True
    """False: given to subscribers, and kept in no topic."""


DEFAULT_RULES = (TopicRule(MANY),)


class Place(NamedTuple):
    """Where a message goes: no topic, if it is not stored."""

    topic: str | None
    key: str


class _Rule:
    """A rule, ready for use."""

    def __init__(self, rule: TopicRule) -> None:
        self.rule = rule
        self.levels = rule.filter.split(SEPARATOR)
        self.wildcards = sum([level in (ONE, MANY) for level in self.levels])
        self._pattern = self._backwards()

    def place_of(self, name: str) -> Place | None:
        parts = parts_of(self.levels, name)
        if parts is None:
            return None
        rule = self.rule
        if not rule.stored:
            return Place(None, "")
        if rule.key == WHOLE:
            return Place(rule.topic, name)
        return Place(rule.topic, _FIELD.sub(lambda field: _filled(field[1], name, parts), rule.key))

    def _backwards(self) -> re2._Regexp[str] | None:
        """What finds the wildcards in a key; None: a key does not tell them all."""
        fields = [field[1] for field in _FIELD.finditer(self.rule.key)]
        if fields.count("topic") == 1:
            fields = ["topic"]
        elif sorted(fields) != sorted(str(number + 1) for number in range(self.wildcards)):
            return None
        pattern, at = "", 0
        for field in _FIELD.finditer(self.rule.key):
            pattern += re2.escape(self.rule.key[at : field.start()])
            pattern += f"(?P<w{field[1]}>(?s:.*))" if field[1] in fields else "(?s:.*)"
            at = field.end()
        return re2.compile(pattern + re2.escape(self.rule.key[at:]), _QUIET)

    def name_of(self, key: str) -> str | None:
        """The topic in levels that gets this key, if there is one alone."""
        found = None if self._pattern is None else self._pattern.fullmatch(key)
        if found is None:
            return None
        groups = found.groupdict()
        if "wtopic" in groups:
            return str(groups["wtopic"])
        number = 0
        levels: list[str] = []
        for level in self.levels:
            if level in (ONE, MANY):
                number += 1
                level = groups[f"w{number}"]
            levels.append(level)
        return SEPARATOR.join(levels)


def _filled(field: str, name: str, parts: Sequence[str]) -> str:
    return name if field == "topic" else parts[int(field) - 1]


class TopicRules:
    """The rules of a namespace, in order."""

    def __init__(self, rules: Sequence[TopicRule] = DEFAULT_RULES) -> None:
        self.rules = tuple(rules)
        self._ready = [_Rule(rule) for rule in rules]
        self._last = _Rule(DEFAULT_RULES[0])

    @property
    def topics(self) -> set[str]:
        """Those that records of devices lie on."""
        return {rule.topic for rule in (*self.rules, *DEFAULT_RULES) if rule.stored}

    def place_of(self, name: str) -> Place:
        """Where a message of this name goes."""
        for rule in self._ready:
            if (place := rule.place_of(name)) is not None:
                return place
        return self._last.place_of(name) or Place(None, "")

    def name_of(self, topic: str, key: str) -> str | None:
        """The topic in levels of a record that does not name it: the one whose messages get this topic and key."""
        for rule in (*self._ready, self._last):
            if rule.rule.stored and rule.rule.topic == topic:
                name = rule.name_of(key)
                if name and self.place_of(name) == Place(topic, key):
                    return name
        return None


def check_rules(rules: Sequence[TopicRule]) -> None:
    """Raises InvalidTopicRule."""
    if len(rules) > RULES_MAX:
        raise InvalidTopicRule(f"{len(rules)} rules; at most {RULES_MAX}")
    for rule in rules:
        try:
            shared = check_filter(rule.filter)
        except MainstemError as error:
            raise InvalidTopicRule(f"filter {rule.filter!r}: {error}") from None
        if shared.group or rule.filter.startswith("$"):
            raise InvalidTopicRule(f"filter {rule.filter!r}: rules are for names that do not begin with $")
        if rule.stored and (_NAME.fullmatch(rule.topic) is None or rule.topic in (".", "..")):
            raise InvalidTopicRule(f"{rule.topic!r} is no name of a topic")
        if len(rule.key) > KEY_CHARACTERS_MAX:
            raise InvalidTopicRule(f"the key of {rule.filter!r} has more than {KEY_CHARACTERS_MAX} characters")
        wildcards = sum([level in (ONE, MANY) for level in rule.filter.split(SEPARATOR)])
        for field in _FIELD.findall(rule.key):
            if field != "topic" and not 1 <= int(field) <= wildcards:
                raise InvalidTopicRule(f"filter {rule.filter!r} has no wildcard {field}")
