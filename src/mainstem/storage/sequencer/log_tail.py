"""The newest batches of logs: where they lie in the write-ahead log, until they are merged.

They come in any order of logs, and most are merged before anybody asks for them. So a batch is noted among those of all logs
(`Arrivals`), with the way back to the one before it of its own; who asks for a log's tail has its rows gathered. To append to
each of ten thousand tails would be to wait for the memory of each (docs/decisions/0012).
"""

from __future__ import annotations

from array import array

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813
if not cython.compiled:
    from mainstem.wire.bytes_at import append_row, number_at

ROW = 4
"""Numbers of a batch in a tail."""
BASE, PLACE, SIZE = 0, 1, 2
ARRIVAL = 5
"""Numbers of a batch among the arrivals: those of a tail, and how many rows back the one before it of its log is (0: none is)."""
BACK = 4
CHUNK_BITS = 14
CHUNK_ROWS = 1 << CHUNK_BITS
SPARE_CHUNKS_MAX = 2


class LogTail:
    """Batches of one log that are not merged yet: numbers in one array, because there may be millions."""

    __slots__ = ("refs", "rows")

    def __init__(self) -> None:
        self.rows = array("q")
        """Of each batch its base offset, its place, its size and its time."""
        self.refs: set[int] | None = None
        """Base offsets of entries that are references: their bytes carry another log's base offset."""

    def __len__(self) -> int:
        return len(self.rows) // ROW

    def append(self, base: int, place: int, size: int, time: int) -> None:
        """Add the next batch."""
        append_row(self.rows, base, place, size, time)

    def append_ref(self, base: int, place: int, size: int, time: int) -> None:
        """Add a batch whose bytes are another log's."""
        self.append(base, place, size, time)
        if self.refs is None:
            self.refs = set()
        self.refs.add(base)

    @property
    def first(self) -> int:
        """The base offset of the first batch; there is one."""
        return number_at(self.rows, 0)

    def row(self, index: int) -> tuple[int, int, int, int]:
        """Base offset, place, size and time of one batch."""
        rows, at = self.rows, index * ROW
        return number_at(rows, at), number_at(rows, at + 1), number_at(rows, at + 2), number_at(rows, at + 3)

    def index_of(self, offset: int) -> int:
        """Index of the batch that contains the offset, given that it is not below the first."""
        return self._count_up_to(BASE, offset) - 1

    def side_by_side(self, index: int, limit: int) -> tuple[int, int]:
        """Of the batches from one on that lie one after the other in a file, and none behind a place: the end, and the next."""
        rows, refs = self.rows, self.refs
        at, stop = index * ROW, len(rows)
        end = number_at(rows, at + PLACE)
        while at < stop and number_at(rows, at + PLACE) == end and end + number_at(rows, at + SIZE) <= limit:
            if refs is not None and number_at(rows, at) in refs:
                break
            end += number_at(rows, at + SIZE)
            at += ROW
        return end, at // ROW

    def bytes_from(self, index: int) -> int:
        """The size of all batches from one on."""
        return sum(self.rows[index * ROW + SIZE :: ROW])

    def drop_before(self, place: int) -> None:
        """Forget batches that lie before a place."""
        count = self._count_up_to(PLACE, place - 1)
        if count:
            if self.refs is not None:
                self.refs.difference_update(self.rows[: count * ROW : ROW])
                self.refs = self.refs or None
            del self.rows[: count * ROW]

    def _count_up_to(self, column: int, value: int) -> int:
        """How many rows there are up to a value of a column that ascends."""
        rows = self.rows
        low, high = 0, len(rows) // ROW
        while low < high:
            middle = (low + high) // 2
            if number_at(rows, middle * ROW + column) <= value:
                low = middle + 1
            else:
                high = middle
        return low


class Arrivals:
    """Batches of all logs, in the order in which they became durable: their places ascend, and what is merged is in front."""

    __slots__ = ("_chunks", "_gone", "_next", "_room", "_spares", "first")

    def __init__(self) -> None:
        self.first = 0
        """Number of the first one that is there."""
        self._next = 0
        self._chunks: list[array[int]] = []
        self._gone = 0
        """Chunks that were there before these."""
        self._spares: list[array[int]] = []
        self._room = array("q")
        """The newest of the chunks."""

    @property
    def chunks(self) -> int:
        """How many it holds, spare ones included."""
        return len(self._chunks) + len(self._spares)

    def keep(self, newest: int, base: int, place: int, size: int, time: int) -> int:
        """Note a batch; `newest` is the number of the one before it of its log, or -1. Answers its own."""
        number = self._next
        if number & (CHUNK_ROWS - 1) == 0:
            self._begin_chunk()
        put_arrival(self, number, 0 if newest < 0 else number - newest, base, place, size, time)
        self._next = number + 1
        return number

    def _begin_chunk(self) -> None:
        if not self._spares:
            self._spares.append(array("q", bytes(8 * ARRIVAL * CHUNK_ROWS)))
        self._room = self._spares.pop()
        self._chunks.append(self._room)

    def _at(self, number: int, column: int) -> int:
        chunk = self._chunks[(number >> CHUNK_BITS) - self._gone]
        return number_at(chunk, (number & (CHUNK_ROWS - 1)) * ARRIVAL + column)

    def gather(self, newest: int, tail: LogTail | None) -> LogTail | None:
        """The tail of a log with all that came after it, up to its newest batch; None when all of it has gone.

        Where the way back ends at what has gone, all that is in the tail has gone, too: it came before.
        """
        count = 0
        number, back = newest, 1
        while number >= self.first and back:
            count += 1
            back = back_at(self, number)
            number -= back
        if back:
            tail = None
        if count:
            if tail is None:
                tail = LogTail()
            copy_rows(self, newest, count, tail.rows)
        return tail

    def drop_before(self, place: int) -> None:
        """Forget batches that lie before a place."""
        low, high = self.first, self._next
        while low < high:
            middle = (low + high) // 2
            if self._at(middle, PLACE) < place:
                low = middle + 1
            else:
                high = middle
        self.first = low
        gone = (low >> CHUNK_BITS) - self._gone
        if gone:
            self._spares = (self._spares + self._chunks[:gone])[:SPARE_CHUNKS_MAX]
            del self._chunks[:gone]
            self._gone += gone


if not cython.compiled:

    def put_arrival(arrivals: Arrivals, number: int, back: int, base: int, place: int, size: int, time: int) -> None:
        """Write a row into the newest chunk."""
        at = (number & (CHUNK_ROWS - 1)) * ARRIVAL
        arrivals._room[at : at + ARRIVAL] = array("q", (base, place, size, time, back))

    def back_at(arrivals: Arrivals, number: int) -> int:
        """How many rows back the one before it of its log is."""
        return arrivals._at(number, BACK)

    def copy_rows(arrivals: Arrivals, newest: int, count: int, rows: array[int]) -> None:
        """Append rows of a log to a tail, oldest first."""
        numbers = [newest]
        while len(numbers) < count:
            numbers.append(numbers[-1] - back_at(arrivals, numbers[-1]))
        for number in reversed(numbers):
            rows.extend(arrivals._at(number, column) for column in range(ROW))
