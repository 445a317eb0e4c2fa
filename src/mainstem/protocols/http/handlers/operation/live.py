"""GET /v1/live: numbers with a short history, from memory."""

from __future__ import annotations

from mainstem.broker.broker import Broker
from mainstem.protocols.http.handlers.operation.operations import Operations
from mainstem.protocols.http.handlers.routes import Call, Route
from mainstem.protocols.http.mapping.live_documents import LiveDocument, LiveQuery

OK = 200
SECOND_MS, MINUTE_MS = 1_000, 60_000
TOPICS_DEFAULT = 20
STORAGE = ("pending_bytes", "disk_free_bytes", "run_bytes", "cache_bytes", "wal_files_sealed", "appends_refused")


class LiveHandlers:
    """Samples the server and the broker, and shows the samples."""

    def __init__(self, operations: Operations, broker: Broker) -> None:
        self._operations = operations
        self._broker = broker
        self._live = broker.live
        self._live.counters.append(self._traffic)
        self._live.counters.append(operations.request_counts)
        self._live.gauges.append(self._connections)
        self._live.gauges.append(self._storage)
        self._live.start()

    def routes(self) -> list[Route]:
        """What is served here."""
        return [Route("GET", "/v1/live", self.get_live, {OK: LiveDocument}, query=LiveQuery)]

    def get_live(self, call: Call) -> LiveDocument:
        """Live numbers: what is new since `after`, or the whole history."""
        query: LiveQuery = call.query
        live = self._live
        last = live.tick
        count = TOPICS_DEFAULT if query.topics is None else query.topics
        rates = live.topics.rates
        names = sorted(live.topics.rings, key=lambda name: (-rates.get(name, 0.0), name))[:count]
        is_minute = query.resolution == "minute"

        after = -1 if query.after is None else query.after
        shown = {
            name: ring.minutes(last) if is_minute else ring.seconds(after, last) for name, ring in live.rings.items()
        }
        topics = {
            name: ring.minutes(last) if is_minute else ring.seconds(after, last)
            for name, ring in ((name, live.topics.rings[name]) for name in names)
        }
        return LiveDocument(last, live.tick_ms, MINUTE_MS if is_minute else SECOND_MS, shown, topics)

    def _traffic(self) -> dict[str, float]:
        counts: dict[str, float] = {}
        for listener in self._operations.listeners:
            for name, value in (
                ("received_bytes", listener.traffic.received_bytes),
                ("sent_bytes", listener.traffic.sent_bytes),
            ):
                key = f"{name}.{listener.name}"
                counts[key] = counts.get(key, 0) + value
        return counts

    def _connections(self) -> dict[str, float]:
        counts: dict[str, float] = {}
        for listener in self._operations.listeners:
            key = f"connections.{listener.name}"
            counts[key] = counts.get(key, 0) + listener.connections
        return counts

    def _storage(self) -> dict[str, float]:
        facts = self._operations.storage()
        return {f"storage.{name}": facts[name] for name in STORAGE if name in facts}
