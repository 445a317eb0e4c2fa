"""What of a log a subscription gives out, and when: decided once, before anybody is given it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mainstem.wire.messages.message import Message


class Sieve(NamedTuple):
    """Of one subscription."""

    selects: Callable[[Message], bool] | None = None
    """Whether a message is for it; always the same answer for the same one. Others are settled. None: all are."""
    due_ms: Callable[[Message], int] | None = None
    """Not before when a message is given out; others who read the log see it at once. 0: at once."""
