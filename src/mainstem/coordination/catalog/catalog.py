"""The catalog: which topics there are, which logs they consist of, what was configured.

It is state in the log it describes (scope `catalog`), so that nothing can disagree: a topic and its logs are created by
one commit. `decide_*` checks a wish against what is known and answers the changes; `replay` applies one mutation and
is the only thing that changes the catalog, live and at a start.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from mainstem.coordination.catalog.broker_config import CLUSTER, check_broker_config, topic_defaults
from mainstem.coordination.catalog.topic_config import (
    KEY_VALIDATION,
    LONG_MAX,
    OPTIONS,
    TABLE,
    VALUE_VALIDATION,
    check_topic_config,
    compression_level,
    log_config,
)
from mainstem.coordination.decision import Decision
from mainstem.coordination.errors import InvalidPartitionCount, InvalidTopicName, TopicExists, UnknownTopic
from mainstem.storage.contract import ConfigureLog, CreateLog, DeleteLog, LogChange, LogConfig, Mutation

SCOPE = "catalog"
DEFAULT_NAMESPACE = "default"
TOPIC_NAME_CHARACTERS_MAX = 249
PARTITIONS_MAX = 100_000
"""Of one topic: what a single commit can create."""

_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_TOPIC_PREFIX = b"topic/"
_BROKER_PREFIX = b"broker_config/"
_CLUSTER_KEY = b"cluster"
_NEXT_LOG_KEY = b"next_log"


class TopicEntry(msgspec.Struct, frozen=True, array_like=True):
    """A topic as it is stored."""

    namespace: str
    name: str
    id: bytes
    logs: tuple[int, ...]
    configs: dict[str, str]
    is_queue: bool = False
    """Whether it came into being as a queue: what is not acknowledged is kept, whatever retention says."""


CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class RegisteredIds:
    """Which schemas are registered: the broker puts in who knows."""

    def __init__(self) -> None:
        self.is_known: Callable[[str, str, bool, int], bool] = lambda namespace, topic, is_key, number: False
        """By namespace, topic, whether it is of keys, and id."""


NOTHING_REGISTERED = RegisteredIds()


class SchemaCheck(NamedTuple):
    """What a topic asks of keys and values."""

    of_keys: bool
    of_values: bool
    registered: RegisteredIds


def _schema_check(configs: Mapping[str, str], registered: RegisteredIds) -> SchemaCheck | None:
    of_keys, of_values = (configs.get(name) == "true" for name in (KEY_VALIDATION, VALUE_VALIDATION))
    return SchemaCheck(of_keys, of_values, registered) if of_keys or of_values else None


class Topic:
    """A topic, ready for use. Never changed: another one takes its place."""

    __slots__ = (
        "after_max_ms",
        "batch_bytes_max",
        "before_max_ms",
        "codec",
        "compression_level",
        "configs",
        "effective",
        "id",
        "is_compacted",
        "is_opened",
        "is_queue",
        "is_rewritten",
        "is_stamped",
        "logs",
        "name",
        "namespace",
        "schema_check",
    )

    def __init__(
        self, entry: TopicEntry, defaults: Mapping[str, str] = {}, registered: RegisteredIds | None = None
    ) -> None:
        self.namespace = entry.namespace
        self.name = entry.name
        self.id = uuid.UUID(bytes=entry.id)
        self.logs = entry.logs
        """The log of each partition."""
        self.configs: Mapping[str, str] = entry.configs
        """What was set, as it was written; everything else has its default."""
        effective = self.effective = {**defaults, **entry.configs} if defaults else entry.configs
        """The same, with what holds for all topics."""
        self.is_stamped = effective.get("message.timestamp.type") == "LogAppendTime"
        """Whether records get the time of their arrival."""
        self.codec = CODECS.get(effective.get("compression.type", "producer"))
        """How records are compressed; None: as their producer did."""
        self.compression_level = compression_level(effective)
        self.is_rewritten = self.is_stamped or self.codec is not None
        self.after_max_ms = _time_bound(effective, "message.timestamp.after.max.ms")
        """How far ahead of our clock the times of records may be."""
        self.before_max_ms = _time_bound(effective, "message.timestamp.before.max.ms")
        """And how far behind it."""
        self.batch_bytes_max = int(effective.get("max.message.bytes", OPTIONS["max.message.bytes"].default))
        self.is_queue = entry.is_queue
        self.is_compacted = "compact" in effective.get("cleanup.policy", "")
        self.schema_check = _schema_check(effective, registered or NOTHING_REGISTERED)
        """What keys and values must name; None: they may be anything."""
        self.is_opened = (
            self.is_compacted
            or self.before_max_ms is not None
            or self.codec is not None
            or self.schema_check is not None
        )
        """Whether a batch is opened when it arrives; most topics store it as it came."""

    def entry(self, *, logs: tuple[int, ...] | None = None, configs: Mapping[str, str] | None = None) -> TopicEntry:
        """As stored, with something replaced."""
        return TopicEntry(
            self.namespace,
            self.name,
            self.id.bytes,
            self.logs if logs is None else logs,
            dict(self.configs if configs is None else configs),
            self.is_queue,
        )


def _time_bound(effective: Mapping[str, str], name: str) -> int | None:
    """None: there is none, also where the time is our own."""
    if effective.get("message.timestamp.type") == "LogAppendTime":
        return None
    number = int(effective.get(name, OPTIONS[name].default))
    return None if number == LONG_MAX else number


class NewTopic(NamedTuple):
    """A wish for a topic."""

    name: str
    partitions: int
    configs: Mapping[str, str] = {}
    namespace: str = DEFAULT_NAMESPACE


Effect: TypeAlias = Callable[[], None]

_encode = msgspec.msgpack.Encoder().encode
_decode_topic = msgspec.msgpack.Decoder(TopicEntry).decode
_decode_configs = msgspec.msgpack.Decoder(dict[str, str]).decode
_decode_number = msgspec.msgpack.Decoder(int).decode


class Catalog:
    """What is known. Only `replay` changes it."""

    def __init__(self) -> None:
        self.namespaces: dict[str, dict[str, Topic]] = {DEFAULT_NAMESPACE: {}}
        self.by_id: dict[uuid.UUID, Topic] = {}
        self.origins: dict[int, tuple[uuid.UUID, int]] = {}
        """The topic and partition that a log is of."""
        self.tables: set[uuid.UUID] = set()
        """Topics that are kept as tables."""
        self.cluster_id = ""
        self.broker_configs: dict[str, dict[str, str]] = {}
        """By node, and by the empty name for all, what was set while the broker ran."""
        self.topic_defaults: dict[str, str] = {}
        """What that means for topics, by the names that topics have for it."""
        self.registered = RegisteredIds()
        self.changes = 0
        """How often topics have changed."""
        self._next_log = 1
        self.reserved: set[tuple[str, str]] = set()
        """Names, with their namespaces, that somebody is about to take."""
        self._plain_names: dict[tuple[str, str], str] = {}
        self._configs: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        """Equal ones are kept once: a hundred thousand queues have the same."""

    # Questions

    def topics(self, namespace: str = DEFAULT_NAMESPACE) -> Mapping[str, Topic]:
        """The topics of a namespace, by name; stays current."""
        return self.namespaces.setdefault(namespace, {})

    def topic(self, name: str, namespace: str = DEFAULT_NAMESPACE) -> Topic:
        """One topic. Raises UnknownTopic."""
        found = self.topics(namespace).get(name)
        if found is None:
            raise UnknownTopic(f"topic {name}")
        return found

    # Decisions

    def decide_founding(self, cluster_id: str) -> list[Mutation]:
        """The first thing a new catalog holds: a name of its own."""
        return [Mutation(SCOPE, _CLUSTER_KEY, cluster_id.encode())]

    def decide_create(self, wishes: Iterable[NewTopic], new_id: Callable[[], uuid.UUID]) -> Decision:
        """Topics with their logs; all of the wishes were checked one by one before."""
        changes: list[LogChange] = []
        state: list[Mutation] = []
        next_log = self._next_log
        for wish in wishes:
            self.check_create(wish)
            config = self._log_config(wish.configs)
            logs = tuple(range(next_log, next_log + wish.partitions))
            next_log += wish.partitions
            changes += [CreateLog(log, config) for log in logs]
            entry = TopicEntry(wish.namespace, wish.name, new_id().bytes, logs, dict(wish.configs))
            state.append(put_topic(entry))
        state.append(Mutation(SCOPE, _NEXT_LOG_KEY, _encode(next_log)))
        return Decision(changes, state)

    def take_logs(self, count: int) -> tuple[tuple[int, ...], Mutation]:
        """Numbers for new logs, never given out again, and what is to be committed with their creation."""
        logs = tuple(range(self._next_log, self._next_log + count))
        self._next_log += count
        return logs, Mutation(SCOPE, _NEXT_LOG_KEY, _encode(self._next_log))

    def check_create(self, wish: NewTopic) -> None:
        """Whether such a topic could be created now. Raises kinds of TopicError."""
        check_topic_name(wish.name)
        self._check_collision(wish)
        _check_partitions(wish.partitions)
        check_topic_config(wish.configs)

    def _check_collision(self, wish: NewTopic) -> None:
        topics = self.topics(wish.namespace)
        if wish.name in topics or (wish.namespace, wish.name) in self.reserved:
            raise TopicExists(f"Topic '{wish.name}' already exists.")
        # Kafka's metrics write dots as underscores, so it does not let two names meet there; nor do we.
        other = self._plain_names.get((wish.namespace, _plain(wish.name)))
        if other is not None:
            raise InvalidTopicName(f"Topic '{wish.name}' collides with existing topics: {other}")

    def decide_delete(self, topic: Topic) -> Decision:
        """The topic goes, with all that is in it."""
        return Decision([DeleteLog(log) for log in topic.logs], [Mutation(SCOPE, _topic_key(topic), None)])

    def decide_expand(self, topic: Topic, partitions: int) -> Decision:
        """More partitions; there are never fewer."""
        if topic.is_queue:
            raise InvalidPartitionCount(f"The topic {topic.name} is a queue, which has the partitions that it has.")
        if partitions <= len(topic.logs):
            raise InvalidPartitionCount(f"The topic {topic.name} currently has {len(topic.logs)} partition(s).")
        _check_partitions(partitions)
        first = self._next_log
        added = tuple(range(first, first + partitions - len(topic.logs)))
        config = self._log_config(topic.configs)
        state = [
            put_topic(topic.entry(logs=topic.logs + added)),
            Mutation(SCOPE, _NEXT_LOG_KEY, _encode(added[-1] + 1)),
        ]
        return Decision([CreateLog(log, config) for log in added], state)

    def decide_append_log(self, topic: Topic, log: int) -> Decision:
        """A log that is there becomes the last partition."""
        config = self._log_config(topic.configs, is_queue=topic.is_queue)
        return Decision([ConfigureLog(log, config)], [put_topic(topic.entry(logs=(*topic.logs, log)))])

    def decide_configure(self, topic: Topic, configs: Mapping[str, str]) -> Decision:
        """Another configuration, as a whole."""
        check_topic_config(configs)
        config = self._log_config(configs, is_queue=topic.is_queue)
        return Decision([ConfigureLog(log, config) for log in topic.logs], [put_topic(topic.entry(configs=configs))])

    def decide_alter(self, topic: Topic, partitions: int, configs: Mapping[str, str]) -> Decision:
        """More partitions and another configuration at once."""
        configured = self.decide_configure(topic, configs)
        altered = Topic(topic.entry(configs=configs), self.topic_defaults, self.registered)
        expanded = self.decide_expand(altered, partitions)
        # The later entry of the topic holds both.
        return Decision(configured.logs + expanded.logs, expanded.state)

    def decide_broker_config(self, name: str, configs: Mapping[str, str]) -> Decision:
        """Another configuration of a node, or of all, as a whole. Topics without their own follow it."""
        check_broker_config(configs)
        revised = {**self.broker_configs, name: dict(configs)}
        defaults = _defaults(revised)
        changes: list[LogChange] = []
        for topic in self.by_id.values():
            config = log_config({**defaults, **topic.configs}, is_queue=topic.is_queue)
            if config != self._log_config(topic.configs, is_queue=topic.is_queue):
                changes += [ConfigureLog(log, config) for log in topic.logs]
        value = _encode(dict(configs)) if configs else None
        return Decision(changes, [Mutation(SCOPE, _BROKER_PREFIX + name.encode(), value)])

    def _log_config(self, configs: Mapping[str, str], *, is_queue: bool = False) -> LogConfig:
        return log_config({**self.topic_defaults, **configs}, is_queue=is_queue)

    # Effects

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one mutation of the scope."""
        self.prepare(key, value)()

    def prepare(self, key: bytes, value: bytes | None) -> Effect:
        """Decode one mutation of the scope; the effect applies it.

        Only decoding can fail. A change is prepared before it is committed and applied after, so memory follows the log.
        """
        if key.startswith(_TOPIC_PREFIX):
            if value is None:
                return functools.partial(self._remove_topic, *_decode_topic_key(key))
            return functools.partial(self._put_topic, _decode_topic(value))
        if key == _NEXT_LOG_KEY and value is not None:
            return functools.partial(self._set_next_log, _decode_number(value))
        if key.startswith(_BROKER_PREFIX):
            name = key.removeprefix(_BROKER_PREFIX).decode()
            return functools.partial(self._set_broker_config, name, None if value is None else _decode_configs(value))
        if key == _CLUSTER_KEY and value is not None:
            return functools.partial(self._set_cluster, value.decode())
        return _nothing

    def _set_next_log(self, number: int) -> None:
        self._next_log = number

    def _set_cluster(self, name: str) -> None:
        self.cluster_id = name

    def _remove_topic(self, namespace: str, name: str) -> None:
        gone = self.namespaces.get(namespace, {}).pop(name, None)
        if gone is None:
            return
        self.changes += 1
        self.by_id.pop(gone.id, None)
        self.tables.discard(gone.id)
        for log in gone.logs:
            self.origins.pop(log, None)
        if self._plain_names.get((namespace, _plain(name))) == name:
            del self._plain_names[namespace, _plain(name)]

    def _put_topic(self, entry: TopicEntry) -> None:
        self.changes += 1
        configs = self._configs.setdefault(tuple(entry.configs.items()), entry.configs)
        topic = Topic(msgspec.structs.replace(entry, configs=configs), self.topic_defaults, self.registered)
        self.namespaces.setdefault(topic.namespace, {})[topic.name] = topic
        self.by_id[topic.id] = topic
        (self.tables.add if configs.get(TABLE) == "true" else self.tables.discard)(topic.id)
        self.origins.update((log, (topic.id, partition)) for partition, log in enumerate(topic.logs))
        self._plain_names[topic.namespace, _plain(topic.name)] = topic.name

    def _set_broker_config(self, name: str, configs: dict[str, str] | None) -> None:
        if configs is None:
            self.broker_configs.pop(name, None)
        else:
            self.broker_configs[name] = configs
        self.topic_defaults = _defaults(self.broker_configs)
        for known in list(self.by_id.values()):
            topic = Topic(known.entry(), self.topic_defaults, self.registered)
            self.namespaces[topic.namespace][topic.name] = self.by_id[topic.id] = topic


def _defaults(broker_configs: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    nodes = [configs for name, configs in broker_configs.items() if name != CLUSTER]
    return topic_defaults(broker_configs.get(CLUSTER, {}), nodes[0] if nodes else {})


def check_topic_name(name: str) -> None:
    """Raises InvalidTopicName."""
    if not name:
        raise InvalidTopicName("Topic name is illegal, it can't be empty")
    if name in {".", ".."}:
        raise InvalidTopicName('Topic name cannot be "." or ".."')
    if len(name) > TOPIC_NAME_CHARACTERS_MAX:
        raise InvalidTopicName(f"Topic name is longer than {TOPIC_NAME_CHARACTERS_MAX} characters")
    if not _NAME.fullmatch(name):
        raise InvalidTopicName(f"Topic name {name!r} has characters other than ASCII alphanumerics, '.', '_' and '-'")


def _plain(name: str) -> str:
    return name.replace(".", "_")


def _check_partitions(count: int) -> None:
    if not 1 <= count <= PARTITIONS_MAX:
        raise InvalidPartitionCount(f"Number of partitions must be between 1 and {PARTITIONS_MAX}.")


def _nothing() -> None:
    pass


def _topic_key(topic: Topic | TopicEntry) -> bytes:
    return _TOPIC_PREFIX + f"{topic.namespace}/{topic.name}".encode()


def _decode_topic_key(key: bytes) -> tuple[str, str]:
    """Namespace and name. A namespace may hold slashes, the name of a topic never does."""
    namespace, _, name = key.removeprefix(_TOPIC_PREFIX).decode().rpartition("/")
    return namespace, name


def put_topic(entry: TopicEntry) -> Mutation:
    """Store a topic."""
    return Mutation(SCOPE, _topic_key(entry), _encode(entry))
