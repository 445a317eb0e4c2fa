"""Deployed pipelines: kept over restarts, run by one worker at a time."""

import asyncio

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.errors import BuiltInPipeline, DeploymentError, StaleLease, UnknownPipeline
from mainstem.broker.pipelines.foreground_runs import RUNS_MAX, SILENCE_S
from mainstem.broker.pipelines.pipelines import LEASE_S, Holder, Orders, Pipelines, SinkReport, WorkerReport, built_in
from mainstem.storage.local.runtime import local_runtime
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.worlds.brokers import with_broker, with_engine

A, B = Holder("a", "1"), Holder("b", "1")


class HandClock:
    """Time goes on when it is told to."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def call_soon(self, function: object) -> None:
        raise NotImplementedError

    def call_later(self, seconds: float, function: object) -> None:
        raise NotImplementedError


def opened(engine: MemoryEngine, clock: HandClock) -> Pipelines:
    return Pipelines(engine, clock)  # type: ignore[arg-type]


def names(orders: Orders) -> list[str]:
    return [order.name for order in orders.assignments]


def running(orders: Orders, condition: str = "running") -> list[WorkerReport]:
    return [
        WorkerReport(order.name, order.epoch, order.definition.revision, condition)  # type: ignore[arg-type]
        for order in orders.assignments
    ]


@with_engine
async def test_deployed_shown_and_removed(engine: MemoryEngine) -> None:
    clock = HandClock()
    pipelines = opened(engine, clock)
    assert await pipelines.deploy("p", "p.yml", "text", {"f.py": "code"})
    assert not await pipelines.deploy("p", "p.yml", "other", {})
    again = opened(engine, clock)
    await again.load()
    found = again.get("p")
    assert (found.revision, found.text, found.file, found.files) == (2, "other", "p.yml", {})
    assert again.state("p") == "waiting"
    identity = found.identity
    await again.remove("p")
    with pytest.raises(UnknownPipeline):
        again.get("p")
    with pytest.raises(UnknownPipeline):
        await again.wish("p", "paused")
    await again.deploy("p", "p.yml", "text", {})
    # another one of the same name: its worker begins anew
    assert again.get("p").identity != identity


@with_engine
async def test_what_cannot_be_deployed(engine: MemoryEngine) -> None:
    pipelines = opened(engine, HandClock())
    for name, files in [
        ("", {}), ("../p", {}), (".p", {}), ("p" * 201, {}), ("p", {"../f.py": ""}), ("p", {"/f.py": ""}),
        ("p", {"a/../../f": ""}), ("p", {"f.py": "x" * 800_000}), ("p", {str(n): "" for n in range(101)}),
    ]:  # fmt: skip
        with pytest.raises(DeploymentError):
            await pipelines.deploy(name, "p.yml", "text", files)
    assert pipelines.all() == {}


@with_engine
async def test_one_worker_at_a_time(engine: MemoryEngine) -> None:
    clock = HandClock()
    pipelines = opened(engine, clock)
    for name in ("p", "q", "r"):
        await pipelines.deploy(name, "p.yml", "text", {})
    first = await pipelines.beat(A, 2, [])
    assert names(first) == ["p", "q"]
    assert names(await pipelines.beat(B, 2, [])) == ["r"]
    epoch = first.assignments[0].epoch
    clock.seconds += LEASE_S - 1
    assert names(await pipelines.beat(A, 0, running(first))) == ["p", "q"]
    clock.seconds += 2
    # b was silent for too long, a was not
    assert names(await pipelines.beat(A, 1, running(first))) == ["p", "q", "r"]
    assert names(await pipelines.beat(B, 5, [])) == []
    clock.seconds += LEASE_S + 1
    taken = await pipelines.beat(B, 5, [])
    assert names(taken) == ["p", "q", "r"]
    assert min(order.epoch for order in taken.assignments) > epoch
    # what the first worker and its driver say now counts for nothing
    assert names(await pipelines.beat(A, 5, running(first, "finished"))) == []
    assert pipelines.state("p") == "starting"
    with pytest.raises(StaleLease):
        pipelines.progress("p", epoch, "run", [], {})
    assert pipelines.progress("p", taken.assignments[0].epoch, "run", [], {}) == LEASE_S


@with_engine
async def test_leases_outlive_the_broker_and_workers_come_back(engine: MemoryEngine) -> None:
    clock = HandClock()
    pipelines = opened(engine, clock)
    await pipelines.deploy("p", "p.yml", "text", {})
    orders = await pipelines.beat(A, 5, [])
    clock.seconds += LEASE_S * 10
    pipelines = opened(engine, clock)
    await pipelines.load()
    # nobody knows for how long the broker was away: the holder has its full time
    assert names(await pipelines.beat(B, 5, [])) == []
    assert (await pipelines.beat(A, 5, [])).assignments[0].epoch == orders.assignments[0].epoch
    # the same worker in another life gets it at once, under another epoch: its old drivers must end
    reborn = await pipelines.beat(Holder("a", "2"), 5, [])
    assert reborn.assignments[0].epoch > orders.assignments[0].epoch
    with pytest.raises(StaleLease):
        pipelines.progress("p", orders.assignments[0].epoch, "run", [], {})


@with_engine
async def test_paused_resumed_stopped_and_given_back(engine: MemoryEngine) -> None:
    pipelines = opened(engine, HandClock())
    await pipelines.deploy("p", "p.yml", "text", {})
    orders = await pipelines.beat(A, 5, [])
    await pipelines.beat(A, 5, running(orders))
    assert pipelines.state("p") == "running"
    await pipelines.wish("p", "paused")
    assert pipelines.state("p") == "stopping"
    assert names(await pipelines.beat(A, 5, running(orders, "stopping"))) == []
    assert pipelines.state("p") == "stopping"
    await pipelines.beat(A, 5, [])
    assert pipelines.state("p") == "paused"
    await pipelines.deploy("p", "p.yml", "new", {})
    assert pipelines.state("p") == "paused"
    await pipelines.wish("p", "running")
    orders = await pipelines.beat(A, 5, [])
    assert names(orders) == ["p"]
    # a worker that leaves gives back what it has ended
    await pipelines.beat(A, 5, running(orders), is_leaving=True)
    assert names(await pipelines.beat(B, 5, [])) == []
    await pipelines.beat(A, 5, [], is_leaving=True)
    assert names(await pipelines.beat(B, 5, [])) == ["p"]
    await pipelines.remove("p")
    assert (await pipelines.beat(B, 5, running(orders))).removed == ["p"]


@with_engine
async def test_what_has_finished_is_not_run_again(engine: MemoryEngine) -> None:
    clock = HandClock()
    pipelines = opened(engine, clock)
    await pipelines.deploy("p", "p.yml", "text", {})
    orders = await pipelines.beat(A, 5, [])
    assert names(await pipelines.beat(A, 5, running(orders, "finished"))) == []
    pipelines = opened(engine, clock)
    await pipelines.load()
    assert pipelines.state("p") == "finished"
    assert names(await pipelines.beat(A, 5, [])) == []
    await pipelines.wish("p", "running")
    orders = await pipelines.beat(A, 5, [])
    await pipelines.deploy("p", "p.yml", "new", {})
    # that was the revision before
    assert names(await pipelines.beat(A, 5, running(orders, "finished"))) == ["p"]


@with_engine
async def test_reports_go_on_over_restarts_of_the_driver(engine: MemoryEngine) -> None:
    pipelines = opened(engine, HandClock())
    await pipelines.deploy("p", "p.yml", "text", {})
    orders = await pipelines.beat(A, 5, [])
    epoch = orders.assignments[0].epoch
    for run, rows in (("one", 5), ("one", 7), ("two", 1), ("two", 4)):
        pipelines.progress("p", epoch, run, [SinkReport("out", rows_in=rows, rows_out=rows * 2)], {"rule": rows})
    report = pipelines.report("p")
    assert (report.sinks["out"].rows_in, report.sinks["out"].rows_out, report.broken) == (11, 22, {"rule": 11})
    told = running(orders)[0]._replace(condition="failed", error="because", restarts=3, log_position=0, log="lines\n")
    again = await pipelines.beat(A, 5, [told])
    assert again.assignments[0].log_end == 6
    await pipelines.beat(A, 5, [told._replace(log_position=3, log="es\nmore\n")])
    assert (report.condition, report.error, report.restarts) == ("failed", "because", 3)
    assert report.log.after(0) == (0, "lines\nmore\n")
    assert report.log.after(6) == (6, "more\n")
    await pipelines.beat(A, 5, [told._replace(log_position=11, log="x" * 70_000)])
    assert len(report.log.text) == 65_536


@with_engine
async def test_pipelines_of_the_broker_itself(engine: MemoryEngine) -> None:
    pipelines = opened(engine, HandClock())
    brought = {"mainstem.tables": built_in("tables", "tables", "table")}
    pipelines.origins.append(brought.items)
    assert pipelines.all() == {}
    assert list(pipelines.all(with_built_in=True)) == ["mainstem.tables"]
    with pytest.raises(BuiltInPipeline):
        await pipelines.remove("mainstem.tables")
    with pytest.raises(BuiltInPipeline):
        await pipelines.deploy("mainstem.tables", "p.yml", "text", {})
    orders = await pipelines.beat(A, 5, [])
    assert names(orders) == ["mainstem.tables"]
    await pipelines.wish("mainstem.tables", "paused")
    assert names(await pipelines.beat(A, 5, [])) == []
    brought.clear()
    assert (await pipelines.beat(A, 5, running(orders))).removed == ["mainstem.tables"]


@with_engine
async def test_runs_in_the_foreground_are_known_while_they_report(engine: MemoryEngine) -> None:
    clock = HandClock()
    pipelines = opened(engine, clock)
    for rows in (3, 5):
        assert pipelines.progress("p", 0, "run", [SinkReport("out", rows_out=rows)], {}) == LEASE_S
    assert pipelines.foreground.all()["p"].sinks["out"].rows_out == 5
    assert pipelines.all(with_built_in=True) == {}
    assert names(await pipelines.beat(A, 5, [])) == []
    clock.seconds += SILENCE_S + 1
    assert pipelines.foreground.all() == {}
    for number in range(RUNS_MAX):
        pipelines.progress(f"p{number}", 0, "run", [], {})
    with pytest.raises(DeploymentError, match="are shown already"):
        pipelines.progress("one more", 0, "run", [], {})
    # the name of a deployed one is the deployed one's
    await pipelines.deploy("p", "p.yml", "text", {})
    with pytest.raises(StaleLease):
        pipelines.progress("p", 0, "run", [], {})


@with_broker
async def test_one_pipeline_for_all_topics_that_are_tables(broker: Broker) -> None:
    def listed() -> list[str]:
        return list(broker.pipelines.all(with_built_in=True))

    await broker.topics.create([NewTopic("plain", 1, {}), NewTopic("kept", 1, {"table": "true"})])
    assert listed() == ["mainstem.tables"]
    assert [topic.name for topic in broker.topics.tables()] == ["kept"]
    await broker.topics.configure("kept", lambda configs: {**configs, "table": "false"})
    assert listed() == []
    await broker.topics.configure("kept", lambda configs: {**configs, "table": "true"})
    assert listed() == ["mainstem.tables"]
    await broker.topics.delete(broker.topics.get("kept"))
    assert listed() == []


class Leases(RuleBasedStateMachine):
    """Whatever workers and the broker do, a pipeline has one driver that is allowed to report."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.runtime = local_runtime(self.loop)
        self.clock = HandClock()
        self.engine = MemoryEngine(self.runtime)
        self.pipelines = opened(self.engine, self.clock)
        self.loop.run_until_complete(self.pipelines.deploy("p", "p.yml", "text", {}))
        self.epochs: dict[str, int] = {}
        """By worker, under which it believes that it runs."""
        self.until: dict[str, float] = {}
        self.lives = dict.fromkeys("abc", 1)

    def teardown(self) -> None:
        self.runtime.close()
        self.loop.close()

    @rule(worker=st.sampled_from("abc"))
    def beat(self, worker: str) -> None:
        told = [WorkerReport("p", self.epochs[worker], 1, "running")] if worker in self.epochs else []
        holder = Holder(worker, str(self.lives[worker]))
        orders = self.loop.run_until_complete(self.pipelines.beat(holder, 1, told))
        if orders.assignments:
            epoch = orders.assignments[0].epoch
            assert all(epoch > other for name, other in self.epochs.items() if name != worker)
            self.epochs[worker] = epoch
            self.until[worker] = self.clock.seconds + LEASE_S
        else:
            self.epochs.pop(worker, None)

    @rule(worker=st.sampled_from("abc"))
    def worker_is_killed(self, worker: str) -> None:
        self.lives[worker] += 1
        self.epochs.pop(worker, None)

    @rule(seconds=st.floats(0, LEASE_S * 1.5))
    def time_passes(self, seconds: float) -> None:
        self.clock.seconds += seconds
        for worker in list(self.epochs):
            if self.clock.seconds >= self.until[worker]:
                del self.epochs[worker]  # it ends its drivers

    @rule()
    def broker_is_killed(self) -> None:
        self.pipelines = opened(self.engine, self.clock)
        self.loop.run_until_complete(self.pipelines.load())

    @rule(wanted=st.sampled_from(["running", "paused", "stopped"]))
    def wish(self, wanted: str) -> None:
        self.loop.run_until_complete(self.pipelines.wish("p", wanted))  # type: ignore[arg-type]

    @invariant()
    def at_most_one_runs(self) -> None:
        assert len(self.epochs) <= 1


TestLeases = Leases.TestCase
TestLeases.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)
