"""Groups that are handed over while another is in flight: written in order, answered in order, failed together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from mainstem.model.errors import EngineFailed
from mainstem.storage.contract import Append, Commit, CreateLog
from mainstem.storage.local.engine import LocalEngine
from mainstem.storage.local.settings import EngineSettings
from mainstem.storage.runtime import Done
from mainstem.testing.clock import SimulatedClock
from mainstem.testing.disk import SimulatedDisk
from mainstem.wire.record_batch import encode_batch

BATCH = bytes(encode_batch([(0, 1_000, None, b"v", ())]))


class SteppedRuntime:
    """Nothing happens unless it is told to: turns, the commit lane, and its answers apart."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.soon: deque[Callable[[], None]] = deque()
        self.writes: deque[tuple[Callable[[], Any], Done[Any]]] = deque()
        self.written: deque[Callable[[], None]] = deque()

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def call_soon(self, function: Callable[[], None]) -> None:
        self.soon.append(function)

    def call_later(self, seconds: float, function: Callable[[], None]) -> Any:
        class Never:
            def cancel(self) -> None:
                pass

        return Never()

    def write(self, job: Callable[[], Any], done: Done[Any]) -> None:
        self.writes.append((job, done))

    def read(self, job: Callable[[], Any], done: Done[Any]) -> None:
        """Spare files are not needed here."""

    def merge(self, job: bytes, done: Done[bytes]) -> None:
        raise AssertionError("nothing is merged here")

    def turn(self) -> None:
        for _ in range(len(self.soon)):
            self.soon.popleft()()

    def do_write(self) -> None:
        """What the thread of the lane does; nobody is told yet."""
        job, done = self.writes.popleft()
        try:
            value, error = job(), None
        except BaseException as caught:  # noqa: BLE001 - as a lane does
            value, error = None, caught
        self.written.append(lambda: done(value, error))

    def tell(self) -> None:
        self.written.popleft()()


class World:
    def __init__(self) -> None:
        self.runtime = SteppedRuntime()
        self.disk = SimulatedDisk()
        self.engine = self.open(self.disk, self.runtime)
        created = self.engine.alter([CreateLog(1)])
        self.runtime.turn()
        self.one_written()
        assert created.done

    @staticmethod
    def open(disk: SimulatedDisk, runtime: SteppedRuntime | None = None) -> LocalEngine:
        settings = EngineSettings(data_directory="data", wal_file_bytes=1 << 20)
        return LocalEngine.open(disk=disk, runtime=runtime or SteppedRuntime(), settings=settings)

    def commit(self) -> Any:
        return self.engine.commit([Commit([Append(1, BATCH)])])

    def one_written(self, milliseconds: float = 1.0) -> None:
        self.runtime.clock.advance(milliseconds)
        self.runtime.do_write()
        self.runtime.tell()


@pytest.fixture
def world() -> World:
    return World()


def test_the_next_group_is_handed_over_when_the_first_is_half_through(world: World) -> None:
    first = world.commit()
    world.runtime.turn()
    early = world.commit()
    world.runtime.turn()
    assert len(world.runtime.writes) == 1
    world.runtime.clock.advance(0.6)
    late = world.commit()
    world.runtime.turn()
    assert len(world.runtime.writes) == 2
    later = world.commit()
    world.runtime.turn()
    assert len(world.runtime.writes) == 2, "one at most waits behind the one in flight"
    world.runtime.do_write()
    world.runtime.do_write()
    assert not any(answer.done for answer in (first, early, late, later))
    world.runtime.tell()
    assert [answer.done for answer in (first, early, late, later)] == [True, False, False, False]
    world.runtime.tell()
    assert [answer.done for answer in (first, early, late, later)] == [True, True, True, False]
    world.one_written()
    assert [answer.result()[0].bases[0] for answer in (first, early, late, later)] == [0, 1, 2, 3]


def test_a_much_smaller_group_waits(world: World) -> None:
    for _ in range(3):
        world.commit()
    world.runtime.turn()
    world.runtime.clock.advance(0.6)
    world.commit()
    world.runtime.turn()
    assert len(world.runtime.writes) == 1


def test_within_a_long_turn_the_disk_goes_on(world: World) -> None:
    for _ in range(3):
        world.commit()
    world.runtime.turn()
    world.commit()
    world.runtime.clock.advance(1.1)
    world.commit()
    assert len(world.runtime.writes) == 2


def test_what_follows_a_failed_group_fails_with_it(world: World) -> None:
    first = world.commit()
    world.runtime.turn()
    world.runtime.clock.advance(0.6)
    second = world.commit()
    world.runtime.turn()
    third = world.commit()
    world.disk.arm("sync")
    world.runtime.do_write()
    world.disk.heal()
    world.runtime.do_write()
    world.runtime.tell()
    world.runtime.tell()
    assert all(isinstance(answer.error, EngineFailed) for answer in (first, second, third))
    # The disk was not touched again: of what followed nothing is found, whatever became of the first.
    for seed in range(20):
        found = World.open(world.disk.survivor(Random(seed)))
        assert found.ledger.visible[1].end <= 1
