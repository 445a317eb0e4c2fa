"""Pipelines: deployed, shown, paused and removed by people; run and reported on by workers."""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.broker.pipelines.pipelines import LEASE_S, Holder
from mainstem.protocols.http import errors
from mainstem.protocols.http.codec import Response, encode_json
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.pages import Page, path_of, smallest
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.documents import NoQuery
from mainstem.protocols.http.mapping.pipeline_documents import (
    LogQuery,
    PipelineDocument,
    PipelineFacts,
    PipelineListQuery,
    PipelineLog,
    PipelinePage,
    PipelinePath,
    PipelineWish,
    RunPermission,
    RunProgress,
    WorkerBeat,
    WorkerOrders,
    WorkerPath,
    describe_facts,
    describe_order,
    describe_pipeline,
    to_report,
)

OK, CREATED, NO_CONTENT = 200, 201, 204
PIPELINES = "/v1/pipelines"
PIPELINE = "/v1/pipelines/{name}"
WORKER = "/v1/workers/{worker}/beat"
WRITES = (errors.StorageFull, errors.Overloaded, errors.Unavailable)


class PipelineHandlers:
    """/v1/pipelines, and what their workers say."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._pipelines = broker.pipelines

    def routes(self) -> list[Route]:
        """What is served here."""
        unknown = (errors.UnknownPipeline,)
        shown = {OK: PipelineFacts}
        return [
            Route("GET", PIPELINES, self.list_pipelines, {OK: PipelinePage}, query=PipelineListQuery),
            Route("GET", PIPELINE, self.get_pipeline, {OK: PipelineDocument}, steps=PipelinePath, query=NoQuery,
                  refusals=unknown),
            Route("PUT", PIPELINE, self.deploy_pipeline, {OK: PipelineDocument, CREATED: PipelineDocument},
                  steps=PipelinePath, query=NoQuery, content=PipelineWish,
                  refusals=(errors.InvalidPipeline, errors.BuiltInPipeline, *WRITES)),
            Route("DELETE", PIPELINE, self.remove_pipeline, {NO_CONTENT: None}, steps=PipelinePath, query=NoQuery,
                  refusals=(*unknown, errors.BuiltInPipeline, *WRITES)),
            Route("GET", f"{PIPELINE}/log", self.get_pipeline_log, {OK: PipelineLog}, steps=PipelinePath, query=LogQuery,
                  refusals=unknown),
            Route("POST", f"{PIPELINE}/pause", self.pause_pipeline, shown, steps=PipelinePath, query=NoQuery,
                  refusals=(*unknown, *WRITES)),
            Route("POST", f"{PIPELINE}/resume", self.resume_pipeline, shown, steps=PipelinePath, query=NoQuery,
                  refusals=(*unknown, *WRITES)),
            Route("POST", f"{PIPELINE}/stop", self.stop_pipeline, shown, steps=PipelinePath, query=NoQuery,
                  refusals=(*unknown, *WRITES)),
            Route("POST", f"{PIPELINE}/progress", self.report_progress, {OK: RunPermission}, steps=PipelinePath,
                  query=NoQuery, content=RunProgress,
                  refusals=(*unknown, errors.StaleLease, errors.InvalidPipeline)),
            Route("POST", WORKER, self.beat, {OK: WorkerOrders}, steps=WorkerPath, query=NoQuery, content=WorkerBeat,
                  refusals=WRITES),
        ]  # fmt: skip

    async def list_pipelines(self, call: Call) -> PipelinePage:
        """Pipelines by name, and how they are getting on."""
        query: PipelineListQuery = call.query
        known = self._pipelines.all(with_built_in=query.all)
        names, more = await smallest(known, query.after, query.limit, Pace(self._broker.clock))
        following = Page(PIPELINES, query.limit).after(names[-1]) if more else None
        if following is not None and query.all:
            following += "&all=true"
        present = self._pipelines.all(with_built_in=query.all)
        return PipelinePage([describe_facts(self._pipelines, name) for name in names if name in present], following)

    def get_pipeline(self, call: Call) -> PipelineDocument:
        """A pipeline with its definition."""
        return describe_pipeline(self._pipelines, call.path.name)

    async def deploy_pipeline(self, call: Call) -> Response:
        """Keep a pipeline running; takes the place of one of this name, which goes on where that one was."""
        wish: PipelineWish = call.content
        name = call.path.name
        is_new = await self._pipelines.deploy(name, wish.file, wish.definition, wish.files)
        document = describe_pipeline(self._pipelines, name)
        return encode_json(CREATED if is_new else OK, document, (("location", path_of("v1", "pipelines", name)),))

    async def remove_pipeline(self, call: Call) -> None:
        """End a pipeline and forget it, with what its worker keeps of it."""
        await self._pipelines.remove(call.path.name)

    def get_pipeline_log(self, call: Call) -> PipelineLog:
        """The newest of what a pipeline has written."""
        self._pipelines.get(call.path.name)
        log = self._pipelines.report(call.path.name).log
        begin, text = log.after(call.query.after)
        return PipelineLog(begin, log.end, text)

    async def pause_pipeline(self, call: Call) -> PipelineFacts:
        """End its driver for now; a new revision stays paused."""
        await self._pipelines.wish(call.path.name, "paused")
        return describe_facts(self._pipelines, call.path.name)

    async def resume_pipeline(self, call: Call) -> PipelineFacts:
        """Run it again, from where it was; one that has finished begins another run."""
        await self._pipelines.wish(call.path.name, "running")
        return describe_facts(self._pipelines, call.path.name)

    async def stop_pipeline(self, call: Call) -> PipelineFacts:
        """End its driver, until it is resumed or deployed again."""
        await self._pipelines.wish(call.path.name, "stopped")
        return describe_facts(self._pipelines, call.path.name)

    def report_progress(self, call: Call) -> RunPermission:
        """A driver tells how it is getting on, and is told for how long it may."""
        told: RunProgress = call.content
        seconds = self._pipelines.progress(call.path.name, told.epoch, told.run, told.sinks, told.broken)
        return RunPermission(round(seconds * 1000))

    async def beat(self, call: Call) -> WorkerOrders:
        """A worker tells what it runs, and is told what it is to run."""
        told: WorkerBeat = call.content
        holder = Holder(call.path.worker, told.incarnation)
        reports = [to_report(one) for one in told.pipelines]
        orders = await self._pipelines.beat(holder, told.room, reports, is_leaving=told.leaving)
        return WorkerOrders(round(LEASE_S * 1000), [describe_order(one) for one in orders.assignments], orders.removed)
