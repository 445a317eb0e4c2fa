"""The end of acquisitions: what becomes of their records, and whatever is to happen with it, in one commit.

The commit is made by the outbox of queues: so it is in order with all that is settled and published there, and what a
queue settles is in it, as are dead letters to queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mainstem.broker.acquisitions.holds import Part
from mainstem.broker.queues import Outbox
from mainstem.coordination.acquisitions.acquisition import Acquisition, Condition
from mainstem.coordination.acquisitions.acquisitions import AcquisitionTable
from mainstem.coordination.commit_addition import SealedAddition
from mainstem.model.errors import MainstemError
from mainstem.storage.contract import Commit, CommitResult, Committed, Mutation


class EndedAcquisition(NamedTuple):
    """One acquisition, what it comes to, and what becomes of its records."""

    one: Acquisition
    condition: Condition | None
    """None: nothing is to be left of it."""
    part: Part


class Settlement:
    """Ends acquisitions with a commit of somebody else's, or with one of its own."""

    def __init__(
        self, outbox: Outbox, table: AcquisitionTable, endings: Sequence[EndedAcquisition], now_ms: int
    ) -> None:
        self._outbox = outbox
        self._table = table
        self._endings = endings
        self._now_ms = now_ms

    async def commit(self, beside: Commit) -> CommitResult:
        """All of it, or nothing. May be tried again when it was refused."""
        attempt = _Attempt(self._table, self._endings, self._state(), beside)
        puts = [put for ending in self._endings for put in ending.part.letters()]
        try:
            await self._outbox.commit_transaction(puts, settle=attempt.apply, addition=attempt)
        except MainstemError as error:
            return error
        return Committed(attempt.bases)

    def _state(self) -> list[Mutation]:
        table, state = self._table, []
        for one, condition, _ in self._endings:
            if condition is None:
                state += table.decide_forget(one)
            else:
                state += table.decide_end(one, condition, self._now_ms)
        return state


class _Attempt:
    """What is added to the outbox's commit."""

    def __init__(
        self, table: AcquisitionTable, endings: Sequence[EndedAcquisition], state: Sequence[Mutation], beside: Commit
    ) -> None:
        self._table = table
        self._endings = endings
        self._state = state
        self._beside = beside
        self.bases: Sequence[int] = ()

    def apply(self) -> None:
        """At once before the commit is sealed."""
        for ending in self._endings:
            ending.part.apply()

    def seal(self) -> SealedAddition:
        """The commit of others, then ours."""
        appends = [append for ending in self._endings for append in ending.part.appends()]
        state = [mutation for ending in self._endings for mutation in ending.part.state()]
        beside = self._beside
        return SealedAddition([*beside.appends, *appends], [*beside.state, *state, *self._state], beside.changes)

    def resolved(self, outcome: Sequence[int] | MainstemError) -> None:
        """Before anybody else hears of it."""
        if isinstance(outcome, MainstemError):
            for ending in self._endings:
                ending.part.revert()
            return
        self.bases = outcome
        for mutation in self._state:
            self._table.replay(mutation.key, mutation.value)
        for ending in self._endings:
            ending.part.done()
