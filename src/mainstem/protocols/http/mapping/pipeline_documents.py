"""Pipelines as they are deployed, shown, and reported on by those who run them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mainstem.broker.pipelines.pipelines import Assignment, Condition, Pipelines, SinkReport, Wanted, WorkerReport
from mainstem.protocols.http.mapping.documents import PAGE_ITEMS_DEFAULT, After, Limit

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
WORKER_PIPELINES_MAX = 1_000
LOG_PART_MAX = 256 << 10


# Asked by people


class PipelinePath(msgspec.Struct, frozen=True):
    """Which pipeline."""

    name: str


class PipelineListQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which pipelines."""

    all: Annotated[bool, msgspec.Meta(description="The broker's own pipelines too.")] = False
    limit: Limit = PAGE_ITEMS_DEFAULT
    after: After | None = None


class LogQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From where on."""

    after: Annotated[int, msgspec.Meta(ge=0, description="The `end` of the answer before.")] = 0


class PipelineWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pipeline to be kept running."""

    definition: str
    """The text of its file."""
    file: Name = "pipeline.yml"
    """The name of that file: `.py` is Python, everything else YAML."""
    files: dict[str, str] = {}
    """Further files that the definition names, by their relative paths."""


# Asked by workers and drivers


class PipelineCondition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One pipeline that a worker runs."""

    name: Name
    epoch: Number
    revision: Number
    condition: Condition
    error: str = ""
    restarts: Number = 0
    log_position: Number = 0
    log: Annotated[str, msgspec.Meta(max_length=LOG_PART_MAX)] = ""


class WorkerBeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A worker lives, and runs these."""

    incarnation: Name
    room: Annotated[int, msgspec.Meta(ge=0, le=WORKER_PIPELINES_MAX)]
    """How many more it takes."""
    pipelines: Annotated[list[PipelineCondition], msgspec.Meta(max_length=WORKER_PIPELINES_MAX)] = []
    leaving: bool = False
    """Whether it ends: what it does not run any more is another's to take."""


class WorkerPath(msgspec.Struct, frozen=True):
    """Which worker."""

    worker: Name


class RunProgress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a driver has done since its start."""

    epoch: Number
    """Of the lease; 0: it runs in the foreground, under none."""
    run: Name
    """Another one for each start."""
    sinks: Annotated[list[SinkReport], msgspec.Meta(max_length=100)] = []
    broken: dict[str, int] = {}
    """Rows that broke a rule, by rule."""


# Shown


class PipelineFacts(msgspec.Struct, frozen=True):
    """A pipeline, and how it is getting on."""

    name: str
    origin: str
    """`deployed`, or what of the broker's it comes from."""
    state: str
    """waiting (for a worker), starting, running, failed, stopping, paused, stopped or finished."""
    wanted: Wanted
    revision: int
    deployed_ms: int
    error: str
    """The sentence with which it failed last, while it has not run well since."""
    restarts: int
    worker: str
    changed_ms: int
    progress_ms: int
    """When its driver last reported; 0: not since the broker's start."""
    sinks: list[SinkReport]
    broken: dict[str, int]


class PipelineDocument(PipelineFacts, frozen=True):
    """With its definition."""

    file: str
    definition: str
    files: dict[str, str]


class PipelinePage(msgspec.Struct, frozen=True):
    """Some of them."""

    pipelines: list[PipelineFacts]
    next: str | None


class PipelineLog(msgspec.Struct, frozen=True):
    """The newest of what it has written."""

    begin: int
    end: int
    text: str


class PipelineOrder(msgspec.Struct, frozen=True):
    """What a worker is to run."""

    name: str
    epoch: int
    identity: str
    revision: int
    file: str
    definition: str
    files: dict[str, str]
    log_end: int


class WorkerOrders(msgspec.Struct, frozen=True):
    """All that a worker is to run; what it runs beside it, it ends."""

    lease_ms: int
    pipelines: list[PipelineOrder]
    removed: list[str]


class RunPermission(msgspec.Struct, frozen=True):
    """For how long a driver may go on without another one."""

    lease_ms: int


def to_report(given: PipelineCondition) -> WorkerReport:
    """As the broker takes it."""
    return WorkerReport(
        given.name,
        given.epoch,
        given.revision,
        given.condition,
        given.error,
        given.restarts,
        given.log_position,
        given.log,
    )


def describe_order(given: Assignment) -> PipelineOrder:
    """As a worker takes it."""
    entry = given.definition
    return PipelineOrder(
        given.name,
        given.epoch,
        entry.identity,
        entry.revision,
        entry.file,
        entry.text,
        entry.files,
        given.log_end,
    )


def describe_facts(pipelines: Pipelines, name: str) -> PipelineFacts:
    """As people read it. Raises UnknownPipeline."""
    return PipelineFacts(**_facts(pipelines, name))  # type: ignore[arg-type]


def describe_pipeline(pipelines: Pipelines, name: str) -> PipelineDocument:
    """The same with all that was deployed. Raises UnknownPipeline."""
    entry = pipelines.get(name)
    facts = _facts(pipelines, name)
    return PipelineDocument(**facts, file=entry.file, definition=entry.text, files=entry.files)  # type: ignore[arg-type]


def _facts(pipelines: Pipelines, name: str) -> dict[str, object]:
    entry, stand, report = pipelines.get(name), pipelines.stand(name), pipelines.report(name)
    return {
        "name": name,
        "origin": entry.origin,
        "state": pipelines.state(name),
        "wanted": stand.wanted,
        "revision": entry.revision,
        "deployed_ms": entry.deployed_ms,
        "error": report.error,
        "restarts": report.restarts,
        "worker": stand.worker,
        "changed_ms": report.changed_ms or stand.finished_ms,
        "progress_ms": report.progress_ms,
        "sinks": list(report.sinks.values()),
        "broken": report.broken,
    }
