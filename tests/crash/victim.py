"""The process that writes: started, heard and killed; afterwards its directory is read."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

from tests.crash.verifier import verify
from tests.crash.workload import Written
from tests.support.crashing.promises import Broken

ROOT = Path(__file__).parents[2]
RUN_SECONDS_MAX = 0.8
OPEN_SECONDS_MAX = 20.0
VERIFY_SHARE = 0.7
"""Share of kills after which everything is read. After the others the next writer recovers what the last one left."""


class EngineVictim:
    """One directory, and the writer that works on it."""

    def __init__(self, directory: Path, chance: Random) -> None:
        self._directory = directory
        self._chance = chance
        self._acknowledged: list[Written] = []
        self._epoch = 0
        self._records = 0
        self.start()

    def start(self) -> None:
        """Return when the engine is open; it may still recover."""
        self._epoch += 1
        seed = self._chance.randrange(1 << 30)
        command = [sys.executable, "-m", "tests.crash.writer", str(self._directory), str(self._epoch), str(seed)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        self._writer = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, start_new_session=True
        )
        self._said = b""
        self._listen_for(b"open\n")

    def work(self, chance: Random) -> None:
        self._listen_for(b"ready\n")
        deadline = time.monotonic() + chance.random() * RUN_SECONDS_MAX
        while self._listen(deadline):
            pass

    def _listen_for(self, line: bytes) -> None:
        deadline = time.monotonic() + OPEN_SECONDS_MAX
        while line not in self._said:
            if not self._listen(deadline):
                raise Broken(f"the writer did not say {line!r}, but {self._said[-500:]!r}")

    def _listen(self, deadline: float) -> bool:
        """Hear what the writer says next. False if it says no more until the deadline."""
        assert self._writer.stdout is not None
        pipe = self._writer.stdout.fileno()
        readable, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(pipe, 1 << 16) if readable else b""
        self._said += part
        return bool(part) and time.monotonic() < deadline

    def kill(self) -> None:
        self._writer.kill()
        rest, _ = self._writer.communicate()
        status = self._writer.returncode
        assert status == -signal.SIGKILL, f"the writer ended by itself with {status}"
        self._note(self._said + rest)

    def _note(self, said: bytes) -> None:
        # The last line may be cut off.
        for line in said.decode().split("\n")[:-1]:
            word, _, rest = line.partition(" ")
            if word == "broken":
                raise Broken(rest)
            if word == "written":
                self._acknowledged.append(Written(*map(int, rest.split())))

    def check_stopped(self, chance: Random) -> None:
        if chance.random() < VERIFY_SHARE:
            self._records = verify(str(self._directory), self._acknowledged)

    def check_running(self) -> str:
        return f"{len(self._acknowledged)} acknowledged, {self._records} records when last read"

    def verify(self) -> Mapping[str, int]:
        self.kill()
        verify(str(self._directory), self._acknowledged)
        return {"acknowledged": len(self._acknowledged)}

    def close(self) -> None:
        """End the writer if it still runs."""
        if self._writer.poll() is None:
            self._writer.kill()
            self._writer.communicate()


@contextlib.contextmanager
def engine_at_work(directory: Path, chance: Random) -> Iterator[EngineVictim]:
    """A writer on an empty directory."""
    directory.mkdir(parents=True)
    victim = EngineVictim(directory, chance)
    try:
        yield victim
    finally:
        victim.close()
