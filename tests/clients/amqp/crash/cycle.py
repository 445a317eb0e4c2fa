"""Let clients work for a moment, kill their broker, start it again; at the end, look."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, cast

from tests.clients.amqp.crash.history import Broken, History, check_delivered, check_stored
from tests.clients.amqp.crash.loads import (
    DEAD,
    DELAYS,
    DOOMED,
    LATER,
    WORK,
    ArrivalLoad,
    Load,
    PublishLoad,
    RejectLoad,
    SettleLoad,
    declare,
)
from tests.clients.amqp.serving import PATIENCE_S, Broker, depth, serving
from tests.clients.kafka.crash.cycle import read_all

CYCLES_PER_DIRECTORY = 25
"""Everything is read at the end of each: a directory must not grow for ever."""
PROGRESS_MIN = 5
"""Answers that every client must get between two kills, so that each kill meets all of them at work."""
MORE_SECONDS_MAX = 0.25
TWICE_SHARE = 0.15
"""Of the kills: again, as soon as the broker is ready, when its clients are just coming back."""
DELAY_MS_MAX = 3_000
END_S = 60

Between = Callable[[int, Broker], None]
"""Called with the number of the cycle between a kill and the start that follows."""


class CrashTest:
    """One directory after the other, one cycle after the other."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        tell: Callable[[str], None] = lambda text: None,
        between: Between = lambda cycle, broker: None,
    ) -> None:
        self._directory = directory
        self._random = Random(seed)
        self._tell = tell
        self._between = between
        self.confirmed = 0
        self.settled = 0
        self.delayed = 0
        self.dead = 0

    def run(self, cycles: int) -> None:
        """Raises Broken, or whatever else goes wrong."""
        for era, first in enumerate(range(0, cycles, CYCLES_PER_DIRECTORY)):
            self._run_era(self._directory / f"node-{era}", min(CYCLES_PER_DIRECTORY, cycles - first))

    def _run_era(self, data_dir: Path, cycles: int) -> None:
        history = History()
        with serving(data_dir) as broker:
            declare(broker)
            publishers, consumers = self._loads(broker, history)
            for load in (*publishers, *consumers):
                load.start()
            try:
                for cycle in range(cycles):
                    self._cycle(cycle, broker, history, [*publishers, *consumers])
                for load in publishers:
                    load.finish()
                self._wait_drained(broker, history, consumers)
            finally:
                for load in (*publishers, *consumers):
                    load._is_stopping.set()
            for load in consumers:
                load.finish()
            check_delivered(history)
            check_stored("work", history.confirmed, stored(broker, WORK))
            check_stored("doomed", history.doomed, stored(broker, DOOMED))
            check_stored("dead letters", history.doomed, stored(broker, DEAD), in_order=False)
            check_stored("delayed", history.delayed, stored(broker, LATER), in_order=False)
        self.confirmed += len(history.confirmed)
        self.settled += len(history.settled)
        self.delayed += len(history.delayed)
        self.dead += len(history.doomed)

    def _loads(self, broker: Broker, history: History) -> tuple[list[Load], list[Load]]:
        def delay() -> dict[str, Any]:
            return {"x-delay": self._random.randint(1, DELAY_MS_MAX)}

        publishers: list[Load] = [
            PublishLoad(broker, history, 0, history.confirmed, "", WORK),
            PublishLoad(broker, history, 1, history.confirmed, "", WORK),
            PublishLoad(broker, history, 0, history.doomed, "", DOOMED),
            PublishLoad(broker, history, 0, history.delayed, DELAYS, LATER, delay),
        ]
        consumers: list[Load] = [
            SettleLoad(broker, history, self._random.randrange(1 << 30)),
            RejectLoad(broker, history),
            ArrivalLoad(broker, history),
        ]
        return publishers, consumers

    def _cycle(self, cycle: int, broker: Broker, history: History, loads: list[Load]) -> None:
        began = time.monotonic()
        wait_progress(loads, PROGRESS_MIN)
        loads[0].join(self._random.random() * MORE_SECONDS_MAX)
        broker.kill()
        self._between(cycle, broker)
        broker.start()
        if self._random.random() < TWICE_SHARE:
            broker.kill()
            broker.start()
        self._tell(
            f"cycle {cycle}: {len(history.confirmed)} confirmed, {len(history.settled)} settled, "
            f"{len(history.doomed)} doomed, {len(history.arrived)} of {len(history.delayed)} delayed came, "
            f"{time.monotonic() - began:.2f} s"
        )

    def _wait_drained(self, broker: Broker, history: History, consumers: list[Load]) -> None:
        """Until everything was consumed, and everything delayed has come."""
        end = time.monotonic() + END_S
        with broker.channel() as channel:
            while (
                history.confirmed - {value for value, _ in list(history.delivered)}
                or depth(channel, WORK)
                or depth(channel, DOOMED)
                or history.delayed - history.arrived
            ):
                for load in consumers:
                    if load.failure is not None:
                        raise Broken(f"{load.name}: {load.failure!r}") from load.failure
                if time.monotonic() > end:
                    missing = history.delayed - history.arrived
                    raise Broken(
                        f"not drained: {depth(channel, WORK)} of work, "
                        f"{depth(channel, DOOMED)} doomed, {len(missing)} delayed {sorted(missing)[:5]}"
                    )
                time.sleep(0.1)


def stored(broker: Broker, queue: str) -> list[bytes]:
    """All that the log of a queue holds: it is a topic, and a reader of topics is given all of it."""

    class Address:
        address = broker.kafka_address

    return [value for _, value in read_all(cast(Any, Address), queue, 1)[0]]


def wait_progress(loads: list[Load], count: int) -> None:
    """Until each has got so many more answers."""
    wanted = [load.progress + count for load in loads]
    end = time.monotonic() + PATIENCE_S
    for load, progress in zip(loads, wanted, strict=True):
        while load.progress < progress:
            if load.failure is not None:
                raise Broken(f"{load.name}: {load.failure!r}") from load.failure
            if time.monotonic() > end:
                raise Broken(f"{load.name} is not answered")
            load.join(0.01)
