"""Long lists, a page at a time: the smallest items behind the last one seen, and where to go on."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from mainstem.protocols.http.handlers.pace import Pace

T = TypeVar("T", bound=Any)

STEP_ITEMS = 2_000
"""Looked at without a pause."""


async def smallest(items: Iterable[T], after: T | None, limit: int, pace: Pace) -> tuple[list[T], bool]:
    """The first `limit` items in order behind `after`, and whether there are more."""
    # A copy: the list may change while others have their turn.
    rest = iter(list(items))
    page: list[T] = []
    while step := list(islice(rest, STEP_ITEMS)):
        page = heapq.nsmallest(limit + 1, page + [item for item in step if after is None or item > after])
        await pace.step()
    return page[:limit], len(page) > limit


class Page(NamedTuple):
    """How a path is asked for its next page."""

    path: str
    limit: int
    search: str = ""

    def after(self, item: str | int) -> str:
        """The reference of the page behind this item."""
        given = {"search": self.search} if self.search else {}
        return f"{self.path}?{urlencode(given | {'after': item, 'limit': self.limit})}"


def path_of(*steps: str | int) -> str:
    """A path, its steps percent-encoded."""
    return "".join(f"/{quote(str(step), safe='')}" for step in steps)
