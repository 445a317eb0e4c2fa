"""Names of topics in levels, and filters of them, as MQTT has them (MQTT 5, section 4.7)."""

from __future__ import annotations

from typing import NamedTuple

from mainstem.coordination.devices.errors import InvalidFilter, InvalidTopicLevels

ONE, MANY, SEPARATOR = "+", "#", "/"
NAME_BYTES_MAX = 65_535
LEVELS_MAX = 128
"""Of a name or a filter."""
SHARE_PREFIX = "$share/"


class SharedFilter(NamedTuple):
    """A filter, and the group whose members share what fits it; without a group it is a subscription of its own."""

    group: str
    filter: str


def check_name(name: str) -> None:
    """Raises InvalidTopicLevels."""
    if not name or "\0" in name or ONE in name or MANY in name:
        raise InvalidTopicLevels("a topic has characters, and neither wildcards nor null characters")
    if name.count(SEPARATOR) >= LEVELS_MAX or len(name) > NAME_BYTES_MAX:
        raise InvalidTopicLevels(f"a topic has at most {LEVELS_MAX} levels")


def check_filter(text: str) -> SharedFilter:
    """The parts of a filter. Raises InvalidFilter."""
    group = ""
    if text == "$share" or text.startswith(SHARE_PREFIX):
        _, _, rest = text.partition(SEPARATOR)
        group, separator, text = rest.partition(SEPARATOR)
        if not group or not separator or not text or ONE in group or MANY in group:
            raise InvalidFilter("a shared subscription is $share/GROUP/FILTER, without wildcards in the group")
    if not text or "\0" in text:
        raise InvalidFilter("a filter has characters, and no null characters")
    levels = text.split(SEPARATOR)
    if len(levels) > LEVELS_MAX:
        raise InvalidFilter(f"a filter has at most {LEVELS_MAX} levels")
    for number, level in enumerate(levels):
        if MANY in level and (level != MANY or number < len(levels) - 1):
            raise InvalidFilter("# stands alone in the last level")
        if ONE in level and level != ONE:
            raise InvalidFilter("+ stands alone in its level")
    return SharedFilter(group, text)


def parts_of(levels: list[str], name: str) -> list[str] | None:
    """What stands for each wildcard of a filter, the levels under # as one; None: the name does not fit."""
    names = name.split(SEPARATOR)
    if name.startswith("$") and levels[0] in (ONE, MANY):
        return None
    found: list[str] = []
    for number, level in enumerate(levels):
        if level == MANY:
            found.append(SEPARATOR.join(names[number:]))
            return found
        if number >= len(names):
            return None
        if level == ONE:
            found.append(names[number])
        elif level != names[number]:
            return None
    return found if len(levels) == len(names) else None
