"""The merge process as a real child."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.storage.local.merge.job import StateJob, decode_outcome, encode_job
from mainstem.storage.local.merge.process import MergeProcess, read_message, serve
from tests.support.storage.wal_builder import Workspace, plain_batch

pytestmark = pytest.mark.slow
STUCK = "import sys, time; sys.stdin.buffer.read(4); time.sleep(60)"


@pytest.fixture
def process() -> Iterator[MergeProcess]:
    process = MergeProcess()
    yield process
    process.close()


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    space = Workspace(tmp_path)
    space.wal.append(1, plain_batch(50))
    space.wal.end_group()
    space.wal.end_file()
    return space


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.01)
    pytest.fail("the child lives on")


def test_jobs_one_after_the_other(process: MergeProcess, space: Workspace) -> None:
    assert process.pid is None, "started when first needed"
    outcome = decode_outcome(process.run(encode_job(space.wal_job())))
    assert space.content(outcome.runs) == space.wal.expected
    pid = process.pid
    again = decode_outcome(process.run(encode_job(space.runs_job(outcome.runs, first_run_id=9))))
    assert space.content(again.runs) == space.wal.expected
    assert process.pid == pid
    assert os.getpriority(os.PRIO_PROCESS, pid or 0) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)


def test_started_from_a_thread_that_ends(process: MergeProcess, space: Workspace) -> None:
    job = encode_job(space.wal_job())
    for _ in range(2):
        thread = threading.Thread(target=process.run, args=(job,))
        thread.start()
        thread.join()
    pid = process.pid
    assert decode_outcome(process.run(job)).error is None
    assert process.pid == pid


def test_dead_child_fails_its_job_and_is_replaced(process: MergeProcess, space: Workspace) -> None:
    job = encode_job(space.wal_job())
    process.run(job)
    first = process.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_until_gone(first)
    failed = decode_outcome(process.run(job))
    assert failed.error is not None
    assert failed.runs == []
    assert decode_outcome(process.run(job)).error is None
    assert process.pid not in (None, first)


def test_a_bug_in_a_job_is_an_error_too(process: MergeProcess, capfd: pytest.CaptureFixture[str]) -> None:
    outcome = decode_outcome(process.run(b"not a job"))
    assert "exit status 1" in (outcome.error or "")
    assert "Traceback" in capfd.readouterr().err
    assert decode_outcome(process.run(encode_job(StateJob(["/nowhere"], "/nowhere", 0, 0)))).error is not None


def test_interrupt_of_the_terminal_is_not_for_the_child(process: MergeProcess, space: Workspace) -> None:
    job = encode_job(space.wal_job())
    process.run(job)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    assert decode_outcome(process.run(job)).error is None


def test_close_in_the_middle_of_a_job() -> None:
    process = MergeProcess([sys.executable, "-c", STUCK])
    outcomes: list[bytes] = []
    thread = threading.Thread(target=lambda: outcomes.append(process.run(b"any")))
    thread.start()
    while process.pid is None:
        time.sleep(0.01)
    pid = process.pid
    process.close()
    thread.join(10)
    assert decode_outcome(outcomes[0]).error is not None
    wait_until_gone(pid)
    assert decode_outcome(process.run(b"any")).error == "the merge process is closed"


def test_missing_program_is_an_error() -> None:
    process = MergeProcess(["/nowhere/program"])
    assert decode_outcome(process.run(b"")).error is not None
    process.close()


def test_ends_when_its_input_closes_even_in_a_job() -> None:
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import time\nfrom mainstem.storage.local.merge import process as m\n"
            "m.run_merge_job = lambda disk, job: time.sleep(60)\nm.main()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write((1).to_bytes(4, "little") + b"x")
    child.stdin.close()
    assert child.wait(10) == 0
    child.stdout.close()


def test_ends_with_its_parent(space: Workspace) -> None:
    """A parent that is killed takes the child along, though the pipe to it is held open by someone else."""
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\nfrom mainstem.storage.local.merge.process import MergeProcess\n"
            "process = MergeProcess(); process.run(bytes.fromhex(sys.argv[1])); print(process.pid, flush=True)\ntime.sleep(60)",
            encode_job(space.wal_job()).hex(),
        ],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until_gone(pid)


def test_messages() -> None:
    out = io.BytesIO()
    serve(io.BytesIO(b"\3\0\0\0abc\0\0\0\0"), out, lambda job: job[::-1])
    assert out.getvalue() == b"\3\0\0\0cba\0\0\0\0"
    for cut in range(1, 7):
        with pytest.raises(EOFError):
            read_message(io.BytesIO(b"\3\0\0\0abc"[:cut]))


def test_nothing_else_reaches_standard_output(space: Workspace) -> None:
    code = "from mainstem.storage.local.merge import process as m\nold = m.run_merge_job\n"
    code += "m.run_merge_job = lambda disk, job: (print('noise', flush=True), old(disk, job))[1]\nm.main()"
    process = MergeProcess([sys.executable, "-c", code])
    try:
        for _ in range(2):
            assert decode_outcome(process.run(encode_job(space.wal_job()))).error is None
    finally:
        process.close()
