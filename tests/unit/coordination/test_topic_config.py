"""Every topic configuration is kept or refused."""

import pytest

from mainstem.coordination.catalog.topic_config import (
    LONG_MAX,
    OPTIONS,
    check_topic_config,
    compression_level,
    log_config,
)
from mainstem.coordination.errors import InvalidTopicConfig
from mainstem.storage.contract import LogConfig


def test_every_default_is_kept() -> None:
    check_topic_config({name: option.default for name, option in OPTIONS.items()})


def test_without_configuration_a_log_has_kafkas_defaults() -> None:
    assert log_config({}) == LogConfig(batch_bytes_max=1_048_588, retention_ms=604_800_000)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "shred"),
        ("compression.type", "brotli"),
        ("retention.ms", "1_000"),
        ("retention.ms", "\u0664"),
        ("flush.messages", "0"),
        ("max.message.bytes", "10"),
        ("max.message.bytes", "many"),
        ("message.timestamp.type", "logappendtime"),
        ("min.insync.replicas", "0"),
        ("max.compaction.lag.ms", "0"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("leader.replication.throttled.replicas", "0:1,*"),
        ("follower.replication.throttled.replicas", "0-1"),
        ("local.retention.ms", "-3"),
        ("local.retention.bytes", "-3"),
        ("remote.storage.enable", "true"),
        ("remote.log.copy.disable", "yes"),
        ("retention.ms", "-2"),
        ("segment.bytes", "100"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("unheard.of", "1"),
        ("preallocate", "perhaps"),
        ("table", "yes"),
        ("table.interval.ms", "10"),
        ("table.location", "tables/here"),
        ("table.location", "ftp://host/path"),
        ("table.location", "s3://"),
        ("table.retention.ms", "-2"),
        ("value.format", "xml"),
        ("value.schema", "id BIGINT"),
        ("value.message", "Order"),
    ],
)
def test_what_is_not_kept_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidTopicConfig, match=name):
        check_topic_config({name: value})


@pytest.mark.parametrize(
    ("configs", "missing"),
    [({"value.format": "avro"}, "value.schema"), ({"value.format": "protobuf", "value.schema": "f"}, "value.message")],
)
def test_a_format_without_what_it_needs_is_refused(configs: dict[str, str], missing: str) -> None:
    with pytest.raises(InvalidTopicConfig, match=f"{missing} is needed"):
        check_topic_config(configs)


def test_a_topic_that_is_a_table() -> None:
    check_topic_config({"table": "true", "table.location": "s3://bucket/orders", "table.retention.ms": "1000"})
    check_topic_config({"table": "true", "value.format": "json", "value.schema": "id BIGINT"})
    assert log_config({"table": "true"}) == log_config({})


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({"retention.ms": "-1"}, {"retention_ms": None}),
        ({"retention.bytes": "5000"}, {"retention_bytes": 5000}),
        ({"cleanup.policy": "compact"}, {"compact": True, "delete": False}),
        ({"cleanup.policy": "compact, delete"}, {"compact": True, "delete": True}),
        ({"max.message.bytes": "2000000"}, {"batch_bytes_max": 2_000_000}),
        ({"flush.messages": "1"}, {"flush": "sync"}),
        ({"flush.messages": "100"}, {"flush": "sync"}),
        ({"flush.messages": "100", "flush.ms": "250"}, {"flush": "sync"}),
        ({"flush.messages": str(LONG_MAX)}, {"flush": None}),
        ({"flush.messages": str(LONG_MAX), "flush.ms": "250"}, {"flush": "interval"}),
        ({"max.compaction.lag.ms": "7"}, {"compaction_lag_ms_max": 7}),
        ({"retention.bytes": "-7"}, {"retention_bytes": None}),
        ({"retention.ms": " 60000 "}, {"retention_ms": 60_000}),
        ({"flush.ms": "0"}, {"flush": "sync"}),
        ({"flush.ms": "250"}, {"flush": "interval", "flush_interval_ms": 250}),
        ({"flush.ms": str(LONG_MAX)}, {"flush": "os"}),
        ({"delete.retention.ms": "7"}, {"tombstone_retention_ms": 7}),
        ({"min.compaction.lag.ms": "7"}, {"compaction_lag_ms_min": 7}),
        ({"min.cleanable.dirty.ratio": "0.1"}, {"dirty_ratio_min": 0.1}),
    ],
)
def test_what_a_configuration_means_to_a_log(configs: dict[str, str], expected: dict[str, object]) -> None:
    config = log_config(configs)
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression.gzip.level", "-1"),
        ("compression.zstd.level", "-131072"),
        ("follower.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1, 1:1"),
        ("leader.replication.throttled.replicas", ""),
        ("local.retention.bytes", "1000"),
        ("local.retention.ms", "-2"),
        ("min.insync.replicas", "2"),
        ("preallocate", "TRUE"),
        ("remote.log.copy.disable", "true"),
        ("remote.log.delete.on.disable", "true"),
    ],
)
def test_what_kafka_accepts_is_accepted(name: str, value: str) -> None:
    check_topic_config({name: value})
    assert log_config({name: value}) == log_config({}), "without effect on the log"


def test_lags_of_compaction_must_agree() -> None:
    check_topic_config({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    with pytest.raises(InvalidTopicConfig, match=r"min\.compaction\.lag\.ms \(6\)"):
        check_topic_config({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})


@pytest.mark.parametrize(
    ("configs", "level"),
    [
        ({}, None),
        ({"compression.gzip.level": "3"}, None),
        ({"compression.type": "gzip"}, None),
        ({"compression.type": "gzip", "compression.gzip.level": "3"}, 3),
        ({"compression.type": "lz4"}, 9),
        ({"compression.type": "zstd", "compression.zstd.level": "-7"}, -7),
        ({"compression.type": "snappy", "compression.zstd.level": "7"}, None),
    ],
)
def test_the_level_of_compression(configs: dict[str, str], level: int | None) -> None:
    check_topic_config(configs)
    assert compression_level(configs) == level
