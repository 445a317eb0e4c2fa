"""Stages: what the tasks of a query have written is published by one call, or dropped by one."""

from __future__ import annotations

import heapq

from msgspec import Struct

from mainstem.broker.broker import Broker
from mainstem.broker.staging.stages import SinkKey, StageKey
from mainstem.protocols.http import errors
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.handlers.topics.topics import WRITES
from mainstem.protocols.http.mapping.acquisition_documents import verdicts_of
from mainstem.protocols.http.mapping.documents import PAGE_ITEMS_DEFAULT, Limit, NoQuery
from mainstem.protocols.http.mapping.stage_documents import (
    SinkFacts,
    StageAbort,
    StageCommit,
    StageFacts,
    StageList,
    StageOutcome,
    StagesDropped,
    stage_ends,
)

OK = 200
STAGES = "/v1/stages"


class LimitQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How many of each."""

    limit: Limit = PAGE_ITEMS_DEFAULT


class StageHandlers:
    """/v1/stages and below."""

    def __init__(self, broker: Broker) -> None:
        self._stages = broker.stages

    def routes(self) -> list[Route]:
        """What is served here."""
        commit = (
            errors.InvalidStage,
            errors.UnknownStage,
            errors.UnknownTopic,
            errors.IncompleteStage,
            errors.StaleBatch,
            errors.RefusedBatch,
            errors.TooMuchScheduled,
            errors.AcquisitionReleased,
            errors.InvalidVerdict,
            *WRITES,
        )
        return [
            Route("GET", STAGES, self.list_stages, {OK: StageList}, query=LimitQuery),
            Route("POST", f"{STAGES}/commit", self.commit_stages, {OK: StageOutcome},
                  query=NoQuery, content=StageCommit, refusals=commit),
            Route("POST", f"{STAGES}/abort", self.abort_stages, {OK: StagesDropped},
                  query=NoQuery, content=StageAbort, refusals=WRITES),
        ]  # fmt: skip

    def list_stages(self, call: Call) -> StageList:
        """Open stages, and the last batch of each sink."""
        limit = call.query.limit
        stages, sinks = self._stages.open(), self._stages.sinks()
        oldest = heapq.nsmallest(limit, stages, key=lambda stage: stage.log)
        latest = heapq.nlargest(limit, sinks.items(), key=lambda item: item[1].published_ms)
        return StageList(
            stage_count=len(stages),
            stages=[StageFacts(*stage.key, end=stage.next, opened_ms=stage.opened_ms) for stage in oldest],
            sink_count=len(sinks),
            sinks=[SinkFacts(*key, entry.batch, entry.published_ms) for key, entry in latest],
        )

    async def commit_stages(self, call: Call) -> StageOutcome:
        """Publish the stages of a batch together with its number, once."""
        asked: StageCommit = call.content
        sink, ends = stage_ends(asked)
        if len(ends) < len(asked.stages):
            raise errors.InvalidContent("a stage is listed twice", "/stages")
        if asked.verdicts and not asked.settles:
            raise errors.InvalidContent("verdicts are for a commit that settles", "/verdicts")
        verdicts = verdicts_of(asked.verdicts) if asked.settles else None
        published = await self._stages.publish(sink, asked.batch, ends, lasting=asked.lasting, verdicts=verdicts)
        return StageOutcome(not published.is_repeated, published.records, published.bytes)

    async def abort_stages(self, call: Call) -> StagesDropped:
        """Drop stages of a batch, or all of them. Those that are gone already are not missed."""
        asked: StageAbort = call.content
        if asked.stages is None:
            sink = SinkKey(asked.query, asked.sink)
            return StagesDropped(await self._stages.abort_batch(sink, asked.batch, is_final=asked.final))
        if asked.final:
            raise errors.InvalidContent("with a list of stages, others may follow", "/final")
        keys = [StageKey(asked.query, asked.sink, asked.batch, stage.task, stage.attempt) for stage in asked.stages]
        return StagesDropped(await self._stages.abort(keys))
