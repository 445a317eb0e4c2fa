"""Sets of offsets, one roaring bitmap per page of 65,536: as small as what is in them is regular."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

from pyroaring import BitMap

PAGE_BITS = 16
PAGE_OFFSETS = 1 << PAGE_BITS
_LOW = PAGE_OFFSETS - 1


class PagedOffsets:
    """A set of offsets."""

    __slots__ = ("pages",)

    def __init__(self) -> None:
        self.pages: dict[int, BitMap] = {}

    def __contains__(self, offset: int) -> bool:
        page = self.pages.get(offset >> PAGE_BITS)
        return page is not None and offset & _LOW in page

    def add(self, first: int, last: int) -> None:
        """Take in a stretch, both ends included."""
        for page, low, after in _pieces(first, last):
            self.pages.setdefault(page, BitMap()).add_range(low, after)

    def add_all(self, offsets: Sequence[int]) -> None:
        """Take in single offsets, which rise."""
        first, last = offsets[0] >> PAGE_BITS, offsets[-1] >> PAGE_BITS
        if first == last:
            self.pages.setdefault(first, BitMap()).update([offset & _LOW for offset in offsets])
            return
        begin = 0
        while begin < len(offsets):
            page = offsets[begin] >> PAGE_BITS
            end = bisect.bisect_left(offsets, (page + 1) << PAGE_BITS, begin)
            self.pages.setdefault(page, BitMap()).update([offset & _LOW for offset in offsets[begin:end]])
            begin = end

    def discard(self, first: int, last: int) -> None:
        """Let a stretch go."""
        for page, low, after in _pieces(first, last):
            bitmap = self.pages.get(page)
            if bitmap is not None:
                bitmap.remove_range(low, after)
                if not bitmap:
                    del self.pages[page]

    def first_absent(self, offset: int) -> int:
        """The lowest offset at or above this one that is not in the set."""
        page, low = offset >> PAGE_BITS, offset & _LOW
        while (bitmap := self.pages.get(page)) is not None:
            if low not in bitmap:
                break
            absent = bitmap.flip(low, PAGE_OFFSETS)
            absent.remove_range(0, low)
            if absent:
                return page << PAGE_BITS | int(absent.min())
            page, low = page + 1, 0
        return page << PAGE_BITS | low

    def first_present(self, offset: int) -> int | None:
        """The lowest offset at or above this one that is in the set."""
        wanted = offset >> PAGE_BITS
        for page in sorted(self.pages) if len(self.pages) > 1 else self.pages:
            if page < wanted:
                continue
            bitmap = self.pages[page]
            rank = bitmap.rank((offset & _LOW) - 1) if page == wanted and offset & _LOW else 0
            if rank < len(bitmap):
                return page << PAGE_BITS | int(bitmap[rank])
        return None

    def has_any(self, first: int, after: int) -> bool:
        """Whether any offset of a stretch is in the set."""
        if not self.pages:
            return False
        found = self.first_present(first)
        return found is not None and found < after

    def count(self, first: int, after: int) -> int:
        """How many of a stretch are in the set."""
        pieces = _pieces(first, after - 1) if self.pages and first < after else ()
        return sum(self.pages[page].range_cardinality(low, end) for page, low, end in pieces if page in self.pages)

    def below(self, offset: int) -> list[int]:
        """All of the set that are below an offset, in their order."""
        found = [page << PAGE_BITS | low for page in sorted(self.pages) for low in self.pages[page]]
        return found[: bisect.bisect_left(found, offset)]

    def drop_below(self, offset: int) -> list[int]:
        """Let all below go; answers the pages that went whole."""
        whole = [page for page in self.pages if page < offset >> PAGE_BITS]
        for page in whole:
            del self.pages[page]
        if offset & _LOW:
            self.discard(offset & ~_LOW, offset - 1)
        return whole


def pages_of(first: int, last: int) -> range:
    """The pages that a stretch touches."""
    return range(first >> PAGE_BITS, (last >> PAGE_BITS) + 1)


def _pieces(first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """A stretch page by page: the page, where it begins there, and where it has ended."""
    for page in pages_of(first, last):
        base = page << PAGE_BITS
        yield page, max(first - base, 0), min(last - base + 1, PAGE_OFFSETS)
