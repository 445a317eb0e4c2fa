"""Topics as groups see them: what there is to share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID


class TopicShape(NamedTuple):
    """What an assignor must know of a topic."""

    id: UUID
    partitions: int


class Topology(Mapping[str, TopicShape]):
    """The topics by name; always current."""

    __slots__ = ()

    @property
    @abstractmethod
    def version(self) -> int:
        """Another number whenever a topic comes, goes or grows: only then is it worth to look again."""

    @abstractmethod
    def name_of(self, topic: UUID) -> str | None:
        """The name of a topic, if it is still there."""
