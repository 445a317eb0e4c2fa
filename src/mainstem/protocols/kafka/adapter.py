"""What the server registers for Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from mainstem.broker.broker import Broker
from mainstem.protocols.kafka.handlers.cluster import ClusterHandlers
from mainstem.protocols.kafka.handlers.configs import ConfigHandlers
from mainstem.protocols.kafka.handlers.fetch import FetchHandler
from mainstem.protocols.kafka.handlers.positions import PositionHandlers
from mainstem.protocols.kafka.handlers.produce import ProduceHandler
from mainstem.protocols.kafka.handlers.producers import ProducerHandlers
from mainstem.protocols.kafka.handlers.requests import Requests, Served, Spawn
from mainstem.protocols.kafka.handlers.topics import TopicHandlers
from mainstem.protocols.kafka.mapping import Endpoint
from mainstem.protocols.kafka.session import KafkaSession, KafkaSettings

NAME = "kafka"
DEFAULT_PORT = 9092


class Operations(Protocol):
    """What the server tells about itself."""

    def advertised(self) -> Mapping[str, list[str]]:
        """The addresses clients are told, by listener name."""


class KafkaAdapter:
    """Opens a session per connection."""

    def __init__(
        self, settings: KafkaSettings, broker: Broker, operations: Operations, spawn: Spawn | None = None
    ) -> None:
        self._settings = settings
        self._operations = operations
        self._tasks: set[asyncio.Task[None]] = set()
        cluster = ClusterHandlers(broker, settings, self._advertised)
        served: dict[int, Served] = {
            **cluster.apis(),
            **PositionHandlers(broker).apis(),
            **TopicHandlers(broker, settings).apis(),
            **ConfigHandlers(broker, settings).apis(),
            **ProducerHandlers(broker).apis(),
        }
        cluster.announce(served)
        self._requests = Requests(
            ProduceHandler(broker), FetchHandler(broker, settings), served, spawn or self._spawn_task
        )

    def open_session(self, wake: Callable[[], None]) -> KafkaSession:
        """For a new connection."""
        return KafkaSession(wake, self._settings, self._requests.handle)

    def _advertised(self) -> Endpoint:
        host, _, port = self._operations.advertised()[NAME][0].rpartition(":")
        return Endpoint(host.removeprefix("[").removesuffix("]"), int(port))

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> None:
        # The loop itself holds tasks only weakly.
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
