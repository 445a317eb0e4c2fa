"""What a topic can be asked to promise, by the names that Kafka's tools use, and what each means to its logs.

Every name and value that Kafka accepts is accepted, so that tools can copy a topic from one cluster to another. Most of
them are kept. STORED lists those that have no meaning on one node: they are stored and shown, and docs/protocols/kafka.md
says so.
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
GZIP_USUAL_LEVEL = "-1"
TABLE = "table"
"""Whether a topic is kept as a table, too."""
TABLE_SCHEMES = ("file", "s3", "gs")
VALUE_FORMATS = ("raw", "string", "json", "avro", "protobuf", "registry")

KEY_VALIDATION, VALUE_VALIDATION = "confluent.key.schema.validation", "confluent.value.schema.validation"
TOPIC_NAME_STRATEGY = "io.confluent.kafka.serializers.subject.TopicNameStrategy"

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


def check_number(value: str, low: int, high: int) -> int:
    """A whole number within bounds. Raises ValueError."""
    if _NUMBER.fullmatch(value.strip()) is None:
        raise ValueError("must be a whole number")
    number = int(value)
    if not low <= number <= high:
        raise ValueError(f"must be between {low} and {high}")
    return number


def _integer(low: int, high: int) -> Callable[[str], int]:
    return lambda value: check_number(value, low, high)


def read_boolean(value: str) -> bool:
    """As Kafka reads it, in upper or lower case. Raises ValueError."""
    known = {"true": True, "false": False}.get(value.strip().lower())
    if known is None:
        raise ValueError("must be true or false")
    return known


def _no_remote_storage(value: str) -> bool:
    if read_boolean(value):
        raise ValueError("tiered storage is disabled in the broker")
    return False


def _gzip_level(value: str) -> int:
    level = _integer(-1, 9)(value)
    if level == 0:
        raise ValueError("must be -1 or between 1 and 9")
    return level


_REPLICA = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")


def _replicas(value: str) -> list[str]:
    """Copies by partition and node."""
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if parts != ["*"] and not all(_REPLICA.fullmatch(part) for part in parts):
        raise ValueError("must be * or a list of PARTITION:NODE")
    return parts


def _one_of(*kept: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value not in kept:
            raise ValueError(f"must be one of {', '.join(kept)}")
        return value

    return check


def _ratio(value: str) -> float:
    if not value.isascii() or "_" in value:
        raise ValueError("must be a number")
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError("must be between 0 and 1")
    return number


def _policies(value: str) -> frozenset[str]:
    policies = frozenset(part.strip() for part in value.split(",") if part.strip())
    if not policies <= {"delete", "compact"}:
        raise ValueError("must be delete, compact, both, or nothing: then all is kept")
    return policies


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


def _topic_name_strategy(value: str) -> str:
    if value != TOPIC_NAME_STRATEGY:
        raise ValueError(f"must be {TOPIC_NAME_STRATEGY}: subjects are TOPIC-key and TOPIC-value")
    return value


KEY_INDEX = "key.index"
_LONG = _integer(0, LONG_MAX)

_OPTIONS = (
    TopicOption("cleanup.policy", "list", "delete", _policies, "What happens to old records."),
    TopicOption("compression.type", "string", "producer",
                _one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
                "How batches are stored; producer: as they came."),
    TopicOption("compression.gzip.level", "int", "-1", _gzip_level, "How hard gzip tries, where the broker compresses."),
    TopicOption("compression.lz4.level", "int", "9", _integer(1, 17), "How hard lz4 tries, where the broker compresses."),
    TopicOption("compression.zstd.level", "int", "3", _integer(-131_072, 22),
                "How hard zstd tries, where the broker compresses."),
    TopicOption(KEY_VALIDATION, "boolean", "false", _one_of("true", "false"),
                "Whether a record's key must name a schema that is registered as TOPIC-key."),
    TopicOption("confluent.key.subject.name.strategy", "string", TOPIC_NAME_STRATEGY, _topic_name_strategy,
                "How the subject of keys is found."),
    TopicOption(VALUE_VALIDATION, "boolean", "false", _one_of("true", "false"),
                "Whether a record's value must name a schema that is registered as TOPIC-value."),
    TopicOption("confluent.value.subject.name.strategy", "string", TOPIC_NAME_STRATEGY, _topic_name_strategy,
                "How the subject of values is found."),
    TopicOption("delete.retention.ms", "long", "86400000", _LONG, "How long a compacted topic keeps tombstones."),
    TopicOption("errors.deadletterqueue.group.enable", "boolean", "false", _one_of("true", "false"),
                "Whether share groups may write dead letters to the topic."),
    TopicOption("file.delete.delay.ms", "long", "60000", _LONG,
                "How long a file outlives what is in it; here no reader ever loses one."),
    TopicOption("flush.messages", "long", str(LONG_MAX), _integer(1, LONG_MAX),
                "Any number but the largest: sync before every acknowledgement, which is at least as often."),
    TopicOption("flush.ms", "long", str(LONG_MAX), _LONG, "Sync in intervals, or, at its largest, never by ourselves."),
    TopicOption("follower.replication.throttled.replicas", "list", "", _replicas, "Copies that follow slowly; there are none."),
    TopicOption("index.interval.bytes", "int", "4096", _integer(0, INT_MAX),
                "Upper bound of what an index leaves out; ours has every batch."),
    TopicOption(KEY_INDEX, "boolean", "false", _one_of("true", "false"),
                "Whether records are found by their key without all of them being read."),
    TopicOption("leader.replication.throttled.replicas", "list", "", _replicas, "Copies that lead slowly; there are none."),
    TopicOption("local.retention.bytes", "long", "-2", _integer(-2, LONG_MAX),
                "How much stays here of what is stored elsewhere, too; here is all there is."),
    TopicOption("local.retention.ms", "long", "-2", _integer(-2, LONG_MAX),
                "How long it stays here; here is all there is."),
    TopicOption("max.compaction.lag.ms", "long", str(LONG_MAX), _integer(1, LONG_MAX),
                "Age at which a record is compacted, however little there is to gain."),
    TopicOption("max.message.bytes", "int", "1048588", _integer(MESSAGE_BYTES_MIN, INT_MAX), "Largest batch."),
    TopicOption("message.timestamp.after.max.ms", "long", "3600000", _LONG,
                "How far ahead of our clock the time of a record may be."),
    TopicOption("message.timestamp.before.max.ms", "long", str(LONG_MAX), _LONG,
                "How far behind our clock the time of a record may be."),
    TopicOption("message.timestamp.type", "string", "CreateTime", _one_of("CreateTime", "LogAppendTime"),
                "Whose clock stamps records."),
    TopicOption("min.cleanable.dirty.ratio", "double", "0.5", _ratio, "Share of dirt at which compaction begins."),
    TopicOption("min.compaction.lag.ms", "long", "0", _LONG, "How long a record stays uncompacted."),
    TopicOption("min.insync.replicas", "int", "1", _integer(1, INT_MAX),
                "Copies that must acknowledge; the synced log stands for all of them."),
    TopicOption("preallocate", "boolean", "false", read_boolean,
                "Whether files are made at full size; here no file belongs to one topic."),
    TopicOption("remote.log.copy.disable", "boolean", "false", read_boolean,
                "Whether nothing more is stored elsewhere; nothing ever is."),
    TopicOption("remote.log.delete.on.disable", "boolean", "false", read_boolean,
                "Whether what is stored elsewhere goes when that ends; nothing is."),
    TopicOption("remote.storage.enable", "boolean", "false", _no_remote_storage, "Whether old records move elsewhere."),
    TopicOption("retention.bytes", "long", "-1", _integer(-LONG_MAX - 1, LONG_MAX),
                "Size above which old records go; below 0: there is none."),
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
    TopicOption("unclean.leader.election.enable", "boolean", "false", read_boolean,
                "Whether a copy may lead that lacks records; there is one, and it lacks none."),
    TopicOption("value.format", "string", "raw", _one_of(*VALUE_FORMATS),
                "What values are; tables and SQL decode them. Nothing that is sent is checked against it."),
    TopicOption("value.message", "string", "", _text, "With protobuf: the full name of the message."),
    TopicOption("value.schema", "string", "", _text,
                "With json: DDL, or nothing to have it sampled; avro: the schema; protobuf: path of a descriptor set; "
                "registry: the subject, or nothing for TOPIC-value."),
)  # fmt: skip

OPTIONS: Mapping[str, TopicOption] = {option.name: option for option in _OPTIONS}

STORED = frozenset({
    "file.delete.delay.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "min.insync.replicas",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "segment.index.bytes",
    "segment.jitter.ms",
    "unclean.leader.election.enable",
})  # fmt: skip
"""What is checked, stored and shown, and has no effect on one node."""
LEVELS: Mapping[str, str] = {
    "gzip": "compression.gzip.level",
    "lz4": "compression.lz4.level",
    "zstd": "compression.zstd.level",
}
"""Where the level of a codec is set."""


def check_topic_config(configs: Mapping[str, str]) -> None:
    """Raises InvalidTopicConfig for the first name that is unknown or value that is not kept, or does not go with others."""
    for name, value in configs.items():
        check_topic_option(name, value)
    _check_compaction_lags(configs)
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


def compression_level(configs: Mapping[str, str]) -> int | None:
    """How hard the codec of `compression.type` tries; None: as it usually does."""
    name = LEVELS.get(configs.get("compression.type", ""))
    if name is None or configs.get(name, OPTIONS[name].default) == GZIP_USUAL_LEVEL:
        return None
    return int(configs.get(name, OPTIONS[name].default))


def _check_compaction_lags(configs: Mapping[str, str]) -> None:
    least, most = (
        int(configs.get(name, OPTIONS[name].default)) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if least > most:
        raise InvalidTopicConfig(f"min.compaction.lag.ms ({least}) is larger than max.compaction.lag.ms ({most})")


def _check_value_configs(configs: Mapping[str, str]) -> None:
    kind = configs.get("value.format", "raw")
    for name, needed_by, known_to in (
        ("value.schema", ("avro", "protobuf"), ("json", "avro", "protobuf", "registry")),
        ("value.message", ("protobuf",), ("protobuf", "registry")),
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
        compaction_lag_ms_max=number("max.compaction.lag.ms"),
        dirty_ratio_min=float(configs.get("min.cleanable.dirty.ratio", "0.5")),
        segment_ms=number("segment.ms"),
        segment_bytes=number("segment.bytes"),
        key_index=is_key_indexed(configs),
    )


def is_key_indexed(configs: Mapping[str, str]) -> bool:
    """Whether records are found by their key without all of them being read."""
    return configs.get(KEY_INDEX) == "true"


def _flush_policy(configs: Mapping[str, str]) -> tuple[Flush | None, int | None]:
    """Unlike Kafka's, our default is the node's setting, which is to sync; setting either name replaces it."""
    messages, interval = (int(configs.get(name, LONG_MAX)) for name in ("flush.messages", "flush.ms"))
    if messages < LONG_MAX or interval == 0:
        return "sync", None
    if "flush.ms" in configs:
        return ("os", None) if interval == LONG_MAX else ("interval", interval)
    return None, None
