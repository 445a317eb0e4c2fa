"""One configuration as DescribeConfigs tells it: its value, where that comes from, and what it would be otherwise."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from mainstem.broker.catalog.topics import OPTIONS, TopicOption, Topics
from mainstem.broker.clients.broker_configs import (
    BROKER_FACTS,
    BROKER_NAMES,
    CLUSTER,
    REPLICATION_RATES,
    STORED,
    TOPIC_NAMES,
)
from mainstem.protocols.kafka.handlers.admin.broker_settings import BrokerSetting
from mainstem.protocols.kafka.handlers.calls import Body

OF_TOPIC, OF_NODE, OF_CLUSTER, OF_START, DEFAULT, OF_LOGGER, OF_METRICS, OF_GROUP = range(1, 9)
"""Where a value comes from; of several the first holds."""
KINDS = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}
OTHER_UNITS: Mapping[str, tuple[str, str]] = {
    "retention.ms": ("log.retention.hours", "168"),
    "segment.ms": ("log.roll.hours", "168"),
}
"""Where Kafka's own default has another name."""
ALWAYS_OF_CLUSTER = "min.insync.replicas"
"""Kafka sets it for the cluster when it founds one (KIP-966)."""


class Asked(NamedTuple):
    """What is to be told."""

    names: Collection[str] | None = None
    synonyms: bool = False
    documented: bool = False

    def wants(self, name: str) -> bool:
        """Whether this configuration is meant."""
        return self.names is None or name in self.names


EVERYTHING = Asked()


class Source(NamedTuple):
    """A value, and where it is set under which name."""

    name: str
    value: str | None
    source: int


def entry(
    name: str,
    kind: str,
    sources: list[Source],
    asked: Asked,
    text: str,
    *,
    value: str | None = None,
    fixed: bool = False,
) -> Body:
    """One configuration; `sources` begins with the one that holds."""
    return {
        "name": name,
        "value": sources[0].value if value is None else value,
        "read_only": fixed,
        "config_source": sources[0].source,
        "is_sensitive": kind == "password",
        "synonyms": [source._asdict() for source in sources if source.value is not None] if asked.synonyms else [],
        "config_type": KINDS[kind],
        "documentation": text or None if asked.documented else None,
    }


def describe_topic_options(topics: Topics, configs: Mapping[str, str], asked: Asked = EVERYTHING) -> list[Body]:
    """Every option of a topic with these configurations."""
    described = []
    for option in OPTIONS.values():
        if asked.wants(option.name):
            own = [Source(option.name, configs[option.name], OF_TOPIC)] if option.name in configs else []
            broker_name = BROKER_NAMES.get(option.name)
            if broker_name is None:
                sources = [*own, Source(option.name, option.default, DEFAULT)]
            else:
                sources = own + _broker_sources(topics, broker_name, option)
            value = option.default if sources[0].source == DEFAULT else None
            described.append(entry(option.name, option.kind, sources, asked, option.text, value=value))
    return described


def _broker_sources(topics: Topics, name: str, option: TopicOption) -> list[Source]:
    sources = _set_sources(topics, name)
    if name == ALWAYS_OF_CLUSTER and all(source.source != OF_CLUSTER for source in sources):
        sources.append(Source(name, option.default, OF_CLUSTER))
    return [*sources, Source(*OTHER_UNITS.get(option.name, (name, option.default)), DEFAULT)]


def _set_sources(topics: Topics, name: str) -> list[Source]:
    """Where a setting of the broker was set while it ran; the one that holds comes first."""
    places = ((topics.broker_configs(str(topics.node)), OF_NODE), (topics.broker_configs(CLUSTER), OF_CLUSTER))
    return [Source(name, configs[name], source) for configs, source in places if name in configs]


def describe_node(topics: Topics, settings: list[BrokerSetting], asked: Asked) -> list[Body]:
    """All that Kafka's brokers have: as it was set at the start, or while the broker ran, or else as it usually is."""
    own = {setting.name: setting for setting in settings}
    names = sorted({*own, *BROKER_FACTS, *(name for name in REPLICATION_RATES if _set_sources(topics, name))})
    return [_describe_setting(topics, name, own.get(name), asked) for name in names if asked.wants(name)]


def _describe_setting(topics: Topics, name: str, own: BrokerSetting | None, asked: Asked) -> Body:
    if name in TOPIC_NAMES:
        option = OPTIONS[TOPIC_NAMES[name]]
        sources = _broker_sources(topics, name, option)
        value = option.default if sources[0].source == DEFAULT else None
        return entry(name, option.kind, sources, asked, option.text, value=value)
    fact = STORED.get(name) or BROKER_FACTS.get(name)
    if own is not None:
        kind, default, text = own.kind if fact is None else fact.kind, own.default, own.text
        sources = [] if own.value == default else [Source(name, own.value, OF_START)]
    else:
        assert fact is not None
        kind, default, text = fact.kind, fact.default, ""
        sources = _set_sources(topics, name)
    if default is not None or not sources:
        sources.append(Source(name, default, DEFAULT))
    return entry(name, kind, sources, asked, text, fixed=name not in STORED)


def describe_cluster_configs(topics: Topics, asked: Asked) -> list[Body]:
    """What was set for all nodes, and nothing else."""
    configs = {ALWAYS_OF_CLUSTER: "1", **topics.broker_configs(CLUSTER)}
    described = []
    for name, value in configs.items():
        if asked.wants(name):
            option = OPTIONS[TOPIC_NAMES[name]] if name in TOPIC_NAMES else None
            kind, text = (STORED[name].kind, "") if option is None else (option.kind, option.text)
            described.append(entry(name, kind, [Source(name, value, OF_CLUSTER)], asked, text))
    return described
