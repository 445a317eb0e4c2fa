"""Describing and altering configuration: of topics, of the broker and its loggers, of groups, of clients' measurements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import OPTIONS
from mainstem.broker.clients.broker_configs import CLUSTER, STORED, TOPIC_NAMES
from mainstem.broker.clients.metrics import METRICS_OPTIONS
from mainstem.broker.errors import InvalidTopicConfig
from mainstem.broker.groups.group_configs import GROUP_OPTIONS
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.admin.broker_settings import BrokerSettings
from mainstem.protocols.kafka.handlers.admin.config_entries import (
    DEFAULT,
    OF_GROUP,
    OF_LOGGER,
    OF_METRICS,
    Asked,
    Source,
    describe_cluster_configs,
    describe_node,
    describe_topic_options,
    entry,
)
from mainstem.protocols.kafka.handlers.admin.loggers import LEVELS, alter_loggers, describe_loggers
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.wire.kafka import ApiKey, ErrorCode

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
"""Kinds of resources."""
SET, DELETE, APPEND, SUBTRACT = range(4)
ALL_KINDS_FROM = 1

Revise: TypeAlias = Callable[[dict[str, str]], Mapping[str, str]]
Configure: TypeAlias = Callable[..., Awaitable[None]]
"""Takes a name, a Revise and `dry_run`."""


class RefusedResource(Exception):
    """There is no such thing to describe or alter."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ConfigHandlers:
    """DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

    def __init__(self, broker: Broker, settings: BrokerSettings) -> None:
        self._topics = broker.topics
        self._groups = broker.share_groups.configs
        self._metrics = broker.client_metrics
        self._settings = settings

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.DESCRIBE_CONFIGS: Served(self.describe_configs, 1, 4),
            ApiKey.ALTER_CONFIGS: Served(self.alter_configs, 0, 2),
            ApiKey.INCREMENTAL_ALTER_CONFIGS: Served(self.incremental_alter_configs, 0, 1),
            ApiKey.LIST_CONFIG_RESOURCES: Served(self.list_config_resources, 0, 1),
        }

    def list_config_resources(self, call: Call) -> Body:
        """What has configurations; before version 1, of clients' measurements alone."""
        node = str(self._topics.node)
        named = {
            TOPIC: list(self._topics.named()),
            BROKER: [node],
            LOGGER: [node],
            METRICS: self._metrics.names(),
            GROUP: self._groups.names(),
        }
        kinds = [METRICS] if call.version < ALL_KINDS_FROM else list(call.body.resource_types) or list(named)
        if any(kind not in named for kind in kinds):
            return {"error_code": ErrorCode.UNSUPPORTED_VERSION}
        resources = [{"resource_name": name, "resource_type": kind} for kind in kinds for name in named[kind]]
        return {"error_code": ErrorCode.NONE, "config_resources": resources}

    # Describe

    def describe_configs(self, call: Call) -> Body:
        """Each resource by itself."""
        return {"results": [self._describe(resource, call.body) for resource in call.body.resources]}

    def _describe(self, resource: Any, request: Any) -> Body:
        answer: Body = {
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }
        asked = Asked(resource.configuration_keys, request.include_synonyms, request.include_documentation)
        try:
            return answer | {"configs": self._configs(resource.resource_type, resource.resource_name, asked)}
        except RefusedResource as refusal:
            return answer | {"error_code": refusal.code, "error_message": refusal.message}

    def _configs(self, kind: int, name: str, asked: Asked) -> list[Body]:
        if kind == TOPIC:
            topic = self._topics.named().get(name)
            if topic is None:
                raise RefusedResource(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return describe_topic_options(self._topics, topic.configs, asked)
        if kind in (BROKER, LOGGER):
            _check_node(kind, name, self._topics.node)
        if kind == BROKER and name == CLUSTER:
            return describe_cluster_configs(self._topics, asked)
        if kind == BROKER:
            return describe_node(self._topics, self._settings.all(), asked)
        if kind == LOGGER:
            return [
                entry(logger, "string", [Source(logger, level, OF_LOGGER)], asked, ", ".join(LEVELS))
                for logger, level in describe_loggers().items()
                if asked.wants(logger)
            ]
        if kind == GROUP and name:
            return _describe_options(self._groups.options(), self._groups.get(name), OF_GROUP, asked)
        if kind == METRICS and name:
            return _describe_options(METRICS_OPTIONS, self._metrics.get(name), OF_METRICS, asked)
        raise RefusedResource(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {kind}, or no name.")

    # Alter

    async def alter_configs(self, call: Call) -> Body:
        """Replace all that was set of a resource."""

        async def alter(resource: Any) -> None:
            if resource.resource_type == LOGGER:
                raise RefusedResource(ErrorCode.INVALID_REQUEST, "Levels of loggers are altered one by one.")
            configs = {config.name: _value(config) for config in resource.configs}
            await self._configure(resource, call.body.validate_only, lambda _: configs)

        return await _each(call.body.resources, alter)

    async def incremental_alter_configs(self, call: Call) -> Body:
        """Change single names of a resource."""

        async def alter(resource: Any) -> None:
            changes, dry_run = resource.configs, call.body.validate_only
            if max(Counter(change.name for change in changes).values(), default=0) > 1:
                raise RefusedResource(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
            if resource.resource_type == LOGGER:
                _check_node(LOGGER, resource.resource_name, self._topics.node)
                alter_loggers(changes, DELETE, SET, dry_run=dry_run)
                return
            lists = _lists_of(resource.resource_type)
            await self._configure(resource, dry_run, lambda configs: _revise(configs, changes, lists))

        return await _each(call.body.resources, alter)

    async def _configure(self, resource: Any, dry_run: bool, revise: Revise) -> None:
        kind, name = resource.resource_type, resource.resource_name
        if kind == BROKER:
            _check_node(kind, name, self._topics.node)
        elif not name or kind not in (TOPIC, GROUP, METRICS):
            raise RefusedResource(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {kind}, or no name.")
        configure: dict[int, Configure] = {
            TOPIC: self._topics.configure,
            BROKER: self._topics.configure_broker,
            GROUP: self._groups.configure,
            METRICS: self._metrics.configure,
        }
        await configure[kind](name, revise, dry_run=dry_run)


async def _each(resources: list[Any], alter: Callable[[Any], Awaitable[None]]) -> Body:
    """Each resource succeeds or fails alone; one that is there twice fails."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    responses = []
    for resource in resources:
        code, message = ErrorCode.NONE, None
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise RefusedResource(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            await alter(resource)
        except RefusedResource as refusal:
            code, message = refusal.code, refusal.message
        except MainstemError as error:
            code, message = code_of(error), str(error)
        responses.append(
            {
                "error_code": code,
                "error_message": message,
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
            }
        )
    return {"responses": responses}


def _check_node(kind: int, name: str, node: int) -> None:
    if name != str(node) and (kind == LOGGER or name != CLUSTER):
        raise RefusedResource(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node}, but received {name!r}"
        )


def _describe_options(options: Mapping[str, Any], configs: Mapping[str, str], source: int, asked: Asked) -> list[Body]:
    described = []
    for option in options.values():
        if asked.wants(option.name):
            sources = [Source(option.name, option.default, DEFAULT)]
            if option.name in configs:
                sources.insert(0, Source(option.name, configs[option.name], source))
            described.append(entry(option.name, option.kind, sources, asked, option.text))
    return described


def _lists_of(kind: int) -> dict[str, str]:
    """The configurations of a kind of resource that are lists, with their defaults."""
    if kind == BROKER:
        stored = {fact.name: fact.default or "" for fact in STORED.values() if fact.kind == "list"}
        return stored | {name: OPTIONS[of].default for name, of in TOPIC_NAMES.items() if OPTIONS[of].kind == "list"}
    options: dict[int, Mapping[str, Any]] = {TOPIC: OPTIONS, GROUP: GROUP_OPTIONS, METRICS: METRICS_OPTIONS}
    return {option.name: option.default for option in options.get(kind, {}).values() if option.kind == "list"}


def _value(config: Any) -> str:
    if config.value is None:
        raise InvalidTopicConfig(f"Null value not supported for : {config.name}")
    value: str = config.value
    return value


def _revise(configs: dict[str, str], changes: list[Any], lists: Mapping[str, str]) -> dict[str, str]:
    for change in changes:
        name = change.name
        if change.config_operation == DELETE:
            configs.pop(name, None)
            continue
        value = _value(change)
        if change.config_operation in (APPEND, SUBTRACT):
            if name not in lists:
                raise InvalidTopicConfig(f"Can't append to or subtract from {name}: it is not a list.")
            have = [part for part in configs.get(name, lists[name]).split(",") if part]
            given = value.split(",")
            if change.config_operation == APPEND:
                have += [part for part in given if part not in have]
            else:
                have = [part for part in have if part not in given]
            value = ",".join(have)
        elif change.config_operation != SET:
            raise InvalidTopicConfig(f"Unknown operation {change.config_operation} on {name}.")
        configs[name] = value
    return configs
