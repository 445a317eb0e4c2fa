"""The life of a server: bind, open storage, listen, serve, drain, close.

Ports are taken before storage is opened, so that a start that cannot succeed touches no data; and clients can connect
only after storage is open, so that nobody waits for a recovery without knowing.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem import compiled
from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.kept_memory import keep_memory
from mainstem.model.endpoints import TLS_SUFFIX, Endpoints
from mainstem.model.errors import MainstemError, OwnershipLost
from mainstem.server.listener_security import ListenerSecurity
from mainstem.server.local_storage import LocalStorage, OpenStorage, Storage
from mainstem.server.operations import Condition, ServerOperations
from mainstem.server.pipeline_worker import PipelineWorker
from mainstem.server.registry import REGISTERED, Services
from mainstem.server.settings import Settings
from mainstem.storage.contract import Budget
from mainstem.transport.listener import Listener, ListenerLimits, PortTaken
from mainstem.transport.receive_buffer import ChunkPool
from mainstem.transport.session import OpenSession, Session, Wake
from mainstem.transport.turns import Turns

if TYPE_CHECKING:
    from mainstem.server.cluster.shared_storage import SharedStorage
    from mainstem.server.cluster.turns import ClusterTurns

log = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_FAILED = 1

SWITCH_INTERVAL_S = 0.0005
"""How long a thread may keep the interpreter to itself when another asks for it.

The thread that has just synced the log must take the interpreter back to report it, and every client of that group
waits for this report. With Python's default of 5 ms a busy event loop would add up to that to each sync, which itself
takes a quarter of a millisecond.
"""


HTTP = "http"
LOST_SECONDS_MAX = 2.0
"""How long a broker that lost its shard takes to stop what it does by itself."""
COLLECTOR_THRESHOLDS = (100_000, 50, 50)
KEPT_BYTES = 512 << 20
KEPT_PIECE_BYTES = 32 << 20
"""Requests are received into memory of their own, which the cache of the log's end holds for a while."""


class StartRefused(Exception):
    """The server cannot start, for a reason that its operator can remove."""


class Server:
    """One broker process."""

    def __init__(
        self, settings: Settings, announce: Callable[[str], None], open_storage: OpenStorage = LocalStorage
    ) -> None:
        self._settings = settings
        self._announce = announce
        self._open_storage = open_storage
        self._operations = ServerOperations(settings.advertise, Path(settings.storage.data_directory))
        self._listeners: list[Listener] = []
        self._adapters: dict[str, OpenSession] = {}
        self._broker: Broker | None = None
        self._pipelines: PipelineWorker | None = None
        if settings.pipelines.worker:
            self._pipelines = PipelineWorker(settings.pipelines, settings.storage.data_directory)
        try:
            self._security = ListenerSecurity(settings)
        except ValueError as error:
            raise StartRefused(str(error)) from None
        self._stop = asyncio.Event()
        self._stops = 0
        self._failure: BaseException | None = None
        self._lost: OwnershipLost | None = None
        """Why this broker no longer owns its shard; only of a cluster."""
        self._turns: ClusterTurns | None = None

    async def serve(self) -> int:
        """From start to end; answers the exit status. Raises StartRefused."""
        self._create_listeners()
        try:
            self._bind()
            self._catch_signals()
            if self._settings.cluster.is_on:
                await self._take_turns()
            else:
                await self._serve_from(self._open())
        finally:
            for listener in self._listeners:
                listener.close()
        return EXIT_OK if self._failure is None else EXIT_FAILED

    async def _serve_from(self, storage: Storage, serving: Callable[[], None] = lambda: None) -> None:
        """Serve clients until told to stop, or until the storage is nothing to serve from."""
        self._operations.engine = storage.engine
        storage.engine.on_failure(self.fail)
        log.info("storage is open: %s; hot modules are %s", self._operations.data_directory(), compiled.description)
        maintenance = asyncio.create_task(self._maintain(storage))
        try:
            await self._connect(storage)
            await self._listen()
            serving()
            self._start_pipelines()
            await self._stop.wait()
            if self._failure is None and self._lost is None:
                await self._stop_pipelines()
                await self._drain()
        finally:
            maintenance.cancel()
            await asyncio.wait([maintenance])
            await self._close(storage)

    async def _take_turns(self) -> None:
        """In a cluster: stand by, own the shard, stand by again."""
        turns = self._make_turns()
        try:
            await turns.begin()
            while not self._is_ending():
                self._lost = None
                storage = await turns.stand_by(self._stop)
                if storage is None:
                    return
                if self._is_ending():
                    await storage.close()
                    return
                self._create_listeners()
                turns.lend(self._listeners)
                storage.on_hand_over(self._stop.set)
                await self._serve_while_owner(storage, turns)
        except (MainstemError, OSError) as error:
            raise StartRefused(str(error)) from error
        finally:
            await turns.end()

    async def _serve_while_owner(self, storage: SharedStorage, turns: ClusterTurns) -> None:
        try:
            await self._serve_from(storage, lambda: turns.serves(storage))
        except StartRefused:
            if self._lost is None:
                raise
        finally:
            for listener in self._listeners:
                listener.close()
        if not self._is_ending():
            self._stop.clear()
            if self._lost is None:
                turns.leave_to_others()

    def _is_ending(self) -> bool:
        return self._stops > 0 or self._failure is not None

    def _make_turns(self) -> ClusterTurns:
        # Here, so that a broker that stands alone loads none of it.
        try:
            from mainstem.server.cluster.turns import ClusterTurns
        except ModuleNotFoundError as error:
            raise StartRefused(f"a cluster needs the package {error.name}: pip install 'mainstem[cluster]'") from None
        try:
            self._turns = ClusterTurns(self._settings, self._operations, self._listeners, self._announce)
        except (MainstemError, OSError) as error:
            raise StartRefused(str(error)) from error
        return self._turns

    def stop(self) -> None:
        """Drain and end; said again, end without waiting for clients."""
        self._stops += 1
        self._stop.set()
        if self._turns is not None:
            self._turns.give_ports_back()
        if self._stops > 1:
            if self._pipelines is not None:
                self._pipelines.kill()
            for listener in self._listeners:
                listener.close()

    def fail(self, error: BaseException) -> None:
        """Storage can no longer keep its promise: acknowledge nothing, end now."""
        if isinstance(error, OwnershipLost):
            self._lose(error)
        elif self._failure is None:
            self._failure = error
            self._operations.state = Condition.FAILED
            log.critical("storage failed, the broker ends: %s", error)
            self._stop.set()
            if self._pipelines is not None:
                self._pipelines.kill()
            for listener in self._listeners:
                listener.close()

    def _lose(self, error: OwnershipLost) -> None:
        """Another broker may own the shard by now: every connection is cut, because nobody knows what became of its requests."""
        if self._lost is None and self._failure is None:
            self._lost = error
            log.error("the shard is lost: %s", error)
            self._stop.set()
            if self._pipelines is not None:
                self._pipelines.kill()
            for listener in self._listeners:
                listener.close()

    # -----------------------------------------------------------------------------------------------------------------

    def _create_listeners(self) -> None:
        self._listeners.clear()
        limits = ListenerLimits(
            connections_max=self._settings.limits.connections_max,
            idle_timeout_ms=self._settings.limits.idle_timeout_ms,
            write_buffer_bytes_max=self._settings.limits.write_buffer_bytes_max,
        )
        chunks = ChunkPool(self._settings.storage.cache_bytes_max)
        turns = Turns()
        for name, addresses in self._settings.listen.items():
            protocol = name.removesuffix(TLS_SUFFIX)
            self._check(protocol, [address.host for address in addresses])
            open_session = functools.partial(self._open_session, protocol)
            security = self._security.of(name)
            self._listeners += [
                Listener(name, address, open_session, limits, chunks, turns, security, protocol)
                for address in addresses
            ]
        try:
            self._security.check_clear_text()
        except ValueError as error:
            raise StartRefused(str(error)) from None
        self._operations.listeners = list(self._listeners)
        self._operations.delays = turns.delays
        self._check_pipelines()

    def _check(self, name: str, hosts: list[str]) -> None:
        """Refuse what an adapter cannot serve before anything is taken."""
        check = REGISTERED[name].check
        if check is not None and hosts:
            try:
                check(self._settings.protocols[name], hosts)
            except ValueError as error:
                raise StartRefused(str(error)) from None

    def _check_pipelines(self) -> None:
        if self._pipelines is not None:
            try:
                self._pipelines.check(self._settings.listen[HTTP])
            except ValueError as error:
                raise StartRefused(str(error)) from None

    def _start_pipelines(self) -> None:
        if self._pipelines is not None and not self._stop.is_set():
            self._pipelines.start(next(listener.address for listener in self._listeners if listener.name == HTTP))

    async def _stop_pipelines(self) -> None:
        """While clients are still served: drivers commit what they have under way."""
        if self._pipelines is not None:
            await self._pipelines.stop()

    def _open_session(self, name: str, wake: Wake, endpoints: Endpoints) -> Session:
        """Adapters come after the listeners, which take their ports before storage is touched."""
        return self._adapters[name](wake, endpoints)

    async def _connect(self, storage: Storage) -> None:
        """Make the broker and the adapters in front of it."""
        try:
            unwritten_bytes_max = self._settings.limits.unwritten_bytes_max
            broker = await Broker.open(storage.engine, LoopClock(), self._settings.queues, unwritten_bytes_max)
        except MainstemError as error:
            raise StartRefused(f"cannot load the catalog: {error}") from error
        broker.topics.node = self._operations.node()
        broker.stages.govern(self._settings.stages)
        broker.devices.govern(self._settings.devices)
        broker.chronicle.govern(self._settings.trace)
        try:
            broker.door.govern(self._settings.users, self._settings.tokens)
        except ValueError as error:
            raise StartRefused(str(error)) from None
        self._broker = broker
        services = Services(self._operations, broker)
        for name, registration in REGISTERED.items():
            if registration.introduce is not None:
                registration.introduce(broker, self._settings.protocols[name])
        for name in sorted({listener.protocol for listener in self._listeners}, key=list(REGISTERED).index):
            self._adapters[name] = REGISTERED[name].connect(services, self._settings.protocols[name])
        broker.queues.warm_up()

    def _bind(self) -> None:
        taken = []
        for listener in self._listeners:
            try:
                listener.bind()
            except PortTaken as error:
                taken.append(error)
            except OSError as error:
                raise StartRefused(f"cannot listen on {listener.name}={listener.address}: {error.strerror}") from None
        if taken:
            raise StartRefused(_describe_taken(taken))

    def _open(self) -> Storage:
        directory = self._settings.storage.data_directory
        try:
            storage = self._open_storage(self._settings.storage)
        except MainstemError as error:
            raise StartRefused(str(error)) from error
        except OSError as error:
            raise StartRefused(f"cannot use the data directory {directory}: {error}") from None
        return storage

    async def _listen(self) -> None:
        taken = []
        for listener in self._listeners:
            try:
                await listener.start()
            except PortTaken as error:
                taken.append(error)
        if taken:
            raise StartRefused(_describe_taken(taken))
        if not self._stop.is_set():
            self._operations.state = Condition.READY
            self._announce("ready " + " ".join(f"{listener.name}={listener.address}" for listener in self._listeners))

    async def _maintain(self, storage: Storage) -> None:
        interval_s = self._settings.node.maintenance_interval_ms / 1000
        while True:
            await asyncio.sleep(interval_s)
            self._security.look()
            try:
                await storage.engine.maintain(Budget())
            # What was not merged or expired now is due again in the next round.
            except (MainstemError, OSError) as error:
                log.error("maintenance failed: %s", error)  # noqa: TRY400 - an expected error has no trace
            except Exception:
                log.exception("maintenance failed for a fault of the broker")

    async def _drain(self) -> None:
        self._operations.state = Condition.DRAINING
        log.info("draining")
        for listener in self._listeners:
            listener.drain()
        timeout_ms = self._settings.limits.drain_timeout_ms
        cut = sum(await asyncio.gather(*(listener.wait_drained(timeout_ms) for listener in self._listeners)))
        if cut:
            log.warning("%d connections did not finish in time and were cut", cut)

    async def _close(self, storage: Storage) -> None:
        if self._failure is not None:
            return  # After a failed sync nothing more is written: what the disk did with the last write is unknown.
        try:
            if self._broker is not None:
                await self._close_broker(self._broker)
            await storage.close()
        except MainstemError as error:
            self.fail(error)

    async def _close_broker(self, broker: Broker) -> None:
        self._broker = None
        if self._lost is None:
            await broker.close()
            return
        # What it wants to store is refused now; it stops what it does by itself.
        with contextlib.suppress(MainstemError, TimeoutError):
            async with asyncio.timeout(LOST_SECONDS_MAX):
                await broker.close()

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        if self._security.has_files:
            # Without files to read again, it goes on to mean that the terminal is gone.
            loop.add_signal_handler(signal.SIGHUP, self._security.read_again)


def _describe_taken(taken: list[PortTaken]) -> str:
    lines = [f"{error.name}={error.address} is in use; do without: --listen {error.name}=off" for error in taken]
    return "\n".join(lines)


def run(settings: Settings, announce: Callable[[str], None], open_storage: OpenStorage = LocalStorage) -> int:
    """Serve until told to stop; answers the exit status. Raises StartRefused."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # What was imported lives as long as the process: the collector need not look at it. The hot path makes tuples
    # that die young and no cycles, so that looking seldom costs little memory and spares the loop its pauses.
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    keep_memory(KEPT_BYTES, KEPT_PIECE_BYTES)
    _raise_file_limit()

    async def serve() -> int:
        return await Server(settings, announce, open_storage).serve()

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        status = runner.run(serve())
        if status != EXIT_OK:
            # Threads may hang in the very disk that failed. Nothing is left that a tidy end could save.
            logging.shutdown()
            sys.stdout.flush()
            os._exit(status)
    log.info("ended")
    return status


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _raise_file_limit() -> None:
    """Every connection is an open file; many systems allow 1,024 until asked."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
