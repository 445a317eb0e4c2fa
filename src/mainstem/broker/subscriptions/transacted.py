"""Settling inside a transaction: messages are settled by the commit that ends it, beside its markers and offsets.

Until then the transaction holds them: their consumer may go, and no lease ends. What another transaction settles, or nobody
holds, is a conflict. After a crash nothing is held: the messages are given out again, and the end of the transaction settles
none of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.broker.queues import Message, Queues
from mainstem.coordination.commit_addition import SealedAddition
from mainstem.coordination.errors import SettlementConflict
from mainstem.model.errors import MainstemError
from mainstem.storage.contract import Commit, CommitResult, Committed

__all__ = ["TransactedSettlements"]

MESSAGES_MAX = 100_000
"""Messages that one transaction settles."""


class TransactedSettlements:
    """Of all transactions, by name."""

    def __init__(self, queues: Queues) -> None:
        self._outbox = queues.outbox
        self._settling = queues.settling
        self._held: dict[str, list[Message]] = {}

    def add(self, name: str, messages: Sequence[Message]) -> None:
        """The transaction settles these, all or none. Raises SettlementConflict."""
        if len(self._held.get(name, ())) + len(messages) > MESSAGES_MAX:
            raise SettlementConflict(f"transaction {name} settles more than {MESSAGES_MAX} messages")
        for message in messages:
            if message.lane.unsettled.get(message.offset) is not message:
                raise SettlementConflict(
                    f"offset {message.offset} of log {message.lane.log}: nobody holds it, or another transaction does"
                )
        held = self._held.setdefault(name, [])
        for message in messages:
            # Another object stands for it: what its consumer says from now on has no effect.
            held.append(message.again())
            message.lane.unsettled[message.offset] = held[-1]

    def abort(self, name: str) -> None:
        """The transaction came to nothing: its messages are given out again. That is no failure of theirs."""
        self._settling.requeue(self._held.pop(name, ()), failed=False)

    async def commit(self, name: str, beside: Commit) -> CommitResult:
        """Make the commit that ends a transaction, with what it settles. Refused: all is as it was, to be tried again."""
        messages = self._held.get(name, [])
        ending = _Ending(beside)
        try:
            await self._outbox.commit_transaction((), lambda: self._settle(name), ending)
        except MainstemError as error:
            if messages:
                self._held[name] = messages
                self._hold_again(messages)
            return error
        return Committed(ending.bases)

    def _hold_again(self, messages: Sequence[Message]) -> None:
        """A refused commit puts what it was to settle to rest: here it is held on."""
        for message in messages:
            lane, offset = message.lane, message.offset
            if lane.resting.get(offset) is message:
                del lane.resting[offset]
                lane.cursor.end_rest(offset)
                lane.unsettled[offset] = message

    def _settle(self, name: str) -> None:
        self._settling.settle(self._held.pop(name, ()))


class _Ending:
    """What the end of a transaction commits besides."""

    def __init__(self, beside: Commit) -> None:
        self._beside = beside
        self.bases: Sequence[int] = ()

    def seal(self) -> SealedAddition:
        """Markers, offsets and state."""
        return SealedAddition(self._beside.appends, self._beside.state, self._beside.changes)

    def resolved(self, outcome: Sequence[int] | MainstemError) -> None:
        """Where the markers are."""
        if not isinstance(outcome, MainstemError):
            self.bases = outcome
