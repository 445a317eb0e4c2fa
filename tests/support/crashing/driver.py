"""The cycle of every crash test: start, load, kill, restart, check. What is killed, and what is checked, is passed in."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Protocol

CYCLES_PER_DIRECTORY = 25
"""Everything is read at the end of each directory, so a directory must not grow for ever."""
TWICE_SHARE = 0.15
"""Share of cycles with a second kill as soon as the victim has started, while it recovers or its clients come back."""
SECOND_KILL_S_MAX = 0.02

Between = Callable[[int], None]
"""Called with the number of the cycle, between a kill and the start that follows."""


class Victim(Protocol):
    """A process that is killed, and its load. It is running when the driver gets it."""

    def start(self) -> None:
        """Start it again on the same data."""

    def work(self, chance: Random) -> None:
        """Return when a kill may come: the load is at work."""

    def kill(self) -> None:
        """End it with SIGKILL."""

    def check_stopped(self, chance: Random) -> None:
        """Check what can be checked while nothing runs."""

    def check_running(self) -> str:
        """Check what can be checked under load. Answers how far the load is."""

    def verify(self) -> Mapping[str, int]:
        """End the load, and check everything. Answers what was checked, by name and count."""


OpenVictim = Callable[[Path, Random], AbstractContextManager[Victim]]
"""Starts a victim and its load on an empty directory."""


class CrashTest:
    """One directory after the other, one cycle after the other."""

    def __init__(
        self,
        open_victim: OpenVictim,
        directory: Path,
        seed: int,
        report: Callable[[str], None] = lambda text: None,
        between: Between = lambda cycle: None,
    ) -> None:
        self._open_victim = open_victim
        self._directory = directory
        self._chance = Random(seed)
        self._report = report
        self._between = between
        self.totals: Counter[str] = Counter()

    def run(self, cycles: int) -> None:
        """Raises Broken, or whatever else goes wrong."""
        for number, first in enumerate(range(0, cycles, CYCLES_PER_DIRECTORY)):
            directory = self._directory / f"node-{number}"
            with self._open_victim(directory, self._chance) as victim:
                for cycle in range(min(CYCLES_PER_DIRECTORY, cycles - first)):
                    self._cycle(cycle, victim)
                self.totals.update(victim.verify())

    def _cycle(self, cycle: int, victim: Victim) -> None:
        began = time.monotonic()
        victim.work(self._chance)
        victim.kill()
        self._between(cycle)
        victim.check_stopped(self._chance)
        victim.start()
        if self._chance.random() < TWICE_SHARE:
            time.sleep(self._chance.random() * SECOND_KILL_S_MAX)
            victim.kill()
            victim.start()
        self._report(f"cycle {cycle}: {victim.check_running()}, {time.monotonic() - began:.2f} s")


def forgetting(directory: Path) -> Between:
    """A disk that forgets what it had synced: after the second kill, the data is as it was after the first."""
    data, earlier = directory / "node-0", directory / "earlier"

    def forget(cycle: int) -> None:
        if cycle == 0:
            shutil.copytree(data, earlier)
        elif cycle == 1:
            shutil.rmtree(data)
            shutil.copytree(earlier, data)

    return forget
