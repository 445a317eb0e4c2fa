"""What a topic can be asked to promise, by the names that Kafka's tools use, and what each means to its logs.

Every name here is kept or refused. Some are kept by construction for the values that are accepted: a single copy always
has one replica in sync, and space is reclaimed in steps finer than any segment. Whatever is not kept is refused by
name, because a promise that is silently dropped is found in the worst moment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import msgspec

from mainstem.coordination.errors import InvalidTopicConfig
from mainstem.storage.contract import Flush, LogConfig

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
SEGMENT_BYTES_MIN = 1 << 20
MESSAGE_BYTES_MIN = 78
"""What ends a transaction must fit."""
TABLE = "table"
"""Whether a topic is kept as a table, too."""
TABLE_SCHEMES = ("file", "s3", "gs")
VALUE_FORMATS = ("raw", "string", "json", "avro", "protobuf")

Kind: TypeAlias = Literal["boolean", "string", "int", "long", "double", "list"]


class TopicOption(msgspec.Struct, frozen=True):
    """One name: its default, and which values are kept."""

    name: str
    kind: Kind
    default: str
    check: Callable[[str], object]
    """Raises ValueError with the reason for a value that is not kept."""
    text: str


_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
"""What Java reads as a number; Python would take more."""


def _integer(low: int, high: int) -> Callable[[str], int]:
    def check(value: str) -> int:
        if _NUMBER.fullmatch(value) is None:
            raise ValueError("must be a whole number")
        number = int(value)
        if not low <= number <= high:
            raise ValueError(f"must be between {low} and {high}")
        return number

    return check


def _only(kept: str, reason: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value.strip().lower() != kept:
            raise ValueError(f"only {kept} is supported: {reason}")
        return value

    return check


def _one_of(*kept: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value not in kept:
            raise ValueError(f"must be one of {', '.join(kept)}")
        return value

    return check


def _ratio(value: str) -> float:
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError("must be between 0 and 1")
    return number


def _policies(value: str) -> frozenset[str]:
    policies = frozenset(part.strip() for part in value.split(",") if part.strip())
    if not policies <= {"delete", "compact"}:
        raise ValueError("must be delete, compact, both, or nothing: then all is kept")
    return policies


def _flush_messages(value: str) -> int:
    number = int(value)
    if number not in (1, LONG_MAX):
        raise ValueError("only 1 (sync every commit) or no limit is supported; flush.ms sets an interval")
    return number


def _location(value: str) -> str:
    """Where a table lies: what each machine that writes or reads it finds there must be the same."""
    scheme, separator, rest = value.partition("://")
    if separator:
        if scheme not in TABLE_SCHEMES or not rest.strip("/"):
            raise ValueError(f"must be a URI of {', '.join(TABLE_SCHEMES)}, as s3://bucket/path")
    elif value and not value.startswith("/"):
        raise ValueError("must be an absolute path or a URI; empty: tables/TOPIC in the data directory")
    return value


def _text(value: str) -> str:
    return value


_LONG = _integer(0, LONG_MAX)

_OPTIONS = (
    TopicOption("cleanup.policy", "list", "delete", _policies, "What happens to old records."),
    TopicOption("compression.type", "string", "producer",
                _one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
                "How batches are stored; producer: as they came."),
    TopicOption("delete.retention.ms", "long", "86400000", _LONG, "How long a compacted topic keeps tombstones."),
    TopicOption("errors.deadletterqueue.group.enable", "boolean", "false", _one_of("true", "false"),
                "Whether share groups may write dead letters to the topic."),
    TopicOption("file.delete.delay.ms", "long", "60000", _LONG,
                "How long a file outlives what is in it; here no reader ever loses one."),
    TopicOption("flush.messages", "long", str(LONG_MAX), _flush_messages, "1: sync before every acknowledgement."),
    TopicOption("flush.ms", "long", str(LONG_MAX), _LONG, "Sync in intervals, or, at its largest, never by ourselves."),
    TopicOption("index.interval.bytes", "int", "4096", _integer(0, INT_MAX),
                "Upper bound of what an index leaves out; ours has every batch."),
    TopicOption("max.compaction.lag.ms", "long", str(LONG_MAX), _only(str(LONG_MAX), "compaction comes by share of dirt"),
                "When a record must have been compacted."),
    TopicOption("max.message.bytes", "int", "1048588", _integer(MESSAGE_BYTES_MIN, INT_MAX), "Largest batch."),
    TopicOption("message.timestamp.after.max.ms", "long", "3600000", _LONG,
                "How far ahead of our clock the time of a record may be."),
    TopicOption("message.timestamp.before.max.ms", "long", str(LONG_MAX), _LONG,
                "How far behind our clock the time of a record may be."),
    TopicOption("message.timestamp.type", "string", "CreateTime", _one_of("CreateTime", "LogAppendTime"),
                "Whose clock stamps records."),
    TopicOption("min.cleanable.dirty.ratio", "double", "0.5", _ratio, "Share of dirt at which compaction begins."),
    TopicOption("min.compaction.lag.ms", "long", "0", _LONG, "How long a record stays uncompacted."),
    TopicOption("min.insync.replicas", "int", "1", _only("1", "there is one copy"), "Copies that must acknowledge."),
    TopicOption("preallocate", "boolean", "false", _only("false", "no file belongs to one topic"),
                "Whether files are made at full size."),
    TopicOption("remote.storage.enable", "boolean", "false", _only("false", "all is local"),
                "Whether old records move elsewhere."),
    TopicOption("retention.bytes", "long", "-1", _integer(-1, LONG_MAX), "Size above which old records go."),
    TopicOption("retention.ms", "long", "604800000", _integer(-1, LONG_MAX), "Age at which records go."),
    TopicOption("segment.bytes", "int", "1073741824", _integer(SEGMENT_BYTES_MIN, INT_MAX),
                "How many bytes can be compacted at the latest; retention goes by smaller steps."),
    TopicOption("segment.index.bytes", "int", "10485760", _integer(4, INT_MAX),
                "Upper bound of an index; there is none per topic."),
    TopicOption("segment.jitter.ms", "long", "0", _LONG,
                "Spreads the rolling of segments; here nothing rolls at once."),
    TopicOption("segment.ms", "long", "604800000", _integer(1, LONG_MAX),
                "Age at which records can be compacted at the latest; retention needs none."),
    TopicOption(TABLE, "boolean", "false", _one_of("true", "false"), "Whether the topic is kept as a table, too."),
    TopicOption("table.interval.ms", "long", "60000", _integer(1_000, LONG_MAX),
                "How often the table takes over what is new in the log."),
    TopicOption("table.location", "string", "", _location,
                "Where the table lies; empty: tables/TOPIC in the data directory."),
    TopicOption("table.retention.ms", "long", "-1", _integer(-1, LONG_MAX),
                "Age at which records go from the table; -1: they stay, also when they go from the log."),
    TopicOption("unclean.leader.election.enable", "boolean", "false", _one_of("true", "false"),
                "Whether a copy may lead that lacks records; there is one, and it lacks none."),
    TopicOption("value.format", "string", "raw", _one_of(*VALUE_FORMATS),
                "What values are; tables and SQL decode them. Nothing that is sent is checked against it."),
    TopicOption("value.message", "string", "", _text, "With protobuf: the full name of the message."),
    TopicOption("value.schema", "string", "", _text,
                "With json: DDL, or nothing to have it sampled; avro: the schema; protobuf: path of a descriptor set."),
)  # fmt: skip

OPTIONS: Mapping[str, TopicOption] = {option.name: option for option in _OPTIONS}


def check_topic_config(configs: Mapping[str, str]) -> None:
    """Raises InvalidTopicConfig for the first name that is unknown or value that is not kept, or does not go with others."""
    for name, value in configs.items():
        check_topic_option(name, value)
    _check_value_configs(configs)


def check_topic_option(name: str, value: str) -> None:
    """The same for one of them, whatever the others are."""
    option = OPTIONS.get(name)
    if option is None:
        raise InvalidTopicConfig(f"{name} is not a topic configuration that is kept here")
    try:
        option.check(value)
    except ValueError as error:
        raise InvalidTopicConfig(f"Invalid value {value} for configuration {name}: {error}") from None


def _check_value_configs(configs: Mapping[str, str]) -> None:
    kind = configs.get("value.format", "raw")
    for name, needed_by, known_to in (
        ("value.schema", ("avro", "protobuf"), ("json", "avro", "protobuf")),
        ("value.message", ("protobuf",), ("protobuf",)),
    ):
        if configs.get(name):
            if kind not in known_to:
                raise InvalidTopicConfig(f"{name} has no meaning with value.format {kind}")
        elif kind in needed_by:
            raise InvalidTopicConfig(f"{name} is needed with value.format {kind}")


def log_config(configs: Mapping[str, str], *, is_queue: bool = False) -> LogConfig:
    """What the logs of a topic promise. The configuration was checked before."""

    def number(name: str) -> int:
        return int(configs.get(name, OPTIONS[name].default))

    def limit(name: str) -> int | None:
        value = number(name)
        return None if value < 0 else value

    policies = _policies(configs.get("cleanup.policy", "delete"))
    flush, flush_interval_ms = _flush_policy(configs)
    return LogConfig(
        flush=flush,
        flush_interval_ms=flush_interval_ms,
        batch_bytes_max=number("max.message.bytes"),
        retention_ms=limit("retention.ms"),
        retention_bytes=limit("retention.bytes"),
        acknowledged="hold" if is_queue else "ignore",
        delete="delete" in policies,
        compact="compact" in policies,
        tombstone_retention_ms=number("delete.retention.ms"),
        compaction_lag_ms_min=number("min.compaction.lag.ms"),
        dirty_ratio_min=float(configs.get("min.cleanable.dirty.ratio", "0.5")),
        segment_ms=number("segment.ms"),
        segment_bytes=number("segment.bytes"),
    )


def _flush_policy(configs: Mapping[str, str]) -> tuple[Flush | None, int | None]:
    """Unlike Kafka's, our default is the node's setting, which is to sync; who sets either name says otherwise."""
    if configs.get("flush.messages") == "1" or configs.get("flush.ms") == "0":
        return "sync", None
    if "flush.ms" in configs:
        interval = int(configs["flush.ms"])
        return ("os", None) if interval == LONG_MAX else ("interval", interval)
    return None, None
