"""Clients at work, each in its own thread, that outlive every kill of their broker."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence

from tests.support.crashing.promises import Broken

PATIENCE_S = 30
GRACE_S = 5
"""For clients to end after something has gone wrong: what they say then is of no interest."""


class Load(threading.Thread):
    """One client. An error in its thread is raised by `finish`."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.progress = 0
        """Answers that count; only grows."""
        self.failure: BaseException | None = None
        self._stop_asked = threading.Event()

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - of another thread: raised where this one is awaited
            self.failure = error

    def work(self) -> None:
        """Go on as long as `is_wanted`, whatever happens to the broker."""
        raise NotImplementedError

    @property
    def is_wanted(self) -> bool:
        return not self._stop_asked.is_set()

    def stop(self) -> None:
        self._stop_asked.set()

    def check(self) -> None:
        """Raise what went wrong so far."""
        if self.failure is not None:
            raise Broken(f"{self.name}: {self.failure!r}") from self.failure

    def finish(self) -> None:
        """Stop, wait for the end, and raise what went wrong."""
        self.stop()
        self.join(2 * PATIENCE_S)
        self.check()
        if self.is_alive():
            raise Broken(f"{self.name} does not end")


@contextlib.contextmanager
def at_work(loads: Sequence[Load]) -> Iterator[None]:
    """All of them, until the end of the block."""
    for load in loads:
        load.start()
    try:
        yield
    except BaseException:
        for load in loads:
            load.stop()
        for load in loads:
            load.join(GRACE_S)
        raise
    for load in loads:
        load.finish()


def wait_progress(loads: Sequence[Load], count: int) -> None:
    """Until each has got `count` more answers."""
    wanted = [load.progress + count for load in loads]
    end = time.monotonic() + PATIENCE_S
    for load, progress in zip(loads, wanted, strict=True):
        while load.progress < progress:
            load.check()
            if time.monotonic() > end:
                raise Broken(f"{load.name} is not answered")
            load.join(0.01)
