"""A real broker under load from real clients."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.support.crashing.load import Load, wait_progress
from tests.support.serving.lasting_broker import LastingBroker

PROGRESS_MIN = 5
"""Answers that every watched client must get between two kills, so that each kill meets all of them at work."""
MORE_SECONDS_MAX = 0.25


class BrokerVictim:
    """The part of a victim that every protocol shares."""

    def __init__(self, broker: LastingBroker, watched: Sequence[Load]) -> None:
        self._broker = broker
        self._watched = watched

    def start(self) -> None:
        self._broker.start()

    def work(self, chance: Random) -> None:
        wait_progress(self._watched, PROGRESS_MIN)
        self._watched[0].join(chance.random() * MORE_SECONDS_MAX)

    def kill(self) -> None:
        self._broker.kill()

    def check_stopped(self, chance: Random) -> None:
        """Clients are asked, not files."""
