"""What is asked for and answered about the broker as a whole: the values, and by them the schemas."""

from __future__ import annotations

from typing import Annotated

import msgspec

"""There is one."""
PAGE_ITEMS_MAX = 1_000
PAGE_ITEMS_DEFAULT = 100

Limit = Annotated[int, msgspec.Meta(ge=1, le=PAGE_ITEMS_MAX, description="Most items in one answer.")]
After = Annotated[str, msgspec.Meta(description="Go on behind this item: the last one of the answer before.")]


class Health(msgspec.Struct, frozen=True):
    """The process is alive."""

    status: str
    version: str


class Readiness(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether clients are served: `ready`, or why not."""

    status: str
    advertised: dict[str, list[str]] | None = None
    """The addresses clients are told, by listener."""


class Index(msgspec.Struct, frozen=True):
    """What there is to be read."""

    name: str
    version: str
    links: dict[str, str]


class ListenerFacts(msgspec.Struct, frozen=True):
    """One listening socket."""

    name: str
    address: str
    connections: int
    received_bytes: int
    sent_bytes: int


class NodeDocument(msgspec.Struct, frozen=True):
    """This broker."""

    version: str
    node_id: int
    cluster_id: str
    condition: str
    topics: int
    groups: int
    listeners: list[ListenerFacts]
    advertised: dict[str, list[str]]
    storage: dict[str, float]
    """Measurements of the storage engine, by name."""


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing can be said in the query."""


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of a list."""

    after: After = ""
    limit: Limit = PAGE_ITEMS_DEFAULT
