"""Live numbers as they are asked for and shown."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mainstem.protocols.http.mapping.documents import Limit

Value = Annotated[float, msgspec.Meta(extra_json_schema={"type": ["number", "null"]})]
Series = dict[str, list[Value]]


class LiveQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is new, or a history."""

    after: Annotated[int, msgspec.Meta(ge=-1, le=2**53, description="`sequence` of the answer before.")] | None = None
    resolution: Annotated[Literal["second", "minute"], msgspec.Meta(description="15 minutes, or a day.")] = "second"
    topics: Annotated[Limit, msgspec.Meta(description="The busiest topics, at most this many.")] | None = None


class LiveDocument(msgspec.Struct, frozen=True):
    """Numbers of the broker, the newest last. null: there was no sample."""

    sequence: int
    """The number of the last sample."""
    time_ms: int
    """When that was taken."""
    interval_ms: int
    """From one value to the next."""
    series: Series
    """Traffic and requests in a second by protocol, connections, and the condition of the storage."""
    topics: Series
    """Records in a second, of the topics that are busiest."""
