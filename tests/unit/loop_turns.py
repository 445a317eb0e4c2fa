"""How long a turn of the event loop takes: what one callback keeps all others waiting for."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from unittest import mock

TURN_S_MAX = 0.05


class Turns:
    """What was seen."""

    longest_s = 0.0
    """In the processor's time: another process that takes the processor away is not counted."""


@contextlib.contextmanager
def turns_measured() -> Iterator[Turns]:
    """Look at every callback of the event loop."""
    turns = Turns()
    run = asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        turns.longest_s = max(turns.longest_s, time.thread_time() - began)

    with mock.patch.object(asyncio.Handle, "_run", measured):
        yield turns
