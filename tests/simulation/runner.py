"""Seeds into histories, on all cores."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from random import Random

from mainstem.storage.local.engine import LocalEngine
from mainstem.storage.local.merge.merge import run_merge_job
from mainstem.storage.local.settings import EngineSettings
from mainstem.testing.disk import SimulatedDisk
from mainstem.testing.runtime import SimulatedRuntime
from tests.simulation.seed_run import Outcome, run_seed
from tests.simulation.small_limits import SMALL_LIMITS
from tests.simulation.temper import Temper, draw_temper
from tests.simulation.world import World

CHUNK_SEEDS = 10


def open_local_engine(*, disk: SimulatedDisk, runtime: SimulatedRuntime, settings: EngineSettings) -> LocalEngine:
    """The engine under test, with limits that it meets."""
    return LocalEngine.open(disk=disk, runtime=runtime, settings=settings, limits=SMALL_LIMITS)


def run_local_seed(
    seed: int,
    draw: Callable[[Random], Temper] = draw_temper,
    prepare: Callable[[World], None] | None = None,
    tail: int = 25,
) -> Outcome:
    """One history over the local engine."""
    return run_seed(seed, open_local_engine, run_merge=run_merge_job, draw=draw, prepare=prepare, tail=tail)


def run_seeds(seeds: Iterable[int], run: Callable[[int], Outcome] = run_local_seed) -> Iterator[Outcome]:
    """Many histories, in processes of their own, in the order they end."""
    # spawn, not fork: a test run has threads of its own, which a fork would cut off in the middle of something.
    context = multiprocessing.get_context("spawn")
    with context.Pool(os.cpu_count() or 1, initializer=silence) as pool:
        yield from pool.imap_unordered(run, seeds, chunksize=CHUNK_SEEDS)


def silence() -> None:
    """Injected faults make the engine complain; that is not what a run is to report."""
    logging.disable(logging.CRITICAL)


def report(outcome: Outcome) -> str:
    """What a failing seed has to say."""
    history = "\n".join(f"    {line}" for line in outcome.tail)
    return (
        f"seed {outcome.seed}: {outcome.violation}\n  the history ended with\n{history}\n"
        f"  again: make simulate ARGS='--seed {outcome.seed} --verbose'\n"
        f"         python -m tests.simulation --seed {outcome.seed} --verbose"
    )
