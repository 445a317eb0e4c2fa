"""Consumers of a topic as they are asked for and shown."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.protocols.http.mapping.documents import PAGE_ITEMS_DEFAULT, Limit

Kind: TypeAlias = Literal["group", "share-group", "queue", "subscription"]
Trend: TypeAlias = Literal["growing", "shrinking", "steady", "unknown"]


class ConsumersQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which consumers, and in which order."""

    namespace: str = DEFAULT_NAMESPACE
    search: Annotated[str, msgspec.Meta(description="Only names that contain this text.")] = ""
    kind: Kind | None = None
    sort: Literal["name", "messages", "seconds"] = "messages"
    after: Annotated[int, msgspec.Meta(ge=0, le=1_000_000, description="Leave out this many.")] = 0
    limit: Limit = PAGE_ITEMS_DEFAULT


class ConsumerDocument(msgspec.Struct, frozen=True):
    """One that reads a topic and remembers how far: a group, a share group, a queue or a subscription."""

    kind: Kind
    name: str
    topic: str
    namespace: str
    members: int
    """Who reads at present: members of a group, consumers of a queue or subscription."""
    queries: list[str]
    """Queries of Spark that hold messages of it."""
    lag_messages: int | None
    """Null: a subscription that nobody has used since the start of the broker."""
    lag_seconds: float | None
    trend: Trend
    """Of the lag, over the last five minutes."""
    lag_change_per_second: float | None
    """By how many messages the lag grows."""
    stuck_since_ms: int | None
    """It has lag and has not moved since."""
    retention_overtakes_in_ms: int | None
    """When retention begins to delete what it has not read, should all go on like this; null: not in sight."""
    overtaken_messages: int
    """Deleted by retention before it read them."""
    history: list[tuple[int, int]]
    """Times in ms, and the lag in messages then."""


class AllConsumersQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which consumers of all topics, and in which order."""

    namespace: Annotated[str | None, msgspec.Meta(description="Only of topics there.")] = None
    search: Annotated[str, msgspec.Meta(description="Only names, or names of topics, that contain this text.")] = ""
    kind: Kind | None = None
    sort: Literal["name", "messages", "seconds"] = "seconds"
    after: Annotated[int, msgspec.Meta(ge=0, le=1_000_000, description="Leave out this many.")] = 0
    limit: Limit = PAGE_ITEMS_DEFAULT


class AllConsumersPage(msgspec.Struct, frozen=True):
    """Some of the consumers of all topics."""

    consumers: list[ConsumerDocument]
    next: str | None
    as_of_ms: int
    """When it was looked: where there are many, up to 15 seconds ago."""
    complete: bool
    """Whether all were looked at; at most 10,000 partitions are."""


class ConsumerPage(msgspec.Struct, frozen=True):
    """Some of the consumers of a topic."""

    topic: str
    consumers: list[ConsumerDocument]
    next: str | None
