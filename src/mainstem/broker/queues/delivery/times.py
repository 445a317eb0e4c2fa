"""How long deliveries to one client have waited for their acknowledgement."""

from __future__ import annotations

from collections import deque


class DeliveryTimes:
    """A time for each run of deliveries, not for each delivery."""

    def __init__(self) -> None:
        self._runs: deque[tuple[int, float]] = deque()
        """The first tag of each, and when it was delivered."""

    def add(self, first_tag: int, now: float) -> None:
        """A run was delivered. `now_ms=0` means: the next question tells the time."""
        self._runs.append((first_tag, now))

    def waiting(self, oldest: int, now: float) -> float:
        """For how many seconds the oldest delivery that is left has waited; tag 0: there is none."""
        runs = self._runs
        if not oldest:
            runs.clear()
            return 0.0
        while len(runs) > 1 and runs[1][0] <= oldest:
            runs.popleft()
        if not runs:
            return 0.0
        if runs[0][1] == 0.0:
            runs[0] = (runs[0][0], now)
        return now - runs[0][1]
