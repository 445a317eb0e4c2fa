"""What all connections, and both listeners, have in common."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from mainstem.broker.broker import Broker
from mainstem.protocols.pulsar.handlers.acknowledging import Acknowledging
from mainstem.protocols.pulsar.handlers.book import Book
from mainstem.protocols.pulsar.handlers.calls import Handler, Refusal, Spawn
from mainstem.protocols.pulsar.handlers.entry_cache import EntryCache
from mainstem.protocols.pulsar.handlers.lookups import Lookups
from mainstem.protocols.pulsar.handlers.producing import Producing
from mainstem.protocols.pulsar.handlers.subscribing import Subscribing
from mainstem.protocols.pulsar.handlers.topics import PulsarTopics
from mainstem.protocols.pulsar.session.settings import PulsarSettings


class PulsarParts:
    """Of one broker."""

    def __init__(
        self,
        broker: Broker,
        settings: PulsarSettings,
        version: str,
        address: Callable[[], str | None],
        spawn: Spawn,
    ) -> None:
        self.broker = broker
        self.settings = settings
        self.spawn = spawn
        self.book = Book(broker)
        self.topics = PulsarTopics(broker, settings, self.book)
        self.entries = EntryCache(settings.entry_cache_bytes)
        self.lookups = Lookups(self.topics, settings, version, address)
        self.subscribing = Subscribing(self)
        self.producing = Producing(self)
        self.acknowledging = Acknowledging(self)
        self.handlers: dict[int, Handler] = {
            **self.lookups.handlers(),
            **self.producing.handlers(),
            **self.subscribing.handlers(),
            **self.acknowledging.handlers(),
        }
        self.refusals: dict[str, Refusal] = {**self.lookups.refusals(), **self.acknowledging.refusals()}

    def shown_time(self, time_ms: int) -> str:
        """As administrators read it."""
        return datetime.fromtimestamp(time_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
