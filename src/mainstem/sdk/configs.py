"""What a broker and its topics are set to, asked by Kafka's own request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from mainstem.sdk.client import Client
from mainstem.sdk.errors import BrokerRefused, ClientError, UnknownTopic
from mainstem.wire.kafka import ApiKey, ErrorCode

BROKER_RESOURCE, TOPIC_RESOURCE = 4, 2
RESOURCES_MAX = 1_000
"""Asked for at a time."""


def broker_config(client: Client, key: str) -> str:
    """One setting of the broker."""
    nodes = client.cluster([]).nodes
    name = str(min(nodes))
    return _describe(client, BROKER_RESOURCE, [name], [key])[name][key]


def topic_configs(client: Client, topics: Iterable[str], keys: Sequence[str]) -> dict[str, dict[str, str]]:
    """By topic and name. Raises UnknownTopic."""
    found: dict[str, dict[str, str]] = {}
    rest = iter(topics)
    while some := list(islice(rest, RESOURCES_MAX)):
        found |= _describe(client, TOPIC_RESOURCE, some, keys)
    return found


def _describe(client: Client, kind: int, names: Sequence[str], keys: Sequence[str]) -> dict[str, dict[str, str]]:
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": list(keys)} for name in names]
    answers = client.retrying(
        lambda: client.anywhere().request(ApiKey.DESCRIBE_CONFIGS, {"resources": resources}).results
    )
    found: dict[str, dict[str, str]] = {}
    for answer in answers:
        if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(answer.resource_name)
        if answer.error_code:
            raise BrokerRefused(f"Asking for {', '.join(keys)}", answer.error_code, answer.error_message)
        configs = {config.name: str(config.value) for config in answer.configs}
        for key in keys:
            if key not in configs:
                raise ClientError(f"The broker knows no {key}: it is of another version, or not Mainstem.")
        found[answer.resource_name] = configs
    return found
