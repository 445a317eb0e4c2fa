"""Ranges, limits and points, without a broker."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.pipelines.errors import InvalidOption, PipelineError, sentence_in
from mainstem.pipelines.session.session import checkpoint_root
from mainstem.pipelines.source.offset_range import OffsetRange, split_ranges
from mainstem.pipelines.source.options import SourceOptions
from mainstem.pipelines.source.rate_limit import limit_rows
from mainstem.pipelines.source.starting_point import parse_offsets
from mainstem.pipelines.source.stream_offsets import StreamOffsets
from mainstem.pipelines.spark_version import WrongSparkVersion, check_spark_version
from mainstem.sdk.operations import EARLIEST, LATEST, TopicPartition

SIZES = st.lists(st.integers(0, 1_000), min_size=1, max_size=8)


@given(sizes=SIZES, wanted=st.none() | st.integers(1, 50))
def test_parts_cover_ranges_exactly(sizes: list[int], wanted: int | None) -> None:
    ranges = [OffsetRange("t", index, 100, 100 + size) for index, size in enumerate(sizes)]
    parts = split_ranges(ranges, wanted)
    covered = [(part.partition, offset) for part in parts for offset in range(part.start, part.end)]
    assert covered == [(one.partition, offset) for one in ranges for offset in range(one.start, one.end)]
    assert all(part.size > 0 for part in parts)


def test_a_large_partition_is_cut() -> None:
    ranges = [OffsetRange("t", 0, 0, 900), OffsetRange("t", 1, 0, 100)]
    assert [(part.partition, part.size) for part in split_ranges(ranges, 10)] == [(0, 100)] * 9 + [(1, 100)]
    assert len(split_ranges(ranges, 2)) == 2


@given(sizes=SIZES, rows_max=st.integers(1, 3_000))
def test_rows_are_shared_out(sizes: list[int], rows_max: int) -> None:
    starts = {TopicPartition("t", index): 7 for index in range(len(sizes))}
    ends = {TopicPartition("t", index): 7 + size for index, size in enumerate(sizes)}
    limited = limit_rows(starts, ends, rows_max)
    assert sum(limited[at] - starts[at] for at in ends) == min(rows_max, sum(sizes))
    assert all(starts[at] <= limited[at] <= ends[at] for at in ends)


def test_points() -> None:
    assert parse_offsets("startingOffsets", "Earliest", False).word == EARLIEST
    assert parse_offsets("startingOffsets", "latest", False).is_at(LATEST)
    point = parse_offsets("startingOffsets", '{"t": {"0": -1, "1": 5}}', False)
    assert point.is_at(LATEST)
    assert not point.is_at(EARLIEST)
    assert parse_offsets("startingOffsets", "1970-01-01T00:00:01+00:00", False).time_ms == 1_000
    assert parse_offsets("startingOffsets", "1970-01-01", False).time_ms == 0
    for wrong in ("soon", "[1]", '{"t": 1}', '{"t": {"x": 1}}', '{"t": {"0": -3}}', "{"):
        with pytest.raises(InvalidOption, match="Option `startingOffsets`"):
            parse_offsets("startingOffsets", wrong, False)


def test_positions_of_streams_read_the_same_in_any_order() -> None:
    plain = {"b": {"10": 1, "9": 2}, "a": {"0": 3}, "@group": "g", "@address": "h:1"}
    position = StreamOffsets.parse(plain)
    assert position.offsets == {("a", 0): 3, ("b", 9): 2, ("b", 10): 1}
    assert str(position.plain()) == str(StreamOffsets.parse(dict(reversed(plain.items()))).plain())
    assert StreamOffsets.parse(position.plain()) == position


def test_options_that_contradict_each_other() -> None:
    wrong = [
        {"topic": "a", "topics": "b"},
        {"subscribe": "a", "topics": "b"},
        {"topic": "a", "startingOffsets": "earliest", "startingTimestamp": "1"},
        {"topic": "a", "value.schema": "id INT"},
        {"topic": "a", "group": " "},
        {"topic": "a", "value.format": "protobuf", "value.schema": "x"},
    ]
    for options in wrong:
        with pytest.raises(InvalidOption):
            SourceOptions(options).starting(parse_offsets("startingOffsets", "earliest", False))


def test_options_travel_to_executors() -> None:
    options = SourceOptions({"topic": "a", "Address": "h:1", "minPartitions": "3"})
    copy = pickle.loads(pickle.dumps(options))
    assert (copy.address, copy.partitions_min, copy.selection) == ("h:1", 3, "topic")


def test_versions_of_spark() -> None:
    check_spark_version("4.3.2")
    for version in ("4.2.0", "4.4.0.dev0", "3.5.1"):
        with pytest.raises(WrongSparkVersion, match=f"This is Spark {version}, and mainstem needs Spark 4.3"):
            check_spark_version(version)


def test_sentences_are_found_in_what_spark_made_of_them() -> None:
    wrapped = Exception("[X] Failed: mainstem.sdk.errors.UnknownTopic: Topic 'a' does not exist: go.\n SQLSTATE: 38000")
    assert sentence_in(wrapped) == "Topic 'a' does not exist: go."
    assert sentence_in(ValueError("one\ntwo")) == "one"
    assert sentence_in(ValueError("\n[PARSE] one\ntwo")) == "[PARSE] one"
    assert sentence_in(PipelineError()) == "PipelineError"


def test_checkpoints() -> None:
    given = {"data_dir": "/data", "checkpoint": None}
    assert checkpoint_root("jobs", is_local=True, **given) == "/data/pipelines/jobs/checkpoint"
    assert checkpoint_root("jobs", is_local=False, **given) is None
    shared = "s3a://bucket/jobs"
    assert checkpoint_root("jobs", is_local=False, data_dir=None, checkpoint=shared) == shared
    with pytest.raises(InvalidOption, match="is a path of this machine, which a cluster cannot share"):
        checkpoint_root("jobs", is_local=False, data_dir=None, checkpoint="/data/jobs")
