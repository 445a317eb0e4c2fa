"""Pipelines, for /metrics: by pipeline, and by pipeline and sink; a bounded number of each."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from mainstem.broker.broker import Broker
from mainstem.broker.pipelines.pipelines import SinkReport

PIPELINE_SERIES_MAX = 1_000
"""Pipelines that are shown one by one, and sinks."""
STATES = ("waiting", "starting", "running", "failed", "stopping", "paused", "stopped", "finished")


def pipeline_families(broker: Broker) -> Iterator[Metric]:
    """All there is to be measured of them."""
    pipelines = broker.pipelines
    names = sorted(pipelines.all(with_built_in=True))
    states = GaugeMetricFamily("mainstem_pipelines", "Pipelines by their state", labels=["state"])
    counts = dict.fromkeys(STATES, 0)
    for name in names:
        counts[pipelines.state(name)] += 1
    for state, count in counts.items():
        states.add_metric([state], count)
    yield states
    restarts = CounterMetricFamily("mainstem_pipeline_restarts", "Starts after a failure", labels=["pipeline"])
    up = GaugeMetricFamily("mainstem_pipeline_running", "Whether it runs", labels=["pipeline"])
    sinks: list[tuple[str, SinkReport]] = []
    for name in names[:PIPELINE_SERIES_MAX]:
        report = pipelines.report(name)
        restarts.add_metric([name], report.restarts)
        up.add_metric([name], float(pipelines.state(name) == "running"))
        sinks += [(name, sink) for sink in report.sinks.values()]
    for name, report in sorted(pipelines.foreground.all().items()):
        up.add_metric([name], 1.0)
        sinks += [(name, sink) for sink in report.sinks.values()]
    yield restarts
    yield up
    yield from _sink_families(sinks[:PIPELINE_SERIES_MAX])


def _sink_families(sinks: list[tuple[str, SinkReport]]) -> Iterator[Metric]:
    labels = ["pipeline", "sink"]
    families: list[tuple[Metric, str, float]] = [
        (CounterMetricFamily("mainstem_pipeline_rows_in", "Rows read", labels=labels), "rows_in", 1),
        (CounterMetricFamily("mainstem_pipeline_rows_out", "Rows written", labels=labels), "rows_out", 1),
        (
            GaugeMetricFamily("mainstem_pipeline_batch_seconds", "Time of the last micro-batch", labels=labels),
            "batch_ms",
            0.001,
        ),
        (GaugeMetricFamily("mainstem_pipeline_lag_messages", "Records not read yet", labels=labels), "lag", 1),
        (GaugeMetricFamily("mainstem_pipeline_state_rows", "Rows of Spark's state", labels=labels), "state_rows", 1),
        (
            GaugeMetricFamily("mainstem_pipeline_state_bytes", "Memory of Spark's state", labels=labels),
            "state_bytes",
            1,
        ),
    ]
    for family, field, unit in families:
        assert isinstance(family, CounterMetricFamily | GaugeMetricFamily)
        for name, sink in sinks:
            family.add_metric([name, sink.sink], getattr(sink, field) * unit)
        yield family
