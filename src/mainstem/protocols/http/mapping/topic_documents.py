"""Topics as they are asked for and shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE, OPTIONS, TABLE, Topic, check_topic_option
from mainstem.broker.errors import InvalidTopicConfig
from mainstem.protocols.http.errors import InvalidConfig, InvalidContent, escape_pointer
from mainstem.protocols.http.mapping.documents import PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, Limit

Setting = Annotated[Any, msgspec.Meta(extra_json_schema={"type": ["string", "number", "boolean"]})]
ConfigValue = Annotated[Any, msgspec.Meta(extra_json_schema={"type": ["string", "number", "boolean", "null"]})]
PartitionCount = Annotated[int, msgspec.Meta(ge=1)]
PartitionNumber = Annotated[int, msgspec.Meta(ge=0)]


# Asked


class TopicPath(msgspec.Struct, frozen=True):
    """Which topic."""

    name: str


class PartitionPath(msgspec.Struct, frozen=True):
    """Which partition of which topic."""

    name: str
    partition: PartitionNumber


class PartitionsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which of the partitions."""

    after: Annotated[int, msgspec.Meta(ge=-1, description="Go on behind this partition.")] = -1
    limit: Limit = PAGE_ITEMS_MAX


class PositionQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which position in a partition, if one is meant."""

    offset: Annotated[int, msgspec.Meta(ge=0, description="Look at the first record from here on.")] | UnsetType = UNSET
    time_ms: Annotated[int, msgspec.Meta(ge=0, description="Look at the first record since then.")] | UnsetType = UNSET


class TopicsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which topics, in which order."""

    search: Annotated[str, msgspec.Meta(description="Only names that contain this text.")] = ""
    kind: Literal["stream", "queue", "table", "compacted"] | None = None
    sort: Annotated[
        Literal["name", "records", "bytes", "partitions"], msgspec.Meta(description="The largest first, but for names.")
    ] = "name"
    after: Annotated[
        str, msgspec.Meta(description="Go on behind this topic; sorted by size: after this number of topics.")
    ] = ""
    limit: Limit = PAGE_ITEMS_DEFAULT
    namespace: str = DEFAULT_NAMESPACE


class TopicWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic to be created."""

    name: str
    partitions: PartitionCount = 1
    config: dict[str, Setting] = {}


class TopicChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be different. A configuration that is null goes back to its default."""

    partitions: PartitionCount | None = None
    config: dict[str, ConfigValue] = {}


# Shown


class TopicSummary(msgspec.Struct, frozen=True):
    """A topic in a list."""

    name: str
    id: str
    partitions: int
    kind: Literal["stream", "queue", "table", "compacted"]
    records: int
    """Between start and end of its partitions; compaction and markers leave gaps."""
    bytes: int
    """Of the first 1,000 partitions, as `records` is."""


class TopicPage(msgspec.Struct, frozen=True):
    """Some topics, by name."""

    topics: list[TopicSummary]
    next: str | None
    """Where the list goes on."""


class PartitionFacts(msgspec.Struct, frozen=True):
    """How far a partition reaches."""

    partition: int
    start: int
    end: int
    """The next offset to be given."""
    stable: int
    """Below it no transaction is open."""
    bytes: int


class ConfigFact(msgspec.Struct, frozen=True):
    """A configuration in force."""

    value: str
    source: Literal["topic", "broker", "default"]


class PastQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which stretch of time, in how many parts."""

    from_ms: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None
    """None: the time of the first record that is still there."""
    until_ms: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None
    parts: Annotated[int, msgspec.Meta(ge=1, le=200)] = 48
    namespace: str = DEFAULT_NAMESPACE


class TopicPast(msgspec.Struct, frozen=True):
    """When the records of a topic are from."""

    from_ms: int
    until_ms: int
    records: list[int]
    """In each part of the time between, by offsets: those that compaction has taken count."""
    partitions: int
    """Looked at; of more, the first."""


class TopicDocument(msgspec.Struct, frozen=True):
    """A topic."""

    name: str
    id: str
    partition_count: int
    partitions: list[PartitionFacts]
    next: str | None
    """Where the list of partitions goes on."""
    config: dict[str, ConfigFact]


class Position(msgspec.Struct, frozen=True):
    """A place in a partition and what lies behind it."""

    offset: int
    """-1: there is no such record."""
    timestamp_ms: int | None
    """Of the first record from here on."""
    lag_messages: int
    lag_seconds: float | None
    """How old that record is; 0 at the end, null when it has no timestamp."""


class PartitionDocument(msgspec.Struct, frozen=True):
    """A partition, and a position in it if one was asked for."""

    topic: str
    partition: int
    start: int
    end: int
    stable: int
    bytes: int
    position: Position | None


def kind_of(topic: Topic) -> Literal["stream", "queue", "table", "compacted"]:
    """What a topic is above all."""
    if topic.is_queue:
        return "queue"
    if topic.effective.get(TABLE) == "true":
        return "table"
    return "compacted" if topic.is_compacted else "stream"


def describe_config(topic: Topic) -> dict[str, ConfigFact]:
    """Every option, with what was set for the topic, or for all, or its default."""
    facts = {name: ConfigFact(option.default, "default") for name, option in OPTIONS.items()}
    facts |= {name: ConfigFact(value, "broker") for name, value in topic.effective.items()}
    return facts | {name: ConfigFact(value, "topic") for name, value in topic.configs.items()}


def config_changes(given: Mapping[str, Any]) -> dict[str, str | None]:
    """What is to be set or, where it is null, to go back to its default. Raises as `config_texts` does."""
    texts = config_texts({key: value for key, value in given.items() if value is not None})
    for key in given.keys() - texts.keys():
        if key not in OPTIONS:
            raise InvalidConfig(f"{key} is not a topic configuration that is kept here", key)
    return {key: texts.get(key) for key in given}


def config_texts(given: Mapping[str, Any]) -> dict[str, str]:
    """Values as configurations are written. Raises InvalidContent, InvalidConfig: with the key."""
    texts: dict[str, str] = {}
    for key, value in given.items():
        texts[key] = _text(key, value)
        try:
            check_topic_option(key, texts[key])
        except InvalidTopicConfig as error:
            raise InvalidConfig(str(error), key) from None
    return texts


def _text(key: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    raise InvalidContent("a configuration is a text, a number, true or false", f"/config/{escape_pointer(key)}")
