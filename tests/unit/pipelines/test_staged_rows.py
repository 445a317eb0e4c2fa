"""Rows of a task: directed, cut and sent as a Kafka client would, in the order of their positions."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.model.header_names import DUE_HEADER
from mainstem.pipelines.codec.partitioner import partitions_by_key
from mainstem.pipelines.errors import PipelineError, SchemaMismatch
from mainstem.pipelines.sink.staged_rows import StagedRows, cut_batches
from mainstem.sdk.stages import StagedBatch
from mainstem.wire.record_batch import Record, decode_records, read_header

PARTITIONS = 4


class Sent:
    """In place of a stage: keeps what is sent to it."""

    def __init__(self) -> None:
        self.requests: list[Sequence[StagedBatch]] = []

    def write(self, batches: Sequence[StagedBatch]) -> None:
        self.requests.append(batches)

    def flush(self) -> None: ...

    def records(self) -> list[tuple[str, int, Record]]:
        return [
            (b.topic, b.partition, r) for request in self.requests for b in request for r in decode_records(b.batch)
        ]


class Topics:
    def of(self, topic: str) -> tuple[int, int]:
        return PARTITIONS, 1_000


def write(*tables: dict[str, Any], topic: str | None = "t", schema: pa.Schema | None = None, **limits: int) -> Sent:
    sent = Sent()
    rows = StagedRows(None, sent, topic, 0, 0, **limits)  # type: ignore[arg-type]
    rows._destinations = Topics()  # type: ignore[assignment]
    rows.write_all([pa.RecordBatch.from_pydict(table, schema=schema) for table in tables])
    position = 0
    for request in sent.requests:
        partitions = [(batch.topic, batch.partition) for batch in request]
        assert len(set(partitions)) == len(partitions), "Produce takes one batch of each partition"
        for batch in request:
            header = read_header(batch.batch)
            assert header.base_offset == position
            position += 1 + header.record_count
    assert position == rows.position
    assert rows.records == sum(len(table["value"]) for table in tables)
    return sent


def test_rows_with_keys_go_where_the_hash_says() -> None:
    keys = [b"k%d" % number for number in range(200)]
    sent = write({"key": keys[:120], "value": keys[:120]}, {"key": keys[120:], "value": keys[120:]})
    expected = dict(zip(keys, partitions_by_key(pa.array(keys), PARTITIONS).tolist(), strict=True))
    assert {record.key: partition for _, partition, record in sent.records()} == expected
    by_partition: dict[int, list[bytes]] = {}
    for _, partition, record in sent.records():
        by_partition.setdefault(partition, []).append(record.value)
    for partition, values in by_partition.items():
        assert values == [key for key in keys if expected[key] == partition], "in the order they came"


def test_rows_without_keys_fill_one_partition_after_the_other() -> None:
    sent = write({"value": ["x" * 100] * 100}, batch_bytes=2_000)
    counts = [sum(partition == number for _, partition, _ in sent.records()) for number in range(PARTITIONS)]
    assert sum(counts) == 100
    assert min(counts) > 10


def test_text_and_bytes_times_headers_and_partitions() -> None:
    time = datetime(2024, 1, 2, tzinfo=UTC)
    schema = pa.schema(
        [
            ("key", pa.string()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            ("deliverAt", pa.timestamp("us", tz="UTC")),
        ]
    )
    table = {
        "key": ["ü", None, "k"],
        "value": [b"1", None, b"3"],
        "topic": ["a", "b", "a"],
        "partition": [3, 2, None],
        "timestamp": [time, None, time],
        "headers": [[{"key": "h", "value": b"x"}, {"key": "i", "value": None}], None, []],
        "deliverAt": [None, None, None],
    }
    found = sorted(write(table, topic=None, schema=schema).records(), key=lambda item: item[2].value or b"2")
    assert [(topic, record.key, record.value) for topic, _, record in found] == [
        ("a", "ü".encode(), b"1"),
        ("b", None, None),
        ("a", b"k", b"3"),
    ]
    assert [partition for _, partition, _ in found] == [3, 2, partitions_by_key(pa.array([b"k"]), PARTITIONS)[0]]
    assert list(found[0][2].headers) == [("h", b"x"), ("i", None)]
    assert found[0][2].timestamp_ms == int(time.timestamp() * 1000)
    assert found[1][2].timestamp_ms > 1_700_000_000_000


def test_rows_that_are_due_later_go_by_themselves_with_their_times() -> None:
    due = datetime(2100, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    dated = datetime(2024, 1, 2, tzinfo=UTC)
    entry = pa.struct([("key", pa.string()), ("value", pa.binary())])
    table = {
        "value": [b"now", b"later", b"past", b"dated"],
        "deliverAt": pa.array([None, due, datetime(1969, 1, 1, tzinfo=UTC), due], pa.timestamp("us", tz="UTC")),
        "timestamp": pa.array([None, None, None, dated], pa.timestamp("us", tz="UTC")),
        "headers": pa.array([None, None, None, [{"key": "h", "value": b"1"}]], pa.list_(entry)),
    }
    sent = write(table)
    found = {r.value: (b.is_later, r) for q in sent.requests for b in q for r in decode_records(b.batch)}
    assert {value: is_later for value, (is_later, _) in found.items()} == {
        b"now": False,
        b"later": True,
        b"past": False,
        b"dated": True,
    }
    due_ms = (4_102_444_800_001).to_bytes(8)
    assert list(found[b"later"][1].headers) == [(DUE_HEADER, due_ms)], "never early, not by a part of a millisecond"
    assert list(found[b"dated"][1].headers) == [(DUE_HEADER, due_ms), ("h", b"1")]
    assert found[b"later"][1].timestamp_ms == -1
    assert found[b"dated"][1].timestamp_ms == int(dated.timestamp() * 1000)
    assert found[b"past"][1].timestamp_ms > 1_700_000_000_000
    assert not found[b"past"][1].headers


@pytest.mark.parametrize(
    ("table", "problem", "text"),
    [
        ({"value": ["a"], "topic": [None]}, SchemaMismatch, "A row has no topic"),
        (
            {"value": ["a"], "topic": ["t"], "partition": [PARTITIONS]},
            PipelineError,
            "asks for partition 4 of topic 't'",
        ),
        ({"value": ["a"], "topic": ["t"], "partition": [-1]}, SchemaMismatch, "partitions begin at 0"),
        ({"value": ["a"], "topic": ["t"], "deliverAt": [1 << 60]}, SchemaMismatch, "no time that can be kept"),
        ({"value": ["a"], "topic": ["t"], "headers": [[{"key": None, "value": b""}]]}, SchemaMismatch, "without a key"),
    ],
)
def test_rows_that_cannot_be_written(table: dict[str, Any], problem: type[Exception], text: str) -> None:
    with pytest.raises(problem, match=text):
        write(table, topic=None)


@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    size=st.integers(1, 120),
    bytes_max=st.integers(1, 300),
    data=st.data(),
)
def test_batches_are_cut_where_they_are_full(counts: list[int], size: int, bytes_max: int, data: st.DataObject) -> None:
    partitions = np.repeat(np.arange(len(counts)) * 2, counts)
    sizes = np.array(data.draw(st.lists(st.integers(1, size), min_size=len(partitions), max_size=len(partitions))))
    firsts = cut_batches(partitions, sizes, bytes_max).tolist()
    assert firsts[0] == 0
    assert sorted(set(firsts)) == firsts
    for first, end in zip(firsts, [*firsts[1:], len(partitions)], strict=True):
        assert len(set(partitions[first:end])) == 1
        assert end - first == 1 or sizes[first:end].sum() <= bytes_max
        more = end < len(partitions) and partitions[end] == partitions[first]
        assert not more or sizes[first : end + 1].sum() > bytes_max, "no smaller than needed"
