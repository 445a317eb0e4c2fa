"""Stages as they are asked for and shown."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mainstem.broker.staging.stages import SinkKey, StageKey
from mainstem.protocols.http.mapping.acquisition_documents import VerdictWish

Name = Annotated[str, msgspec.Meta(max_length=255)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


# Asked


class StageEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One stage of a batch: the attempt of a task that counts, and where it ends."""

    task: Number
    attempt: Name
    end: Number
    """One position for each record, and one for each record batch."""


class StageCommit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch whose stages are to be published."""

    query: Name
    batch: Number
    stages: list[StageEnd]
    sink: Name = ""
    lasting: bool = True
    """Whether other batches may follow; a single write is remembered only while it may be repeated."""
    settles: bool = False
    """Whether what the batch has acquired is settled by the same commit: accepted, but for the verdicts."""
    verdicts: list[VerdictWish] = []


class StageRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One stage of a batch."""

    task: Number
    attempt: Name


class StageAbort(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stages of a batch that are not needed."""

    query: Name
    batch: Number
    sink: Name = ""
    stages: list[StageRef] | None = None
    """Without them: all of the batch."""
    final: bool = False
    """Nothing more is to come from this query: what its tasks still send is refused. Only without a list."""


# Shown


class StageOutcome(msgspec.Struct, frozen=True):
    """What became of a batch."""

    published: bool
    """False: it had been published before, and what was staged this time is dropped."""
    records: int
    bytes: int


class StagesDropped(msgspec.Struct, frozen=True):
    """How many stages there were to be dropped."""

    dropped: int


class StageFacts(msgspec.Struct, frozen=True):
    """An open stage."""

    query: str
    sink: str
    batch: int
    task: int
    attempt: str
    end: int
    opened_ms: int


class SinkFacts(msgspec.Struct, frozen=True):
    """A sink, and the last batch that it has published."""

    query: str
    sink: str
    batch: int
    published_ms: int


class StageList(msgspec.Struct, frozen=True):
    """Open stages, the oldest first, and sinks, the latest first."""

    stage_count: int
    stages: list[StageFacts]
    sink_count: int
    sinks: list[SinkFacts]


def stage_ends(asked: StageCommit) -> tuple[SinkKey, dict[StageKey, int]]:
    """Whose batch it is, and where each of its stages ends."""
    ends = {StageKey(asked.query, asked.sink, asked.batch, s.task, s.attempt): s.end for s in asked.stages}
    return SinkKey(asked.query, asked.sink), ends
