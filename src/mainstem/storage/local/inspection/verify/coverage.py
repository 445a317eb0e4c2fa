"""Whether the files that hold a log hold all of it: every offset from its start to its end, once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mainstem.storage.local.inspection.finding import Finding, damage
from mainstem.storage.local.inspection.survey import Survey
from mainstem.storage.local.inspection.verify.tails import Tails
from mainstem.storage.local.runs.run_file import RunIndex


class Part(NamedTuple):
    """What one file covers of a log."""

    first: int
    next: int
    path: str


def check_coverage(survey: Survey, runs: list[tuple[str, RunIndex]], tails: Tails, wal: str) -> Iterator[Finding]:
    """Gaps and overlaps between files, above the start of each log.

    Compaction by key makes none: a run covers what was taken out of it.
    """
    parts: dict[int, list[Part]] = {}
    for path, index in runs:
        for log, first, next_ in zip(index.logs, index.firsts, index.nexts, strict=True):
            parts.setdefault(log, []).append(Part(first, next_, path))
    for log, entry in survey.state.logs.items():
        found = sorted(parts.get(log, ()))
        found += [Part(batch.first, batch.next, wal) for batch in tails.batches(log, survey.state.merged)]
        covered = entry.start
        for part in found:
            if part.next <= entry.start:
                continue
            if part.first > covered:
                what = f"offsets {covered} to {part.first - 1} are missing before this file's {part.first}"
                yield damage(part.path, 0, what, (log,))
            elif part.first < covered and covered > entry.start:
                yield damage(part.path, 0, f"offsets from {part.first} on are in another file too", (log,))
            covered = max(covered, part.next)
