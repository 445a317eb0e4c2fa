"""GET /metrics: everything measured, gathered and written in slices.

Labels are bounded: groups have a bounded number of series, and the number left out is a measurement too.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from mainstem.broker.broker import Broker
from mainstem.broker.log import Answer, Edge
from mainstem.broker.queues import Queue
from mainstem.model.errors import MainstemError
from mainstem.protocols.http.codec import Response
from mainstem.protocols.http.codec.exposition import encode_family
from mainstem.protocols.http.handlers.groups.group_lag import GroupLag, TotalLag
from mainstem.protocols.http.handlers.operation.loop_delay import LoopDelay
from mainstem.protocols.http.handlers.operation.operations import Operations
from mainstem.protocols.http.handlers.operation.pipeline_measurements import pipeline_families
from mainstem.protocols.http.handlers.pace import Pace
from mainstem.protocols.http.handlers.routes import Call, Route, Text
from mainstem.protocols.http.mapping.group_documents import group_names, group_of
from mainstem.wire.http.messages import TEXT

OK = 200
STORED_BYTES_AGE_S = 60.0
"""With many topics, the bytes of all partitions are added up once in this time."""
TOPICS_AT_ONCE = 500
QUEUE_SERIES_MAX = 1_000
"""Queues that are shown one by one."""
QUEUES_STEP = 5_000
"""Looked at without a pause."""
GROUP_SERIES_MAX = 1_000
"""Groups times topics that are shown; the first come."""
GROUP_PARTITIONS_MAX = 10_000
"""Partitions that are looked at for the lag of groups, in one answer."""


class MeasurementHandlers:
    """GET /metrics. Who asks while it is being made gets the same answer."""

    def __init__(
        self, operations: Operations, broker: Broker, lag: GroupLag, delay: LoopDelay, topic_series_max: int = 0
    ) -> None:
        self._operations = operations
        self._broker = broker
        self._lag = lag
        self._delay = delay
        self._topic_series_max = topic_series_max
        self._stored = (-STORED_BYTES_AGE_S, 0)
        """When the bytes of all partitions were last added up, and their sum."""
        self._under_way: Answer[bytes] | None = None

    def routes(self) -> list[Route]:
        """What is served here."""
        return [Route("GET", "/metrics", self.metrics, {OK: Text})]

    async def metrics(self, call: Call) -> Response:
        """Measurements in the Prometheus text format."""
        if self._under_way is not None:
            return Response(OK, await self._under_way, TEXT)
        answer = self._under_way = Answer[bytes]()
        try:
            text = await self._write()
        except BaseException as error:
            answer.fail(error)
            raise
        finally:
            self._under_way = None
        answer.resolve(text)
        return Response(OK, text, TEXT)

    async def _write(self) -> bytes:
        pace = Pace(self._broker.clock)
        lines: list[str] = []
        async for family in self._families(pace):
            for line in encode_family(family):
                lines.append(line)
                await pace.step()
        return "".join(lines).encode()

    async def _families(self, pace: Pace) -> AsyncIterator[Metric]:
        for family in self._operations.measure():
            yield family
            await pace.step()
        yield self._alarms()
        yield _gauge("loop_delay_seconds_max", "Longest delay of the event loop since the start", self._delay.max_s)
        yield _gauge("loop_delay_seconds_recent", "Longest recent delay of the event loop", self._delay.recent_s)
        async for family in self._topics(pace):
            yield family
        async for family in self._groups(pace):
            yield family
        async for family in self._queues(pace):
            yield family
        for family in self._schedules():
            yield family
        for family in self._acquisitions():
            yield family
        for family in self._logins():
            yield family
        for family in pipeline_families(self._broker):
            yield family
            await pace.step()

    def _logins(self) -> Iterator[Metric]:
        logins = self._broker.logins
        for name, text, counts in (
            ("failures", "Wrong passwords and other proofs", logins.failures),
            ("delayed", "Logins that waited before they were looked at, for wrong ones before them", logins.delayed),
            ("unchecked", "Logins that were refused unseen, for wrong ones before them", logins.unchecked),
        ):
            family = CounterMetricFamily(f"mainstem_login_{name}", text, labels=["protocol"])
            for protocol, count in counts.items():
                family.add_metric([protocol], count)
            yield family
        yield _gauge("logins_waiting", "Logins that wait now", logins.waiting)

    def _acquisitions(self) -> Iterator[Metric]:
        """What a query holds that never comes back is seen by its age."""
        held = [one for one in self._broker.acquisitions.all() if one.is_holding]
        oldest_ms = min((one.opened_ms for one in held), default=None)
        age_s = 0.0 if oldest_ms is None else max(self._broker.clock.now_ms() - oldest_ms, 0) / 1000
        yield _gauge("acquisitions", "Acquisitions of Spark queries that are not settled", len(held))
        yield _gauge("acquired_records", "Records that they hold", sum(one.records for one in held))
        yield _gauge("acquisition_age_seconds", "Age of the oldest of them", age_s)

    async def _topics(self, pace: Pace) -> AsyncIterator[Metric]:
        topics = list(self._broker.topics.by_id.values())
        partitions = sum(len(topic.logs) for topic in topics)
        now = self._broker.clock.monotonic()
        if now - self._stored[0] >= STORED_BYTES_AGE_S or len(topics) <= TOPICS_AT_ONCE:
            stored_bytes = 0
            for topic in topics:
                for log in topic.logs:
                    stored_bytes += await self._stored_bytes(log)
                    await pace.step()
            self._stored = (now, stored_bytes)
        yield _gauge("topics", "Topics", len(topics))
        yield _gauge("partitions", "Partitions of all topics", partitions)
        yield _gauge("stored_bytes", "Bytes of the batches that partitions hold", self._stored[1])
        if self._topic_series_max:
            rates = GaugeMetricFamily("mainstem_topic_records_in", "Records in the last second", labels=["topic"])
            live = self._broker.live.topics
            for name in heapq.nlargest(self._topic_series_max, live.rings, key=lambda name: live.rates.get(name, 0.0)):
                rates.add_metric([name], live.rates.get(name, 0.0))
            yield rates

    def _alarms(self) -> Metric:
        alarms = GaugeMetricFamily("mainstem_alarm", "Alarms that are raised", labels=["rule", "subject", "severity"])
        for alarm in self._broker.alarms.book.active.values():
            alarms.add_metric([alarm.rule, alarm.subject, alarm.severity], 1)
        return alarms

    async def _stored_bytes(self, log: int) -> int:
        try:
            start = (await self._broker.find(log, Edge.START)).offset
            return (await self._broker.read(log, start, 0)).stored_bytes
        except MainstemError:
            return 0  # deleted or trimmed while we looked

    async def _groups(self, pace: Pace) -> AsyncIterator[Metric]:
        labels = ["group", "topic"]
        members = GaugeMetricFamily("mainstem_group_members", "Members of a group", labels=["group"])
        messages = GaugeMetricFamily("mainstem_group_lag_messages", "Messages not consumed yet", labels=labels)
        seconds = GaugeMetricFamily("mainstem_group_lag_seconds", "Age of the oldest of them", labels=labels)
        names = group_names(self._broker)
        series = looked_at = shown = 0
        for name in names:
            topics: dict[str, TotalLag] = {}
            looked_at += self._lag.count(name)
            if looked_at > GROUP_PARTITIONS_MAX or series >= GROUP_SERIES_MAX:
                break
            async for behind in self._lag.walk(name, pace):
                topics.setdefault(behind.topic, TotalLag()).add(behind.lag)
            series += max(1, len(topics))
            if series > GROUP_SERIES_MAX:
                break
            shown += 1
            try:
                members.add_metric([name], len(group_of(self._broker, name).members))
            except MainstemError:
                continue  # gone while we looked
            for topic, total in topics.items():
                messages.add_metric([name, topic], total.messages)
                if total.seconds is not None:
                    seconds.add_metric([name, topic], total.seconds)
        yield _gauge("groups", "Groups", len(names))
        yield _gauge("groups_left_out", "Groups that are over the limit of what is shown", len(names) - shown)
        for family in (members, messages, seconds):
            yield family

    async def _queues(self, pace: Pace) -> AsyncIterator[Metric]:
        labels = ["namespace", "queue"]
        ready = GaugeMetricFamily("mainstem_queue_ready", "Messages that wait", labels=labels)
        unsettled = GaugeMetricFamily("mainstem_queue_unsettled", "Messages that consumers have", labels=labels)
        consumers = GaugeMetricFamily("mainstem_queue_consumers", "Consumers", labels=labels)
        lost = CounterMetricFamily(
            "mainstem_queue_lost", "Messages that a queue let go of since the start", labels=[*labels, "reason"]
        )
        queues = [queue for space in self._broker.namespaces.all() for queue in self._broker.queues.all(space.name)]
        longest: list[Queue] = []
        for first in range(0, len(queues), QUEUES_STEP):
            # Those with most messages are the ones to alert on.
            step = queues[first : first + QUEUES_STEP]
            await self._broker.queues.know(step)
            longest = heapq.nlargest(QUEUE_SERIES_MAX, longest + step, key=_length)
            await pace.step()
        for queue in longest:
            values = [queue.namespace, queue.name]
            ready.add_metric(values, queue.ready_count)
            unsettled.add_metric(values, queue.unsettled_count)
            consumers.add_metric(values, queue.consumer_count)
            for reason in ("expired", "dropped", "refused"):
                if count := getattr(queue, reason):
                    lost.add_metric([*values, reason], count)
            await pace.step()
        yield _gauge("queues", "Queues", len(queues))
        for family in (ready, unsettled, consumers, lost):
            yield family

    def _schedules(self) -> Iterator[Metric]:
        mover = self._broker.schedules.mover
        yield _gauge("scheduled_records", "Records that wait for their time", self._broker.schedules.pending_count)
        yield _gauge("schedule_late_seconds_max", "Longest that one was late", mover.late_ms_max / 1000)
        for name, text, value in (
            ("moved", "Scheduled records that were published", mover.moved_total),
            ("dropped", "Scheduled records that no log would take", mover.dropped_total),
        ):
            yield CounterMetricFamily(f"mainstem_schedule_{name}", text, value=value)


def _length(queue: Queue) -> int:
    """Of a queue that is in use since the start; others are not read for this."""
    return sum([lane.count for lane in queue.lanes])


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"mainstem_{name}", text, value=value)
