"""Opening the batches of a Produce request, where their topics ask for it: compacted ones, those that bound the age of
records, and those with a compression of their own.

Small batches are opened at once. What would hold the event loop up is left for a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from mainstem.broker.topics import Topic
from mainstem.model.errors import BatchTooLarge, KeyRequired, MainstemError, MisdatedBatch
from mainstem.wire.errors import DecompressedTooLarge
from mainstem.wire.record_batch import HEADER_BYTES
from mainstem.wire.record_batch.survey import APART, AT_ONCE, Effort, Survey, survey_batch


class Large(NamedTuple):
    """A batch that a thread has to open."""

    topic: Topic
    records: memoryview


Opened: TypeAlias = dict[int, Survey | MainstemError]
"""What was seen in the batches of one request, or what is wrong with them, by the identity of their bytes."""


class Opening:
    """What is opened for one request."""

    def __init__(self) -> None:
        self.opened: Opened = {}
        self.large: list[Large] = []
        self._left = AT_ONCE

    def add(self, topic: Topic, records: memoryview | None) -> None:
        """Open a batch, or keep it for the thread."""
        if records is None or len(records) < HEADER_BYTES:
            return
        try:
            survey = _survey(topic, records, self._left)
        except DecompressedTooLarge:
            self.large.append(Large(topic, records))
        except MainstemError as error:
            self.opened[id(records)] = error
        else:
            self.opened[id(records)] = survey
            left, spent = self._left, survey.spent
            self._left = Effort(max(0, left.bytes_max - spent.bytes_max), max(0, left.records_max - spent.records_max))


def open_large(batches: Sequence[Large]) -> Opened:
    """In a thread: open what was left."""
    opened: Opened = {}
    for topic, records in batches:
        try:
            opened[id(records)] = open_alone(topic, records)
        except MainstemError as error:
            opened[id(records)] = error
    return opened


def open_alone(topic: Topic, records: memoryview) -> Survey:
    """Open one batch, however long it takes. Raises kinds of InvalidBatch."""
    size_max = topic.batch_bytes_max
    if topic.codec is None and len(records) > size_max:
        raise BatchTooLarge(f"{len(records)} bytes; topic {topic.name} takes {size_max}")
    if topic.codec != 0:
        return _survey(topic, records, APART)
    try:
        return _survey(topic, records, APART._replace(bytes_max=min(APART.bytes_max, size_max)))
    except DecompressedTooLarge as error:
        raise BatchTooLarge(f"uncompressed, as topic {topic.name} wants it: {error}") from None


def check_survey(topic: Topic, survey: Survey, now_ms: int) -> None:
    """Raises what the topic does not take: KeyRequired, MisdatedBatch."""
    behind, oldest_ms = topic.before_max_ms, survey.oldest_ms
    if behind is not None and oldest_ms is not None and now_ms - oldest_ms > behind:
        raise MisdatedBatch(f"a record is dated {oldest_ms}, more than {behind} ms behind our clock")
    if topic.is_compacted and survey.is_keyed is False:
        raise KeyRequired(f"topic {topic.name} is compacted by key and takes no record without one")


def _survey(topic: Topic, records: memoryview, effort: Effort) -> Survey:
    looks_at_records = topic.is_compacted or topic.before_max_ms is not None
    return survey_batch(records, looks_at_records=looks_at_records, codec=topic.codec, effort=effort)
