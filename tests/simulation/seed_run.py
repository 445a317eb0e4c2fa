"""One seed: draw a world, live through its history, tell what became of it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from mainstem.testing.disk import SimulatedDisk
from tests.simulation.history import ROLES, SCOPES, History
from tests.simulation.invariants import Violation
from tests.simulation.temper import Temper, draw_temper
from tests.simulation.world import OpenEngine, World


class Outcome(NamedTuple):
    """What became of a seed."""

    seed: int
    violation: str | None
    invariant: str | None
    tail: tuple[str, ...]
    commits: int
    recoveries: int
    steps: int


def run_seed(
    seed: int,
    open_engine: OpenEngine,
    *,
    run_merge: Callable[[SimulatedDisk, bytes], bytes] | None,
    draw: Callable[[Random], Temper] = draw_temper,
    prepare: Callable[[World], None] | None = None,
    tail: int = 25,
    make_world: type[World] = World,
) -> Outcome:
    """One history, from its seed alone."""
    rng = Random(seed)
    temper = draw(rng)
    world: World | None = None
    violation: str | None = None
    invariant: str | None = None
    try:
        world = make_world(rng, temper.settings, open_engine, run_merge=run_merge, scopes=SCOPES, roles=ROLES)
        if prepare is not None:
            prepare(world)
        History(rng, temper, world).run()
    except Exception as error:  # noqa: BLE001  # whatever it is, the seed is what it takes to see it again
        violation, invariant = describe(error)
    told = () if world is None or violation is None else tuple(text % values for text, values in world.history[-tail:])
    return Outcome(
        seed,
        violation,
        invariant,
        told,
        0 if world is None else world.next_ordinal,
        0 if world is None else world.recoveries,
        0 if world is None else world.runtime.steps,
    )


def describe(error: Exception) -> tuple[str, str]:
    """A violation by its own words; anything else with the place where it was raised."""
    if isinstance(error, Violation):
        cause = error.__cause__
        text = str(error)
        if cause is not None:
            text += "\n" + "".join(traceback.format_exception(cause)[-6:])
        return text, error.invariant.__name__
    return "".join(traceback.format_exception(error)[-8:]), type(error).__name__
