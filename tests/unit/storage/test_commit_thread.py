"""The commit thread in C does what the one in Python does: jobs in order, and none after one that failed."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from mainstem.model.errors import EngineFailed
from mainstem.storage.runtime.async_runtime import WorkerThreads
from mainstem.storage.runtime.commit_thread import AVAILABLE, CommitThread
from mainstem.storage.runtime.disk import LocalDisk, LocalFile
from mainstem.storage.runtime.group_write import CommitGuard, GroupWrite

LANES = [
    pytest.param(lambda loop: WorkerThreads(loop, "lane", 1), id="python"),
    pytest.param(
        lambda loop: CommitThread(loop, "lane"),
        id="native",
        marks=pytest.mark.skipif(not AVAILABLE, reason="not compiled"),
    ),
]
pytestmark = pytest.mark.parametrize("make_lane", LANES)


class Told:
    """What a lane has told, in order."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[str, object, BaseException | None]] = []
        self._wanted = 0
        self._enough = asyncio.Event()

    def done(self, name):
        def told(value, error):
            self.outcomes.append((name, value, error))
            if len(self.outcomes) >= self._wanted:
                self._enough.set()

        return told

    async def wait(self, count: int) -> None:
        self._wanted = count
        if len(self.outcomes) < count:
            self._enough.clear()
            await asyncio.wait_for(self._enough.wait(), 10)

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.outcomes]


def run(make_lane, body):
    async def main():
        lane = make_lane(asyncio.get_running_loop())
        try:
            await body(lane, Told())
        finally:
            lane.close(5)

    with asyncio.Runner() as runner:
        runner.run(main())


def new_file(path: Path) -> LocalFile:
    return LocalDisk().open(str(path), create=True)


@pytest.mark.parametrize("sizes", [[1], [0, 5, 0, 7], [3] * 5000, [1 << 20, 17]])
def test_a_group_is_written_where_it_belongs(make_lane, tmp_path, sizes):
    parts = [os.urandom(size) for size in sizes]
    parts[0] = memoryview(bytearray(parts[0]))
    file = new_file(tmp_path / "file")

    async def body(lane, told):
        lane.put(GroupWrite(file, parts, 512, True, CommitGuard()), told.done("written"))
        await told.wait(1)
        assert told.outcomes == [("written", None, None)]

    run(make_lane, body)
    assert (tmp_path / "file").read_bytes() == bytes(512) + b"".join(parts)


def test_jobs_of_both_kinds_keep_their_order(make_lane, tmp_path):
    file = new_file(tmp_path / "file")
    seen = []

    async def body(lane, told):
        guard = CommitGuard()
        for number in range(200):
            if number % 3:
                lane.put(GroupWrite(file, [b"%03d " % number], number * 4, False, guard), told.done(number))
            else:
                lane.put(lambda number=number: seen.append((number, file.size())) or number, told.done(number))
        await told.wait(200)
        assert told.names == list(range(200))
        assert [(name, value) for name, value, _ in told.outcomes if name % 3 == 0] == [
            (number, number) for number in range(0, 200, 3)
        ]

    run(make_lane, body)
    # A job in Python ran after the write before it, and before the one after it.
    assert seen == [(number, number * 4) for number in range(0, 200, 3)]


def test_a_job_in_python_runs_in_the_thread_of_the_lane(make_lane):
    async def body(lane, told):
        lane.put(threading.get_ident, told.done("id"))
        await told.wait(1)
        assert told.outcomes[0][1] not in (None, threading.get_ident())

    run(make_lane, body)


def test_after_a_failed_write_nothing_is_done(make_lane, tmp_path):
    path = tmp_path / "file"
    good = new_file(path)
    read_only = LocalDisk().open(str(path), writable=False)

    async def body(lane, told):
        guard = CommitGuard()
        lane.put(GroupWrite(good, [b"before"], 0, True, guard), told.done("before"))
        lane.put(GroupWrite(read_only, [b"never"], 6, True, guard), told.done("failing"))
        lane.put(GroupWrite(good, [b"never"], 6, True, guard), told.done("write"))
        lane.put(lambda: guard.run(good.sync), told.done("sync"))
        await told.wait(4)
        assert told.names == ["before", "failing", "write", "sync"]
        errors = [error for _, _, error in told.outcomes]
        assert errors[0] is None
        assert isinstance(errors[1], OSError)
        assert errors[1].errno == 9
        assert [type(error) for error in errors[2:]] == [EngineFailed, EngineFailed]

    run(make_lane, body)
    assert path.read_bytes() == b"before"


def test_after_a_failed_job_in_python_nothing_is_written(make_lane, tmp_path):
    file = new_file(tmp_path / "file")

    def fail():
        raise OSError("no")

    async def body(lane, told):
        guard = CommitGuard()
        lane.put(lambda: guard.run(fail), told.done("failing"))
        lane.put(GroupWrite(file, [b"never"], 0, True, guard), told.done("write"))
        await told.wait(2)
        assert isinstance(told.outcomes[0][2], OSError)
        assert isinstance(told.outcomes[1][2], EngineFailed)

    run(make_lane, body)
    assert (tmp_path / "file").read_bytes() == b""


def test_what_was_put_is_done_before_the_lane_closes(make_lane, tmp_path):
    file = new_file(tmp_path / "file")

    async def body(lane, told):
        guard = CommitGuard()
        for number in range(50):
            lane.put(GroupWrite(file, [b"x"], number, False, guard), told.done(number))
        lane.close(5)
        lane.close(5)

    run(make_lane, body)
    assert (tmp_path / "file").read_bytes() == b"x" * 50


def test_a_listener_that_fails_does_not_keep_the_others_from_hearing(make_lane):
    async def body(lane, told):
        def broken(value, error):
            raise ValueError("a bug")

        # A loop tells its handler of such a failure, the native lane its log.
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        held = threading.Event()
        lane.put(held.wait, broken)
        for number in range(3):
            lane.put(lambda: None, told.done(number))
        held.set()
        await told.wait(3)
        assert told.names == [0, 1, 2]

    run(make_lane, body)
