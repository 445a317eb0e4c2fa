"""Which runs are merged with which: size classes with too many runs, and neighbours in time."""

from __future__ import annotations

from typing import NamedTuple

from mainstem.storage.local.read.file_set import FileSet
from mainstem.storage.local.runs.stored_file import RunFile
from mainstem.storage.runtime.runtime import Runtime
from mainstem.storage.runtime.steps import Steps, in_read_lane

TIER_MAX = 2
CROWDED_SHARE_MIN = 0.5
"""What runs of a crowded tier must be of all that would have to be merged with them."""


class Crowd(NamedTuple):
    """Runs that shall become fewer, of the next tier."""

    tier: int
    runs: list[RunFile]


class Tiers:
    """Size classes of the live runs."""

    def __init__(self, runtime: Runtime, files: FileSet, tier_runs_max: int) -> None:
        self._runtime = runtime
        self._files = files
        self._tier_runs_max = tier_runs_max

    def crowded(self) -> Steps[Crowd | None]:
        """The oldest runs of a size class that has too many, with all that must be merged with them.

        Runs that lie among large ones stay as they are: to have a few less of them, what is large would be copied each time.
        """
        while (tier := self._oldest_of_a_tier()) is not None:
            inputs = yield from self.convex(tier)
            if sum(run.bytes for run in tier) >= CROWDED_SHARE_MIN * sum(run.bytes for run in inputs):
                return Crowd(tier[0].index.tier, inputs)
            tier[0].stays = True
        return None

    def _oldest_of_a_tier(self) -> list[RunFile] | None:
        tiers: dict[tuple[int, int], list[RunFile]] = {}
        for run in self._files.runs.values():
            if run.adopted is None and run.index.tier < TIER_MAX and not run.stays:
                tiers.setdefault((run.index.retention_class, run.index.tier), []).append(run)
        for runs in tiers.values():
            if len(runs) >= self._tier_runs_max:
                return sorted(runs, key=lambda run: run.ages)[: self._tier_runs_max]
        return None

    def convex(self, chosen: list[RunFile]) -> Steps[list[RunFile]]:
        """The chosen runs and all that lie between them in time and share logs with them.

        Only neighbours may become one: a log's offsets in one run must not surround those in another.
        """
        runs = list(self._files.runs.values())
        # Every log of every run is looked at: not on the loop.
        grown: list[RunFile] = yield in_read_lane(self._runtime, lambda: _convex(chosen, runs))
        return grown


def _convex(chosen: list[RunFile], runs: list[RunFile]) -> list[RunFile]:
    inputs = {run.index.id: run for run in chosen}
    while True:
        oldest = min(run.ages[0] for run in inputs.values())
        newest = max(run.ages[1] for run in inputs.values())
        logs: set[int] = set().union(*(run.index.logs for run in inputs.values()))
        between = [
            run
            for run in runs
            if run.index.id not in inputs
            and run.ages[0] <= newest
            and run.ages[1] >= oldest
            and not logs.isdisjoint(run.index.logs)
        ]
        if not between:
            return sorted(inputs.values(), key=lambda run: run.ages)
        inputs.update((run.index.id, run) for run in between)
