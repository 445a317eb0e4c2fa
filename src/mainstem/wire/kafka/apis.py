"""Every API by its key."""

from collections.abc import Mapping
from types import MappingProxyType

from mainstem.wire.errors import UnknownMessage
from mainstem.wire.kafka.schema import Api
from mainstem.wire.kafka.tables import (
    cluster,
    configs,
    consumer_groups,
    delegation_tokens,
    groups,
    records,
    security,
    share_groups,
    topics,
    transactions,
)

_FAMILIES = (
    records,
    cluster,
    groups,
    consumer_groups,
    share_groups,
    transactions,
    topics,
    configs,
    security,
    delegation_tokens,
)

_TABLES: tuple[Api, ...] = tuple(api for family in _FAMILIES for api in family.APIS)

APIS: Mapping[int, Api] = MappingProxyType({api.key: api for api in _TABLES})


def api_of(api_key: int) -> Api:
    """The API of this key; raises `UnknownMessage` if there is none."""
    api = APIS.get(api_key)
    if api is None:
        raise UnknownMessage(f"no API has the key {api_key}")
    return api
