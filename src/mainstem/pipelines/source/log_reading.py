"""Reading a stretch of a partition: fetch, check, drop what no reader sees, decode.

The next fetch is sent before the last one is decoded, so that the broker works meanwhile. The stretch ends at its end
offset, whatever is there: a marker, a gap that compaction left, or nothing at all.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from mainstem.model.errors import InvalidBatch
from mainstem.pipelines.codec.batch_decoding import Columns, StoredBatch, decode_batches
from mainstem.pipelines.errors import DataLost, UnreadableBatch
from mainstem.pipelines.source.offset_range import OffsetRange
from mainstem.sdk.client import Client
from mainstem.sdk.errors import OffsetMissing
from mainstem.sdk.operations import FETCH_BYTES_MAX, Fetched, receive_fetch, send_fetch
from mainstem.wire.record_batch import batches_in, check_stored_batch, decode_marker, read_header

LOST = (
    "Set failOnDataLoss to false to go on with what is there, or start the query with a new checkpoint; "
    "a longer retention of the topic keeps it from happening again."
)

logger = logging.getLogger(__name__)


class LogReader:
    """Reads stretches with one client."""

    def __init__(self, client: Client, *, with_headers: bool, decoder: str, is_loss_an_error: bool) -> None:
        self._client = client
        self._with_headers = with_headers
        self._decoder = decoder
        self._is_loss_an_error = is_loss_an_error

    def read(self, wanted: OffsetRange) -> Iterator[Columns]:
        """The records of the stretch, about a fetch at a time."""
        position = wanted.start
        under_way = False
        while position < wanted.end:
            fetched, position = self._fetch(wanted, position, under_way)
            if not len(fetched.batches):
                self._check_end(wanted, fetched, position)
                return
            after = next_offset(fetched.batches)
            under_way = after < wanted.end
            if under_way:
                send_fetch(self._client.leader(wanted.at), wanted.at, after, bytes_max=FETCH_BYTES_MAX)
            yield from self._decode(wanted, fetched)
            position = after

    def _fetch(self, wanted: OffsetRange, position: int, under_way: bool) -> tuple[Fetched, int]:
        awaited = under_way

        def ask() -> Fetched:
            nonlocal awaited
            connection = self._client.leader(wanted.at)
            if not awaited:
                send_fetch(connection, wanted.at, position, bytes_max=FETCH_BYTES_MAX)
            awaited = False
            return receive_fetch(connection, wanted.at, position)

        try:
            return self._client.retrying(ask), position
        except OffsetMissing as missing:
            self._lose(f"Offsets {position} to {missing.start} of {wanted.topic}-{wanted.partition} are gone. {LOST}")
            if position >= missing.start:
                raise
            position = missing.start
            return self._client.retrying(ask), position

    def _check_end(self, wanted: OffsetRange, fetched: Fetched, position: int) -> None:
        if fetched.last_stable < wanted.end:
            self._lose(
                f"{wanted.topic}-{wanted.partition} ends at {fetched.last_stable}, before the offset {wanted.end} that "
                f"it once had: the topic was deleted and made anew. {LOST}"
            )

    def _lose(self, sentence: str) -> None:
        if self._is_loss_an_error:
            raise DataLost(sentence)
        logger.warning(sentence)

    def _decode(self, wanted: OffsetRange, fetched: Fetched) -> Iterator[Columns]:
        try:
            seen = list(visible_batches(fetched, wanted.end))
            for columns in decode_batches(
                seen,
                first=wanted.start,
                end=wanted.end,
                with_headers=self._with_headers,
                decoder=self._decoder,
            ):
                if len(columns.offsets):
                    yield columns
        except InvalidBatch as fact:
            first, end = read_header(fetched.batches).base_offset, next_offset(fetched.batches)
            raise UnreadableBatch(
                f"A batch of {wanted.topic}-{wanted.partition} between the offsets {first} and {end} cannot be decoded "
                f"({fact}): start the query behind it, or have its producer mended."
            ) from None


def next_offset(batches: memoryview) -> int:
    """Behind the last batch."""
    last = 0
    for position, _ in batches_in(batches):
        last = position
    return read_header(batches, last).next_offset


def visible_batches(fetched: Fetched, end: int) -> Iterator[StoredBatch]:
    """Without markers, and without what was written in transactions that were aborted."""
    aborted = sorted(fetched.aborted, key=lambda entry: entry[1], reverse=True)
    ended: set[int] = set()
    for position, size in batches_in(fetched.batches):
        batch = fetched.batches[position : position + size]
        header = check_stored_batch(batch)
        if header.base_offset >= end:
            return
        while aborted and aborted[-1][1] <= header.last_offset:
            ended.add(aborted.pop()[0])
        if header.is_control:
            if header.producer_id in ended and not decode_marker(batch):
                ended.discard(header.producer_id)
        elif header.record_count and not (header.is_transactional and header.producer_id in ended):
            yield StoredBatch(header, batch)
