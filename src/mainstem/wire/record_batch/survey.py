"""Opening a batch that a producer sent: what a topic asks of its records, and the topic's compression.

A batch of a few kilobytes may hold a hundred megabytes, so opening one has a limit. `AT_ONCE` is what the event loop may
spend; a batch above it is opened by a thread, up to `APART`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from mainstem.model.errors import PLACES_MAX
from mainstem.wire.compression import DECOMPRESSED_BYTES_MAX, Content
from mainstem.wire.errors import DecompressedTooLarge
from mainstem.wire.record_batch.header import BatchHeader, Buffer
from mainstem.wire.record_batch.inspection import check_batch
from mainstem.wire.record_batch.record import keys_in, open_batch, records_of
from mainstem.wire.record_batch.rewriting import recompress_opened
from mainstem.wire.schemas.framing import schema_id_of


class Effort(NamedTuple):
    """What may be opened."""

    bytes_max: int
    """Decompressed."""
    records_max: int


AT_ONCE = Effort(512 << 10, 10_000)
"""A few milliseconds: of one request, however many batches it has."""
APART = Effort(DECOMPRESSED_BYTES_MAX, 1 << 20)
"""Of one batch: a second or two of a thread."""


SchemaNames: TypeAlias = "Mapping[int | None, Sequence[int]]"
"""The first records that name each schema, by their place in the batch; None: they name none. Nothing names nothing needed."""
NAMES_MAX = 1_000
"""This number of schemas of one batch is told apart; the others count as none."""


class Survey(NamedTuple):
    """A batch as it will be stored, and what was seen in it."""

    batch: Buffer
    is_keyed: bool | None = None
    """Whether every record has a key; None: nobody has looked."""
    oldest_ms: int | None = None
    """The lowest timestamp of a record that has one, if the records were looked at."""
    spent: Effort = Effort(0, 0)
    """What it took."""
    keyless: Sequence[int] = ()
    """The first records without a key, by their place in the batch."""
    key_names: SchemaNames | None = None
    """The schemas that keys name, if they were looked at."""
    value_names: SchemaNames | None = None


def survey_batch(
    batch: Buffer,
    *,
    looks_at_records: bool,
    codec: int | None,
    effort: Effort,
    level: int | None = None,
    looks_at_schemas: bool = False,
) -> Survey:
    """Open the one batch in the buffer. Raises kinds of InvalidBatch: DecompressedTooLarge if it takes more than the effort."""
    header = check_batch(batch)
    recompresses = codec is not None and header.compression != codec
    looks_inside = looks_at_records or looks_at_schemas
    if not looks_inside and not recompresses:
        return Survey(batch)
    if looks_inside and header.record_count > effort.records_max:
        raise DecompressedTooLarge(f"{header.record_count} records, above the limit of {effort.records_max}")
    header, body = open_batch(batch, effort.bytes_max)
    keyless: list[int] = []
    is_keyed, oldest_ms = _look(header, body, keyless) if looks_at_records else (None, None)
    names = _names(header, body) if looks_at_schemas else (None, None)
    if codec is not None and recompresses:
        batch = recompress_opened(header, body, codec, level)
    spent = Effort(len(body), header.record_count if looks_inside else 0)
    return Survey(batch, is_keyed, oldest_ms, spent, keyless, *names)


def _names(header: BatchHeader, body: Content) -> tuple[SchemaNames, SchemaNames]:
    keys: dict[int | None, list[int]] = {}
    values: dict[int | None, list[int]] = {}
    for place, record in enumerate(records_of(header, body)):
        for part, found in ((record.key, keys), (record.value, values)):
            if part is not None:
                number = schema_id_of(part)
                places = found.setdefault(number if number in found or len(found) < NAMES_MAX else None, [])
                if len(places) < PLACES_MAX:
                    places.append(place)
    return keys, values


def _look(header: BatchHeader, body: Content, keyless: list[int]) -> tuple[bool, int | None]:
    is_keyed = True
    oldest_ms: int | None = None
    for place, (_, time_ms, key, _) in enumerate(keys_in(header, body)):
        if key is None:
            is_keyed = False
            if len(keyless) < PLACES_MAX:
                keyless.append(place)
        if time_ms >= 0 and (oldest_ms is None or time_ms < oldest_ms):
            oldest_ms = time_ms
    return is_keyed, oldest_ms
