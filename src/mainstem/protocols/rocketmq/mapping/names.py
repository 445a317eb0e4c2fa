"""Names of topics: RocketMQ's and ours.

A topic has the same name for all protocols; where a topic of ours cannot have it (`%`, `|`), it is escaped as names of queues
are. The retry topic of a group is nobody else's business: it is in a namespace of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE, NewTopic, Topic, Topics
from mainstem.broker.queues import queue_name_of, topic_name_of
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode

RETRY_PREFIX, DEAD_LETTER_PREFIX = "%RETRY%", "%DLQ%"
DEFAULT_TOPIC = "TBW102"
"""Its route is that of topics that are not there yet."""
RETRY_NAMESPACE = "rocketmq-retry"
TOPIC_CHARACTERS_MAX, GROUP_CHARACTERS_MAX = 127, 255
RECORD_OVERHEAD_BYTES = 64 << 10
"""What a record has besides its body, at most."""
LOG_BITS, OFFSET_BITS = 24, 39
_NAME = re.compile(r"[%|a-zA-Z0-9_.-]+")


class TopicPlace(NamedTuple):
    """A topic of ours."""

    namespace: str
    name: str


def check_name(name: str, kind: str = "topic", characters_max: int = TOPIC_CHARACTERS_MAX) -> str:
    """The name again. Raises RequestRefused."""
    if not name or len(name) > characters_max:
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, f"a {kind} has a name of 1 to {characters_max} characters")
    if _NAME.fullmatch(name) is None:
        raise RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL, f"a {kind}'s name has letters, digits and _ - . % |: {name!r}"
        )
    return name


def check_group(name: str) -> str:
    """The name again. Raises RequestRefused."""
    return check_name(name, "group", GROUP_CHARACTERS_MAX)


def place_of(topic: str) -> TopicPlace:
    """Where a topic of this name is. Raises RequestRefused."""
    namespace = DEFAULT_NAMESPACE
    if topic.startswith(RETRY_PREFIX):
        namespace, topic = RETRY_NAMESPACE, topic.removeprefix(RETRY_PREFIX)
    name = topic_name_of(topic)
    if name is None:
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, f"the name of topic {topic} is too long")
    return TopicPlace(namespace, name)


def name_of(topic: Topic) -> str:
    """As RocketMQ's clients write it."""
    name = queue_name_of(topic.name)
    return RETRY_PREFIX + name if topic.namespace == RETRY_NAMESPACE else name


def find_topic(topics: Topics, name: str) -> Topic | None:
    """The topic of this name."""
    namespace, own = place_of(name)
    return topics.named(namespace).get(own)


def shown_topics(topics: Topics) -> Mapping[str, Topic]:
    """All, by their names."""
    found = [*topics.named().values(), *topics.named(RETRY_NAMESPACE).values()]
    return {name_of(topic): topic for topic in found}


def new_topic(name: str, queues: int, message_bytes_max: int) -> NewTopic:
    """A topic that takes messages as large as RocketMQ's may be. Raises RequestRefused."""
    namespace, own = place_of(check_name(name))
    return NewTopic(own, queues, {"max.message.bytes": str(message_bytes_max + RECORD_OVERHEAD_BYTES)}, namespace)


def physical_offset(log: int, offset: int) -> int:
    """A number that finds a record alone, as the place in a commit log does."""
    return log << OFFSET_BITS | offset


def log_and_offset(number: int) -> tuple[int, int]:
    """The same back."""
    return number >> OFFSET_BITS, number & (1 << OFFSET_BITS) - 1
