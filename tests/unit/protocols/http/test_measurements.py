"""/metrics: what is measured, its text, its bounds."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from mainstem.protocols.http.codec.exposition import encode_family
from mainstem.protocols.http.handlers.operation import measurements
from mainstem.protocols.http.handlers.operation.loop_delay import INTERVAL_S, WINDOW_S, LoopDelay
from mainstem.protocols.http.handlers.pace import SLICE_S, Pace
from mainstem.testing.clock import SimulatedClock
from tests.support.clients.http_client import NOW_MS, Client, with_client
from tests.unit.protocols.http.measured import behind, samples


@with_client
async def test_topics_groups_and_the_loop_are_measured(client: Client) -> None:
    await client.create("a", 2)
    await client.publish("a", NOW_MS - 4_000, NOW_MS)
    await client.publish("a", NOW_MS - 2_000, partition=1)
    await behind(client, 'g"1', "a", 2)
    found = await samples(client)
    assert found["metric", ()] == 1.0, "what the server measures"
    assert found["mainstem_topics", ()] == 1
    assert found["mainstem_partitions", ()] == 2
    assert found["mainstem_stored_bytes", ()] > 100
    assert found["mainstem_groups", ()] == 1
    assert found["mainstem_groups_left_out", ()] == 0
    assert found["mainstem_group_members", ('g"1',)] == 0
    assert found["mainstem_group_lag_messages", ('g"1', "a")] == 3
    assert found["mainstem_group_lag_seconds", ('g"1', "a")] == 4.0
    assert ("mainstem_loop_delay_seconds_max", ()) in found
    assert ("mainstem_loop_delay_seconds_recent", ()) in found


@pytest.mark.parametrize(("limit", "value"), [("GROUP_SERIES_MAX", 2), ("GROUP_PARTITIONS_MAX", 4)])
def test_what_is_over_the_limit_is_left_out_and_counted(
    limit: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurements, limit, value)

    @with_client
    async def run(client: Client) -> None:
        await client.create("a", 2)
        for number in range(5):
            await behind(client, f"g{number}", "a", 2)
        found = await samples(client)
        assert found["mainstem_groups", ()] == 5
        assert found["mainstem_groups_left_out", ()] == 3
        assert len([name for name, _ in found if name == "mainstem_group_lag_messages"]) == 2

    run()


@with_client
async def test_who_asks_in_the_meantime_gets_the_same(client: Client) -> None:
    gathered = 0
    measure = measurements.MeasurementHandlers._topics

    async def count(self: measurements.MeasurementHandlers, pace: Pace) -> object:
        nonlocal gathered
        gathered += 1
        await asyncio.sleep(0)
        async for family in measure(self, pace):
            yield family

    handler = next(route.handler for route in client.routes if route.path == "/metrics")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measurements.MeasurementHandlers, "_topics", count)
        one, two = await asyncio.gather(handler(None), handler(None))
        assert (gathered, one.body) == (1, two.body)
        await handler(None)
        assert gathered == 2


def test_the_text_is_what_the_library_would_write() -> None:
    gauge = GaugeMetricFamily("a_gauge", "Back\\slash\nand line", labels=["b", "a"])
    gauge.add_metric(['quo"te', "new\nline \\"], 1.5)
    gauge.add_metric(["x", "y"], float("inf"))
    gauge.add_metric(["x", "z"], float("nan"))
    counter = CounterMetricFamily("a_counter", "Counts", value=3)
    empty = GaugeMetricFamily("empty", "Nothing yet", labels=["a"])
    families: list[Metric] = [gauge, counter, empty]

    class Fixed(CollectorRegistry):
        def collect(self) -> list[Metric]:
            return families

    assert "".join(line for family in families for line in encode_family(family)) == generate_latest(Fixed()).decode()


# Time


def test_long_work_gives_way_every_slice() -> None:
    clock = SimulatedClock()
    turns = []

    async def give_way() -> None:
        turns.append(clock.monotonic())

    async def work() -> None:
        pace = Pace(clock, give_way)
        for _ in range(100):
            clock.advance(0.5)
            await pace.step()

    asyncio.run(work())
    assert all(later - earlier < SLICE_S + 0.001 for earlier, later in zip([0.0, *turns], turns, strict=False))
    assert turns[-1] > 0.045, "to the end"


class ManualClock(SimulatedClock):
    """Calls what is due when told to."""

    __slots__ = ("due",)

    def call_later(self, seconds: float, function: object) -> None:
        self.due = (seconds, function)

    def run(self, late_s: float) -> None:
        seconds, function = self.due
        self.advance((seconds + late_s) * 1000)
        function()


def test_delay_of_the_loop_is_kept_and_forgotten() -> None:
    clock = ManualClock()
    delay = LoopDelay(clock)
    clock.run(late_s=0.25)
    assert (delay.max_s, delay.recent_s) == (pytest.approx(0.25), pytest.approx(0.25))
    for _ in range(int(2 * WINDOW_S / INTERVAL_S) + 2):
        clock.run(late_s=0)
    assert delay.max_s == pytest.approx(0.25)
    assert delay.recent_s == pytest.approx(0, abs=1e-6)


@with_client
async def test_wrong_passwords_are_counted(client: Client) -> None:
    logins = client.broker.logins
    for _ in range(12):
        logins.prove("amqp", "bob", "10.0.0.1", lambda: False, lambda is_right: None)
    found = await samples(client)
    assert found["mainstem_login_failures_total", ("amqp",)] == 10
    assert found["mainstem_login_delayed_total", ("amqp",)] == 2
    assert found["mainstem_logins_waiting", ()] == 2
