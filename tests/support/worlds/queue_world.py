"""A broker on a disk that forgets, under a clock that stands still: queues in every order of events, crashes included."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from mainstem.broker.broker import Broker
from mainstem.broker.queues import Message, Queue, QueueLimits, encode_headers
from mainstem.model.errors import StorageFull
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Edge
from mainstem.storage.local.engine import LocalEngine
from mainstem.storage.local.merge.merge import run_merge_job
from mainstem.storage.local.settings import EngineSettings
from mainstem.testing.clock import SimulatedClock
from mainstem.testing.disk import SimulatedDisk
from mainstem.testing.runtime import SimulatedRuntime
from mainstem.wire.record_batch import batches_in, decode_records
from tests.support.worlds.late_engine import LateEngine

T = TypeVar("T")
STEPS_MAX = 50_000
NO_HEADERS = encode_headers([])
SMALL_LIMITS = QueueLimits(
    window_messages_max=6,
    window_messages_idle=3,
    window_messages_low=2,
    read_bytes=200,
    batch_bytes_max=200,
    draft_bytes_max=400,
)
"""A few messages meet every one of them."""


class Holder:
    """A consumer that keeps what it is given."""

    def __init__(self, room: int = 1_000_000, priority: int = 0, *, is_exclusive: bool = False) -> None:
        self.room = room
        self.room_bytes = -1
        self.priority = priority
        self.is_exclusive = is_exclusive
        self.held: list[Message] = []
        self.told: list[tuple[bytes, int]] = []
        """Every delivery ever: the value, and how often it was given out before."""
        self.is_cancelled = False
        self.is_active: bool | None = None

    def deliver(self, queue: Queue, messages: list[Message]) -> None:
        """Keep them."""
        assert 0 < len(messages) <= self.room, "more than there is room for"
        self.room -= len(messages)
        self.held += messages
        self.told += [(bytes(message.value), message.deliveries) for message in messages]

    def cancelled(self) -> None:
        """The queue is gone."""
        self.is_cancelled = True

    def activated(self, is_active: bool) -> None:
        """Whose turn it is."""
        self.is_active = is_active

    def values(self) -> list[bytes]:
        """What it holds."""
        return [bytes(message.value) for message in self.held]

    def let_go(self, count: int | None = None) -> list[Message]:
        """Take the first out of its hands, to be settled."""
        count = len(self.held) if count is None else count
        taken, self.held = self.held[:count], self.held[count:]
        self.room += len(taken)
        return taken


class World:
    """One machine: a disk, and a broker that is started on it again and again."""

    def __init__(self, seed: int = 1, limits: QueueLimits = QueueLimits(), *, is_late: bool = False) -> None:  # noqa: B008
        self.limits = limits
        self.is_late = is_late
        """Whether the engine's answers come late."""
        self.rng = Random(seed)
        self.clock = SimulatedClock()
        self.disk = SimulatedDisk()
        self.loop = asyncio.new_event_loop()
        self.start()

    def start(self) -> None:
        """The broker begins, with what the disk has."""
        self.runtime = SimulatedRuntime(self.rng, self.clock, lambda job: run_merge_job(self.disk, job))
        settings = EngineSettings(data_directory="data", wal_file_bytes=64 * 1024, proof_idle_ms=10_000_000)
        engine = LocalEngine.open(disk=self.disk, runtime=self.runtime, settings=settings)
        late = LateEngine(engine, self.runtime.call_soon, self.rng.randrange(1 << 30)) if self.is_late else engine
        self.engine: LocalEngine = late  # type: ignore[assignment]
        seed = self.rng.randrange(1 << 30)
        self.broker = self.do(Broker.open(self.engine, self.runtime, queue_limits=self.limits))
        # What happens from now on does not depend on how much is loaded at a start.
        self.rng.seed(seed)
        if self.is_late:
            late.begin_anew(seed)  # type: ignore[union-attr]
        self.queues = self.broker.queues

    def crash(self, *, power_loss: bool = True) -> None:
        """The broker ends where it stands, and begins anew."""
        self.disk = self.disk.crash(self.rng) if power_loss else self.disk.restart(self.rng)
        self.start()

    def close(self) -> None:
        """Nothing more."""
        self.loop.close()

    # Time

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Until it is done, with all that happens meanwhile."""

        async def drive() -> T:
            task = asyncio.ensure_future(work)
            for _ in range(STEPS_MAX):
                await asyncio.sleep(0)
                if task.done():
                    return task.result()
                if not self.runtime.step():
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                    if not task.done() and self.runtime.idle:
                        self.runtime.pass_time(1)
            raise AssertionError("it does not end")

        return self.loop.run_until_complete(drive())

    def quiet(self) -> None:
        """Until nothing is under way and what is settled is stored."""

        async def rest() -> None:
            await self.queues.outbox.drain()

        for _ in range(3):
            self.do(rest())
            for _ in range(STEPS_MAX):
                if self.runtime.idle:
                    break
                self.in_loop(self.runtime.step)
            self.loop.run_until_complete(asyncio.sleep(0))

    def quiet_whatever_fails(self) -> None:
        """The same, where what is under way may be refused."""
        with contextlib.suppress(StorageFull):
            self.quiet()

    def end_turn(self) -> None:
        """Until all that was to be done after this is done."""
        ended: list[bool] = []
        self.runtime.call_soon(lambda: ended.append(True))
        self.in_loop(lambda: self.runtime.run_until(lambda: bool(ended)))

    def pass_time(self, milliseconds: int) -> None:
        """Let time go by."""
        self.in_loop(lambda: self.runtime.pass_time(milliseconds))
        self.quiet()

    def in_loop(self, call: Callable[[], object]) -> None:
        """What timers do may want the event loop to run."""

        async def do() -> None:
            call()

        self.loop.run_until_complete(do())

    def wait(self, answer: Answer[T]) -> T:
        """An engine's answer."""
        self.in_loop(lambda: self.runtime.run_until(lambda: answer.done))
        return answer.result()

    # What is there

    def ready_count(self, queue: Queue) -> int:
        """Messages that wait, once the engine has said so."""
        self.do(self.queues.know([queue]))
        return queue.ready_count

    def values(self, queue: Queue) -> list[bytes]:
        """What the log holds of a queue and is not settled, read from the disk and not from the queue."""
        self.do(self.queues.open(queue))
        found = []
        for lane in queue.lanes:
            for offset, value in self.records(lane.log):
                if not lane.cursor.is_settled(offset):
                    found.append(value)
        return found

    def records(self, log: int) -> list[tuple[int, bytes]]:
        """All of a log."""
        found: list[tuple[int, bytes]] = []
        offset = self.wait(self.engine.offset_at(log, Edge.START)).offset
        while True:
            result = self.wait(self.engine.read(log, offset, 1 << 20))
            for buffer in result.batches:
                for position, size in batches_in(buffer):
                    batch = memoryview(buffer)[position : position + size]
                    found += [(r.offset, r.value or b"") for r in decode_records(batch) if r.offset >= offset]
            if result.next_offset >= result.end:
                return found
            offset = result.next_offset

    def put(
        self, queue: Queue, *values: bytes, then: Callable[[BaseException | None], None] | None = None, **how: Any
    ) -> None:
        """Publish."""
        for value in values:
            assert self.queues.outbox.put([queue], NO_HEADERS, value, **how) == 0
        if then is not None:
            self.queues.outbox.when_durable(lambda _, error: then(error), None)
