"""Start the writer, let it run for a moment, kill it, look; and again."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.crash.verifier import Lost, verify
from tests.crash.workload import Written

ROOT = Path(__file__).parent.parent.parent
RUN_SECONDS_MAX = 0.8
OPEN_SECONDS_MAX = 20.0
CYCLES_PER_DIRECTORY = 25
"""Everything is read after each cycle: a directory must not grow for ever."""
VERIFY_SHARE = 0.7
"""In the other cycles the next writer recovers by itself what the last one left."""


class CrashTest:
    """One directory after the other, one cycle after the other."""

    def __init__(self, directory: Path, seed: int, tell: Callable[[str], None] = lambda text: None) -> None:
        self._directory = directory / "node"
        self._rng = Random(seed)
        self._tell = tell
        self._acknowledged: list[Written] = []
        self._epoch = 0
        self.total = 0

    def run(self, cycles: int) -> None:
        """Raises Lost, or whatever else goes wrong."""
        for cycle in range(cycles):
            if cycle % CYCLES_PER_DIRECTORY == 0:
                self._begin_anew()
            self._cycle()
            if self._rng.random() < VERIFY_SHARE or cycle % CYCLES_PER_DIRECTORY == CYCLES_PER_DIRECTORY - 1:
                began = time.perf_counter()
                records = verify(str(self._directory), self._acknowledged)
                seconds = time.perf_counter() - began
                self._tell(f"cycle {cycle}: {len(self._acknowledged)} acknowledged, {records} records, {seconds:.2f} s")
        verify(str(self._directory), self._acknowledged)

    def _begin_anew(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        self._acknowledged = []
        self._epoch = 0

    def _cycle(self) -> None:
        self._epoch += 1
        seed = self._rng.randrange(1 << 30)
        command = [sys.executable, "-m", "tests.crash.writer", str(self._directory), str(self._epoch), str(seed)]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        environment = {**os.environ, "PYTHONPATH": path}
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, start_new_session=True
        ) as writer:
            try:
                assert writer.stdout is not None
                said = self._listen(writer, writer.stdout.fileno())
            finally:
                writer.kill()
            rest = writer.stdout.read()
        assert writer.returncode == -signal.SIGKILL, f"the writer ended by itself with {writer.returncode}"
        self._take(said + rest)

    def _listen(self, writer: subprocess.Popen[bytes], pipe: int) -> bytes:
        """What it says until it is to be killed: at any moment, now and then while it is still recovering."""
        said = b""
        ready = False
        run_seconds = self._rng.random() * RUN_SECONDS_MAX
        early = self._rng.random() < 0.15
        deadline = time.monotonic() + OPEN_SECONDS_MAX
        while time.monotonic() < deadline:
            if not ready and (b"open\n" in said if early else b"ready\n" in said):
                ready = True
                deadline = time.monotonic() + (run_seconds * 0.02 if early else run_seconds)
            readable, _, _ = select.select([pipe], [], [], max(0.0, min(0.01, deadline - time.monotonic())))
            if readable:
                part = os.read(pipe, 1 << 16)
                if not part:
                    break
                said += part
        if not ready:
            raise Lost(f"the writer did not get ready; it said {said[-500:]!r}")
        return said

    def _take(self, said: bytes) -> None:
        # The last line may be cut off.
        for line in said.decode().split("\n")[:-1]:
            word, _, rest = line.partition(" ")
            if word == "broken":
                raise Lost(rest)
            if word == "written":
                self._acknowledged.append(Written(*map(int, rest.split())))
                self.total += 1
