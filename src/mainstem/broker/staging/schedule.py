"""Staged records that are to be published later: on their way from stages into the schedule.

They become part of the commit that publishes everything else of their batch, and with that of its number. So what was
scheduled is scheduled once, like what was published.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainstem.broker.catalog.topics import Topic
from mainstem.broker.schedules import DUE_MS_MAX, Letter, Schedules, Target
from mainstem.broker.transactions.transactions import CommitBy
from mainstem.coordination.errors import InvalidStagedBatch, TooMuchScheduled
from mainstem.model.errors import MainstemError
from mainstem.model.header_names import DUE_HEADER
from mainstem.model.staging import DUE_BYTES
from mainstem.storage.contract import Commit, CommitResult
from mainstem.wire.record_batch import Record, decode_records, encode_headers


def check_later(batch: memoryview, bytes_max: int) -> None:
    """Every record must say when it is due. Raises InvalidStagedBatch."""
    for record in decode_records(batch, bytes_max):
        _due_of(record)


class LaterRecords:
    """Those of one batch."""

    def __init__(self, schedules: Schedules, now_ms: int, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._schedules = schedules
        self._now_ms = now_ms
        self._records: list[tuple[Letter, int]] = []
        self._bytes = 0

    def take(self, topic: Topic, partition: int, batch: bytearray) -> int:
        """Take the records of a batch in; answers how many. Raises TooMuchScheduled."""
        before = len(self._records)
        target = Target(topic.namespace, topic=topic.name, partition=partition)
        for letter, due_ms in self._letters(target, batch):
            self._records.append((letter, due_ms))
            self._bytes += letter.size
        if self._bytes > self._bytes_max:
            raise TooMuchScheduled(
                f"the records of this batch that are to be published later come to more than {self._bytes_max} bytes, "
                "the most that one batch can schedule; write smaller batches"
            )
        return len(self._records) - before

    def _letters(self, target: Target, batch: bytearray) -> Iterator[tuple[Letter, int]]:
        for record in decode_records(batch):
            headers = encode_headers(record.headers[1:])
            letter = Letter(target, self._now_ms, headers, record.value, record.key, timestamp_ms=record.timestamp_ms)
            yield letter, _due_of(record)

    def joining(self, commit_by: CommitBy) -> CommitBy:
        """The same way to commit, with these records in it. It may be tried again when it was refused."""
        if not self._records:
            return commit_by

        async def commit(beside: Commit) -> CommitResult:
            additions = self._schedules.additions(self._records)
            share = additions.seal()
            first, end = len(beside.appends), len(beside.appends) + len(share.appends)
            whole = msgspec.structs.replace(
                beside, appends=[*beside.appends, *share.appends], state=[*beside.state, *share.state]
            )
            try:
                result = await commit_by(whole)
            except MainstemError as error:
                additions.resolved(error)
                raise
            additions.resolved(result if isinstance(result, MainstemError) else result.bases[first:end])
            return result

        return commit


def _due_of(record: Record) -> int:
    name, content = next(iter(record.headers), ("", None))
    if name != DUE_HEADER or content is None or len(content) != DUE_BYTES:
        raise InvalidStagedBatch(f"a record that is to be published later needs {DUE_HEADER} as its first header")
    due_ms = int.from_bytes(content, signed=True)
    if due_ms > DUE_MS_MAX:
        raise InvalidStagedBatch(f"{due_ms} ms is later than {DUE_MS_MAX} ms, the last time that can be kept")
    return max(due_ms, 0)
