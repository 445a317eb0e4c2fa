"""What the server registers for HTTP."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.users.door import Entrance
from mainstem.model.endpoints import TLS_SUFFIX, UNKNOWN, Endpoints, is_of
from mainstem.protocols.http.handlers.clients.connections import ConnectionHandlers
from mainstem.protocols.http.handlers.clients.consumers import ConsumerHandlers
from mainstem.protocols.http.handlers.clients.logins import Logins
from mainstem.protocols.http.handlers.clients.sessions import SessionHandlers
from mainstem.protocols.http.handlers.clients.users import UserHandlers
from mainstem.protocols.http.handlers.groups.group_lag import GroupLag
from mainstem.protocols.http.handlers.groups.groups import GroupHandlers
from mainstem.protocols.http.handlers.groups.lag import LagMeter
from mainstem.protocols.http.handlers.operation.alarms import AlarmHandlers
from mainstem.protocols.http.handlers.operation.console import Console
from mainstem.protocols.http.handlers.operation.live import LiveHandlers
from mainstem.protocols.http.handlers.operation.loop_delay import LoopDelay
from mainstem.protocols.http.handlers.operation.measurements import MeasurementHandlers
from mainstem.protocols.http.handlers.operation.node import NodeHandlers
from mainstem.protocols.http.handlers.operation.operations import Operations, OperationsHandlers
from mainstem.protocols.http.handlers.pipelines.acquisitions import AcquisitionHandlers
from mainstem.protocols.http.handlers.pipelines.pipelines import PipelineHandlers
from mainstem.protocols.http.handlers.pipelines.stages import StageHandlers
from mainstem.protocols.http.handlers.pipelines.tables import TableHandlers
from mainstem.protocols.http.handlers.queues.queues import QueueHandlers
from mainstem.protocols.http.handlers.queues.receiving import ReceivingHandlers
from mainstem.protocols.http.handlers.queues.schedules import ScheduleHandlers
from mainstem.protocols.http.handlers.records.following import FollowHandlers
from mainstem.protocols.http.handlers.records.publishing import PublishHandlers
from mainstem.protocols.http.handlers.records.reading import RecordHandlers
from mainstem.protocols.http.handlers.records.tracing import TraceHandlers
from mainstem.protocols.http.handlers.routes import Mounted, Routes, Spawn
from mainstem.protocols.http.handlers.routing.exchanges import ExchangeHandlers
from mainstem.protocols.http.handlers.routing.requests import RequestHandlers
from mainstem.protocols.http.handlers.routing.topic_rules import TopicRuleHandlers
from mainstem.protocols.http.handlers.topics.namespaces import NamespaceHandlers
from mainstem.protocols.http.handlers.topics.topics import TopicHandlers
from mainstem.protocols.http.session import HttpSession, HttpSettings
from mainstem.wire.http.dates import HttpDate
from mainstem.wire.http.hosts import HostCheck

NAME = "http"
DEFAULT_PORT = 8282


def check_listening(settings: HttpSettings, hosts: Iterable[str]) -> None:
    """Whether the settings can be. Who comes from beyond this machine logs in, wherever it listens. Raises ValueError."""
    if settings.alarm_webhook and not settings.alarm_webhook.startswith(("http://", "https://")):
        raise ValueError("http.alarm_webhook must be an http or https address")


class HttpAdapter:
    """Opens a session per connection."""

    def __init__(
        self,
        settings: HttpSettings,
        broker: Broker,
        operations: Operations,
        spawn: Spawn | None = None,
        mounts: Mapping[str, Mounted] | None = None,
    ) -> None:
        self._settings = settings
        self._operations = operations
        self._tasks: set[asyncio.Task[None]] = set()
        broker.door.open(NAME, Entrance(is_wide=settings.anybody_from_anywhere))
        broker.alarms.webhook = settings.alarm_webhook
        lag_meter = LagMeter(broker)
        group_lag = GroupLag(broker, lag_meter)
        console = Console() if settings.console else None
        node = NodeHandlers(operations, broker, console)
        self.routes = [
            *OperationsHandlers(operations).routes(),
            *MeasurementHandlers(
                operations, broker, group_lag, LoopDelay(broker.clock), settings.topic_series_max
            ).routes(),
            *node.routes(),
            *LiveHandlers(operations, broker).routes(),
            *ConnectionHandlers(operations, broker.clock).routes(),
            *AlarmHandlers(operations, broker, group_lag, spawn or self._spawn_task).routes(),
            *TopicHandlers(broker, lag_meter).routes(),
            *ConsumerHandlers(broker, group_lag, lag_meter, spawn or self._spawn_task).routes(),
            *RecordHandlers(broker).routes(),
            *PublishHandlers(broker).routes(),
            *TraceHandlers(broker).routes(),
            *FollowHandlers(broker, spawn or self._spawn_task).routes(),
            *RequestHandlers(broker).routes(),
            *ExchangeHandlers(broker).routes(),
            *TopicRuleHandlers(broker).routes(),
            *NamespaceHandlers(broker).routes(),
            *TableHandlers(broker, operations).routes(),
            *GroupHandlers(broker, group_lag).routes(),
            *StageHandlers(broker).routes(),
            *AcquisitionHandlers(broker).routes(),
            *QueueHandlers(broker, lag_meter).routes(),
            *ReceivingHandlers(broker).routes(),
            *ScheduleHandlers(broker).routes(),
            *PipelineHandlers(broker).routes(),
            *SessionHandlers(broker).routes(),
            *UserHandlers(broker).routes(),
        ]
        node.announce(self.routes)
        check = HostCheck(self._listening, self._told)
        meter = functools.partial(operations.request_meter, NAME)
        pages = [] if console is None else console.routes()
        routes = [*self.routes, *pages]
        self._handle = Routes(routes, spawn or self._spawn_task, check, meter, Logins(broker), mounts).handle
        self._date = HttpDate(time.time)

    def open_session(self, wake: Callable[[], None], endpoints: Endpoints = UNKNOWN) -> HttpSession:
        """For a new connection."""
        return HttpSession(wake, self._settings, functools.partial(self._handle, endpoints=endpoints), self._date)

    def _listening(self) -> list[str]:
        return [str(listener.address) for listener in self._operations.listeners if is_of(NAME, listener.name)]

    def _told(self) -> list[str]:
        advertised = self._operations.advertised()
        return [address for name in (NAME, NAME + TLS_SUFFIX) for address in advertised.get(name, ())]

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> None:
        # The loop itself holds tasks only weakly.
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
