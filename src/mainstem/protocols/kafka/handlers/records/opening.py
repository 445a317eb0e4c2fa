"""Opening the batches of a Produce request, where their topics ask for it: compacted ones, those that bound the age of
records, and those with a compression of their own.

Small batches are opened at once. What would hold the event loop up is left for a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from mainstem.broker.catalog.topics import Topic
from mainstem.broker.log import Buffer
from mainstem.broker.schemas.validation import check_schemas
from mainstem.model.errors import BatchTooLarge, InvalidBatch, KeyRequired, MainstemError, MisdatedBatch
from mainstem.wire.errors import DecompressedTooLarge
from mainstem.wire.record_batch import HEADER_BYTES, keys_in, open_batch, read_header
from mainstem.wire.record_batch.survey import APART, AT_ONCE, Effort, Survey, survey_batch


class Large(NamedTuple):
    """A batch that a thread has to open."""

    topic: Topic
    records: memoryview


LONG_MAX = 2**63 - 1
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
    """Raises what the topic does not take: KeyRequired, MisdatedBatch, UnregisteredSchema."""
    behind, oldest_ms = topic.before_max_ms, survey.oldest_ms
    if behind is not None and oldest_ms is not None and now_ms - oldest_ms > behind:
        places = misdated_places(survey.batch, now_ms - behind, LONG_MAX)
        raise MisdatedBatch(f"a record is dated {oldest_ms}, more than {behind} ms behind our clock", places)
    if topic.is_compacted and survey.is_keyed is False:
        raise KeyRequired(f"topic {topic.name} is compacted by key and takes no record without one", survey.keyless)
    if topic.schema_check is not None:
        check_schemas(topic, survey)


def misdated_places(batch: Buffer, oldest_ms: int, newest_ms: int) -> list[int]:
    """The records with a time out of bounds; none where the batch is too large to be opened on the event loop."""
    if read_header(batch).record_count > AT_ONCE.records_max:
        return []
    try:
        facts = enumerate(keys_in(*open_batch(batch, AT_ONCE.bytes_max)))
        # A time below 0 says that there is none.
        return [place for place, (_, at_ms, _, _) in facts if at_ms > newest_ms or 0 <= at_ms < oldest_ms]
    except InvalidBatch:
        return []


def _survey(topic: Topic, records: memoryview, effort: Effort) -> Survey:
    looks_at_records = topic.is_compacted or topic.before_max_ms is not None
    codec, level = topic.codec, topic.compression_level
    return survey_batch(
        records,
        looks_at_records=looks_at_records,
        codec=codec,
        level=level,
        effort=effort,
        looks_at_schemas=topic.schema_check is not None,
    )
