"""Acquisitions as they are asked for and shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from mainstem.broker.acquisitions import Acquire, Acquisition, Ruled, Source
from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE, Topics
from mainstem.protocols.http.errors import InvalidContent
from mainstem.protocols.http.mapping.documents import PAGE_ITEMS_DEFAULT, Limit

OFFSETS_MAX = 100_000
REASON_CHARACTERS_MAX = 1_000
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
LeaseMs = Annotated[int, msgspec.Meta(ge=1_000, le=86_400_000)]
DelayMs = Annotated[int, msgspec.Meta(ge=0, le=365 * 86_400_000)]
Records = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_CHARACTERS_MAX)]
Offsets = Annotated[list[Number], msgspec.Meta(max_length=OFFSETS_MAX)]


# Asked


class AcquisitionPath(msgspec.Struct, frozen=True):
    """Which acquisition."""

    id: str


class AcquisitionsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which of them."""

    subscription: str = ""
    """Of this queue or subscription alone."""
    limit: Limit = PAGE_ITEMS_DEFAULT


class HeldLogPath(msgspec.Struct, frozen=True):
    """Which log of an acquisition."""

    id: str
    log: Number


class BatchesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From where on."""

    offset: Number = 0


class SourceWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A queue; or, with topics, a subscription that reads them."""

    subscription: Name
    topics: Annotated[list[Name], msgspec.Meta(max_length=1_000)] = []
    namespace: Name = DEFAULT_NAMESPACE
    """Of the queue."""


class AcquireWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be acquired."""

    subscription: Name
    topics: Annotated[list[Name], msgspec.Meta(max_length=1_000)] = []
    namespace: Name = DEFAULT_NAMESPACE
    records_max: Records = 10_000
    lease_ms: LeaseMs = 60_000
    """After so long it expires, unless it is pinned."""
    after: str = ""
    """The acquisition that is done with: it is settled, if it is not yet, and forgotten."""
    until: dict[Number, Number] | None = None
    """By log, the offset below which records are wanted; see `ends`."""
    starting: Literal["earliest", "latest"] | None = None
    """Where a topic is begun that the subscription has not read; without it, as `share.auto.offset.reset` says."""


class ReadingWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The batch in which an acquisition is read."""

    query: Name
    batch: Number


class VerdictWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to become of some records of one log, other than to be accepted."""

    acquisition: Name
    log: Number
    offsets: Offsets
    verdict: Literal["retry", "reject"]
    delay_ms: DelayMs = 0
    reason: Reason = ""


class VerdictsWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In place of what the same one said before."""

    verdicts: list[VerdictWish]
    who: Annotated[str, msgspec.Meta(max_length=255)] = ""


# Shown


class AcquisitionFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """An acquisition."""

    id: str
    subscription: str
    condition: Literal["leased", "pinned", "settled", "released", "resting"]
    records: int
    opened_ms: int
    due_ms: int
    """When a leased one expires; when an ended one ended."""
    namespace: str | None = None
    """Of a queue."""
    queries: list[str] = []


class AcquisitionList(msgspec.Struct, frozen=True):
    """The oldest first."""

    count: int
    acquisitions: list[AcquisitionFacts]


class Acquired(msgspec.Struct, frozen=True):
    """What was acquired, or nothing."""

    acquisition: AcquisitionFacts | None


class Ends(msgspec.Struct, frozen=True):
    """By log."""

    ends: dict[int, int]


class HeldLog(msgspec.Struct, frozen=True):
    """What is held of one log."""

    log: int
    topic: str | None
    """None: clients of Kafka do not see it; its batches are read here."""
    partition: int
    stretches: list[list[int]]
    """First and last offset, and the delivery number."""


class Holding(msgspec.Struct, frozen=True):
    """An acquisition with what it holds."""

    acquisition: AcquisitionFacts
    held: list[HeldLog]


def source_of(wish: SourceWish | AcquireWish) -> Source:
    """Topics are read by a subscription, which is of no namespace."""
    return Source(wish.subscription, None if wish.topics else wish.namespace)


def acquire_of(wish: AcquireWish) -> Acquire:
    """As the broker takes it."""
    return Acquire(source_of(wish), wish.records_max, wish.lease_ms, wish.topics, wish.after, wish.until, wish.starting)


def verdicts_of(wishes: Iterable[VerdictWish]) -> dict[str, list[Ruled]]:
    """By acquisition."""
    found: dict[str, list[Ruled]] = {}
    for wish in wishes:
        ruled = Ruled(wish.log, wish.offsets, wish.verdict, wish.delay_ms, wish.reason)
        found.setdefault(wish.acquisition, []).append(ruled)
    return found


def verdicts_on(name: str, wishes: Iterable[VerdictWish]) -> list[Ruled]:
    """All of one acquisition. Raises InvalidContent."""
    found = verdicts_of(wishes)
    if found.keys() - {name}:
        raise InvalidContent("a verdict is on another acquisition", "/verdicts")
    return found.get(name, [])


def describe_acquisition(one: Acquisition) -> AcquisitionFacts:
    """As it is shown."""
    return AcquisitionFacts(
        id=one.id,
        subscription=one.source.name,
        condition=one.condition.name.lower(),  # type: ignore[arg-type]
        records=one.records,
        opened_ms=one.opened_ms,
        due_ms=one.due_ms,
        namespace=one.source.namespace,
        queries=sorted({reading.query for reading in one.readings}),
    )


def describe_holding(one: Acquisition, topics: Topics) -> Holding:
    """With where its records are."""
    held: list[HeldLog] = []
    for log, stretches in one.stretches.items():
        origin = topics.origin(log)
        is_seen = origin is not None and topics.named().get(origin[0].name) is origin[0]
        topic, partition = (origin[0].name, origin[1]) if origin is not None and is_seen else (None, 0)
        held.append(HeldLog(log, topic, partition, [list(stretch) for stretch in stretches]))
    return Holding(describe_acquisition(one), held)
