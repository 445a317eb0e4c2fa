"""Describing and altering configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.errors import InvalidTopicConfig
from mainstem.broker.group_configs import GROUP_OPTIONS
from mainstem.broker.topics import OPTIONS
from mainstem.model.errors import MainstemError
from mainstem.protocols.kafka.errors import code_of
from mainstem.protocols.kafka.handlers.requests import Body, Call, Served
from mainstem.protocols.kafka.mapping import NODE_ID
from mainstem.protocols.kafka.session import KafkaSettings
from mainstem.wire.kafka import ApiKey, ErrorCode

TOPIC_RESOURCE, BROKER_RESOURCE, GROUP_RESOURCE = 2, 4, 32
SOURCE_TOPIC, SOURCE_STATIC, SOURCE_DEFAULT, SOURCE_GROUP = 1, 4, 5, 8
KINDS = {"boolean": 1, "string": 2, "int": 3, "long": 5, "double": 6, "list": 7}
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe_options(
    configs: Mapping[str, str],
    names: Collection[str] | None = None,
    *,
    synonyms: bool = False,
    documented: bool = False,
) -> list[Body]:
    """Every topic option, with what was set or its default."""
    described = []
    for option in OPTIONS.values():
        if names is not None and option.name not in names:
            continue
        is_set = option.name in configs
        value = configs.get(option.name, option.default)
        known = [{"name": option.name, "value": value, "source": SOURCE_TOPIC}] if is_set else []
        known.append({"name": option.name, "value": option.default, "source": SOURCE_DEFAULT})
        described.append(
            {
                "name": option.name,
                "value": value,
                "read_only": False,
                "config_source": SOURCE_TOPIC if is_set else SOURCE_DEFAULT,
                "is_sensitive": False,
                "synonyms": known if synonyms else [],
                "config_type": KINDS[option.kind],
                "documentation": option.text if documented else None,
            }
        )
    return described


class ConfigHandlers:
    """DescribeConfigs, AlterConfigs, IncrementalAlterConfigs."""

    def __init__(self, broker: Broker, settings: KafkaSettings) -> None:
        self._topics = broker.topics
        self._groups = broker.share_groups.configs
        self._settings = settings

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.DESCRIBE_CONFIGS: Served(self.describe_configs, 1, 4),
            ApiKey.ALTER_CONFIGS: Served(self.alter_configs, 0, 2),
            ApiKey.INCREMENTAL_ALTER_CONFIGS: Served(self.incremental_alter_configs, 0, 1),
        }

    # Describe

    def describe_configs(self, call: Call) -> Body:
        """Of topics, and of the broker what Kafka has a name for."""
        return {"results": [self._describe(resource, call.body) for resource in call.body.resources]}

    def _describe(self, resource: Any, asked: Any) -> Body:
        answer: Body = {
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }
        names = resource.configuration_keys
        if resource.resource_type == TOPIC_RESOURCE:
            topic = self._topics.named().get(resource.resource_name)
            if topic is None:
                return answer | {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            answer["configs"] = describe_options(
                topic.configs, names, synonyms=asked.include_synonyms, documented=asked.include_documentation
            )
        elif resource.resource_type == BROKER_RESOURCE and resource.resource_name in ("", str(NODE_ID)):
            answer["configs"] = [
                {
                    "name": name,
                    "value": value,
                    "read_only": True,
                    "config_source": SOURCE_STATIC,
                    "is_sensitive": False,
                    "config_type": KINDS[kind],
                }
                for name, kind, value in self._broker_options()
                if names is None or name in names
            ]
        elif resource.resource_type == GROUP_RESOURCE and resource.resource_name:
            configs = self._groups.get(resource.resource_name)
            answer["configs"] = [
                {
                    "name": option.name,
                    "value": configs.get(option.name, option.default),
                    "read_only": False,
                    "config_source": SOURCE_GROUP if option.name in configs else SOURCE_DEFAULT,
                    "is_sensitive": False,
                    "config_type": KINDS[option.kind],
                    "documentation": option.text if asked.include_documentation else None,
                }
                for option in GROUP_OPTIONS.values()
                if names is None or option.name in names
            ]
        else:
            message = "Only topics, groups and the one broker have configurations here."
            answer |= {"error_code": ErrorCode.INVALID_REQUEST, "error_message": message}
        return answer

    def _broker_options(self) -> list[tuple[str, str, str]]:
        return [
            ("auto.create.topics.enable", "boolean", str(self._settings.auto_create_topics).lower()),
            ("broker.id", "int", str(NODE_ID)),
            ("default.replication.factor", "int", "1"),
            ("fetch.max.bytes", "int", str(self._settings.fetch_bytes_max)),
            ("num.partitions", "int", str(self._settings.partitions_default)),
            ("socket.request.max.bytes", "int", str(self._settings.request_bytes_max)),
        ]

    # Alter

    async def alter_configs(self, call: Call) -> Body:
        """Replace all that was set of a resource."""

        def whole(resource: Any) -> dict[str, str]:
            return {config.name: _value(config) for config in resource.configs}

        responses = []
        for resource in call.body.resources:
            try:
                configs = whole(resource)
            except InvalidTopicConfig as error:
                responses.append(_altered(resource, code_of(error), str(error)))
                continue
            responses.append(await self._alter(resource, call.body.validate_only, lambda _, new=configs: new))
        return {"responses": responses}

    async def incremental_alter_configs(self, call: Call) -> Body:
        """Change single names of a resource."""
        responses = []
        for resource in call.body.resources:
            responses.append(
                await self._alter(
                    resource,
                    call.body.validate_only,
                    lambda configs, resource=resource: _revise(configs, resource.configs),
                )
            )
        return {"responses": responses}

    async def _alter(self, resource: Any, dry_run: bool, revise: Any) -> Body:
        if resource.resource_type not in (TOPIC_RESOURCE, GROUP_RESOURCE) or not resource.resource_name:
            message = "Only configurations of topics and groups can be altered; the broker's are its settings."
            return _altered(resource, ErrorCode.INVALID_REQUEST, message)
        try:
            configured = self._topics if resource.resource_type == TOPIC_RESOURCE else self._groups
            await configured.configure(resource.resource_name, revise, dry_run=dry_run)
        except MainstemError as error:
            return _altered(resource, code_of(error), str(error))
        return _altered(resource, ErrorCode.NONE, None)


def _value(config: Any) -> str:
    if config.value is None:
        raise InvalidTopicConfig(f"Null value not supported for : {config.name}")
    value: str = config.value
    return value


def _revise(configs: dict[str, str], changes: list[Any]) -> dict[str, str]:
    for change in changes:
        name = change.name
        if change.config_operation == DELETE:
            configs.pop(name, None)
            continue
        value = _value(change)
        if change.config_operation in (APPEND, SUBTRACT):
            option = OPTIONS.get(name)
            if option is None or option.kind != "list":
                raise InvalidTopicConfig(f"Can't append to or subtract from {name}: it is not a list.")
            have = [part for part in configs.get(name, option.default).split(",") if part]
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


def _altered(resource: Any, code: int, message: str | None) -> Body:
    return {
        "error_code": code,
        "error_message": message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }
