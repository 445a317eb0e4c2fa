"""The topics that dead letters may be written to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mainstem.broker.catalog.topics import NewTopic, Topic, Topics

ENABLED = "errors.deadletterqueue.group.enable"
"""The setting by which a topic says that groups may write to it."""
INTERNAL_PREFIX = "__"


class LetterRules(NamedTuple):
    """Which topics may get dead letters."""

    prefix: str = "dlq."
    """What their names begin with; empty: any."""
    creates: bool = False
    """Whether one that is missing is created."""
    partitions: int = 1
    """Of one that is created."""


class LetterTopicRefused(Exception):
    """The topic must not get dead letters."""


class LetterTopics:
    """Looked up each time, so that a change of settings counts at once."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self.rules = LetterRules()

    async def find(self, namespace: str, name: str) -> Topic:
        """The topic, if it may get dead letters. Raises LetterTopicRefused and kinds of MainstemError."""
        rules = self.rules
        if not name.startswith(rules.prefix):
            raise LetterTopicRefused(f"the name of {name} does not begin with {rules.prefix}")
        if name.startswith(INTERNAL_PREFIX):
            raise LetterTopicRefused(f"{name} is an internal topic")
        topic = self._topics.named(namespace).get(name)
        if topic is None:
            if not rules.creates:
                raise LetterTopicRefused(f"there is no topic {name}")
            topic = await self._topics.ensure(NewTopic(name, rules.partitions, {ENABLED: "true"}, namespace=namespace))
        if topic.configs.get(ENABLED) != "true":
            raise LetterTopicRefused(f"{ENABLED} of {name} is not true")
        return topic

    def named(self, namespace: str) -> Mapping[str, Topic]:
        """The topics of a namespace."""
        return self._topics.named(namespace)

    def place_of(self, log: int) -> tuple[str, str, int]:
        """Namespace, topic and partition of a log; empty names where no topic has it."""
        origin = self._topics.origin(log)
        return ("", "", 0) if origin is None else (origin[0].namespace, origin[0].name, origin[1])
