"""A topic that is compacted by key: its log has gaps, and ranges that begin or end in one are read to their end."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from mainstem.sdk.client import Client
from mainstem.sdk.operations import EARLIEST, LATEST, TopicPartition, fetch
from mainstem.wire.record_batch import CONTROL, batches_in, decode_records, read_header
from tests.spark.topics import batch, ends, stream
from tests.support.clients.confluent import send_records
from tests.support.clients.transactional import producer
from tests.support.serving.kafka import PATIENCE_S, QUICK_RETURN, Broker, serving

TOPIC = "latest"
AT = TopicPartition(TOPIC, 0)
KEYS, RECORDS = 50, 2_000
SMALL_FILES = ("--set", f"storage.wal_file_bytes={64 << 10}")
"""What is compacted is what was merged, and that are whole files."""


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serving(tmp_path_factory.mktemp("compacted") / "data", *SMALL_FILES) as broker:
        configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        admin = AdminClient({"bootstrap.servers": broker.address, **QUICK_RETURN})
        for made in admin.create_topics([NewTopic(TOPIC, 1, 1, config=configs)]).values():
            made.result(PATIENCE_S)
        records = [(key_of(number), b"%0200d" % number, None) for number in range(RECORDS)]
        send_records(broker, TOPIC, records, **{"batch.num.messages": 7})
        deadline = time.monotonic() + 2 * PATIENCE_S
        while len(present(broker)) > RECORDS / 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        sender = producer(broker, TOPIC)
        for is_kept in (True, False):
            sender.begin_transaction()
            sender.produce(TOPIC, b"%0200d" % (RECORDS + 3 * (not is_kept)), b"own", partition=0)
            assert sender.flush(PATIENCE_S) == 0
            (sender.commit_transaction if is_kept else sender.abort_transaction)(PATIENCE_S)
        yield broker


def key_of(number: int) -> bytes:
    """Every tenth record has a key of its own and stays, so that there are gaps between them."""
    return b"own-%d" % number if number % 10 == 0 else b"k%d" % (number % KEYS)


def present(broker: Broker) -> list[int]:
    """The offsets at which there is a record."""
    found: list[int] = []
    with Client(broker.address) as client:
        offset, end = client.offsets({AT: EARLIEST})[AT], client.offsets({AT: LATEST})[AT]
        while offset < end:
            fetched = fetch(client.leader(AT), AT, offset)
            for position, size in batches_in(fetched.batches):
                one = fetched.batches[position : position + size]
                header = read_header(one)
                if not header.attributes & CONTROL:
                    found += [record.offset for record in decode_records(one)]
                offset = header.base_offset + header.last_offset_delta + 1
    return found


def gap_in(offsets: list[int], below: int) -> int:
    """An offset that is gone, and its neighbours too."""
    neighbours = zip(offsets, offsets[1:], strict=False)
    return next(after - 2 for before, after in neighbours if after - before > 4 and after < below)


def rows_of(frame: DataFrame) -> list[int]:
    rows = frame.select("offset", "value").collect()
    assert all(row.offset == int(row.value) for row in rows)
    return sorted(row.offset for row in rows)


def check(found: list[int], before: list[int], after: list[int]) -> None:
    """Compaction may go on meanwhile: no row but what was there, and none is missing that still is."""
    assert set(after) <= set(found) <= set(before)
    assert len(set(found)) == len(found)


def of(offsets: list[int], first: int, end: int) -> list[int]:
    return [offset for offset in offsets if first <= offset < end and offset <= RECORDS]


def test_ranges_that_begin_and_end_in_gaps(spark: SparkSession, compacted: Broker) -> None:
    offsets = present(compacted)
    first = gap_in(offsets, RECORDS // 4)
    end = gap_in([offset for offset in offsets if offset > first + 10], RECORDS)
    assert first not in offsets
    assert not {end - 1, end} & set(offsets)
    for extra in ({}, {"minPartitions": 7, "decoder": "numpy"}):
        given = {"startingOffsets": first, "endingOffsets": end}
        bounds = {name: json.dumps({TOPIC: {"0": at}}) for name, at in given.items()}
        before = of(present(compacted), first, end)
        found = rows_of(batch(spark, compacted, topic=TOPIC, **bounds, **extra))
        check(found, before, of(present(compacted), first, end))
        assert found


def test_all_of_it_up_to_the_markers_at_the_end(spark: SparkSession, compacted: Broker) -> None:
    before = of(present(compacted), 0, 1 << 60)
    found = rows_of(batch(spark, compacted, topic=TOPIC, minPartitions=5))
    check(found, before, of(present(compacted), 0, 1 << 60))
    assert found[-KEYS - 1 :] == list(range(RECORDS - KEYS, RECORDS + 1)), (
        "the last of every key, and what was committed"
    )


def test_a_stream_whose_micro_batches_end_in_gaps(spark: SparkSession, compacted: Broker, tmp_path: Path) -> None:
    before = of(present(compacted), 0, 1 << 60)
    frame = stream(spark, compacted, topic=TOPIC, startingOffsets="earliest", maxRowsPerTrigger=333)
    query = (
        frame.writeStream.format("parquet")
        .options(path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(2 * PATIENCE_S)
    end = json.loads(query.recentProgress[-1].sources[0].endOffset)[TOPIC]["0"]
    assert end == ends(compacted, TOPIC)[0], "the last marker is behind it"
    assert len(query.recentProgress) >= RECORDS // 333
    found = rows_of(spark.read.parquet(str(tmp_path / "out")))
    check(found, before, of(present(compacted), 0, 1 << 60))
