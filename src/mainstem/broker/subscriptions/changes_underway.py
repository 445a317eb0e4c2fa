"""Changes of a subscription on their way to the log.

A commit stores every change of a cursor, by whichever caller. So a caller whose change another caller's commit stores must wait
for that commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mainstem.coordination.subscriptions.leased_cursor import LeasedCursor
from mainstem.model.errors import MainstemError
from mainstem.storage.contract import Mutation


class ChangesUnderway:
    """Changes of cursors that were taken to be stored: what others have changed may be among them."""

    def __init__(self, cursors: Sequence[LeasedCursor], changes: list[Mutation], all_of: set[ChangesUnderway]) -> None:
        self.changes = changes
        self.is_back = False
        self._cursors = cursors
        self._all = all_of
        self._end: asyncio.Future[MainstemError | None] = asyncio.get_running_loop().create_future()
        all_of.add(self)

    def stored(self) -> None:
        """They are durable."""
        self._finish(None)

    def put_back(self) -> None:
        """They are not; the next commit stores them again."""
        for cursor in self._cursors:
            cursor.change_all()
        self.is_back = True
        self._finish(None)

    def refused(self, error: MainstemError) -> None:
        """They are lost."""
        self._finish(error)

    async def wait(self) -> None:
        """Until it is known what became of them. Raises kinds of MainstemError if they are lost."""
        if (error := await asyncio.shield(self._end)) is not None:
            raise error

    def _finish(self, error: MainstemError | None) -> None:
        self._all.discard(self)
        self._end.set_result(error)
