"""The commit thread in C and the one in Python: the same jobs done, the same failures, the same file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.storage.runtime.async_runtime import WorkerThreads
from mainstem.storage.runtime.disk import LocalDisk
from mainstem.storage.runtime.group_write import CommitGuard, GroupWrite
from tests.support.both_ways import both_ways

COMPILED, _ = both_ways("mainstem.storage.runtime.commit_thread")

JOBS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.binary(max_size=40), max_size=5), st.booleans()),
        st.tuples(st.just("many parts"), st.integers(1020, 2100), st.booleans()),
        st.tuples(st.just("call"), st.integers(0, 9)),
        st.tuples(st.just("bad write")),
        st.tuples(st.just("bad call")),
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("commits") / "file"


def fail() -> None:
    raise OSError(28, "no room")


async def do(make, path: Path, jobs) -> list[object]:
    loop = asyncio.get_running_loop()
    disk = LocalDisk()
    file = disk.open(str(path), create=True)
    read_only = disk.open(str(path), writable=False)
    thread = make(loop)
    guard = CommitGuard()
    told: list[object] = []
    done = asyncio.Event()

    def finished(value, error) -> None:
        told.append((value, type(error).__name__, getattr(error, "errno", None)))
        if len(told) == len(jobs):
            done.set()

    position = 0
    for name, *arguments in jobs:
        if name in ("write", "many parts"):
            parts, sync = arguments
            parts = [b"%04d" % number for number in range(parts)] if name == "many parts" else parts
            thread.put(GroupWrite(file, parts, position, sync, guard), finished)
            position += sum(map(len, parts)) + 3
        elif name == "bad write":
            thread.put(GroupWrite(read_only, [b"never"], position, False, guard), finished)
        elif name == "bad call":
            thread.put(lambda: guard.run(fail), finished)
        else:
            thread.put(lambda value=arguments[0]: guard.run(lambda: None) or value, finished)
    if jobs:
        async with asyncio.timeout(30):
            await done.wait()
    thread.close(5)
    file.close()
    read_only.close()
    return told


@given(JOBS)
def test_jobs_have_the_same_outcome(path, jobs):
    found = []
    for make in (lambda loop: COMPILED.CommitThread(loop, "native"), lambda loop: WorkerThreads(loop, "python", 1)):
        path.unlink(missing_ok=True)
        with asyncio.Runner() as runner:
            told = runner.run(do(make, path, jobs))
        found.append((told, path.read_bytes()))
    assert found[0] == found[1]
