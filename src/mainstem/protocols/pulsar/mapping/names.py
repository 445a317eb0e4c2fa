"""Names of topics: `persistent://tenant/namespace/topic`, with `-partition-N` behind it where one partition is meant.

`public/default` is the default namespace, so that clients of other protocols know its topics by their own names. Another
has the name `tenant/namespace`. `x` and `x-partition-0` are never two logs.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.queues import queue_name_of, topic_name_of
from mainstem.protocols.pulsar.errors import CommandRefused, ServerError

PUBLIC = "public/default"
PERSISTENT, NON_PERSISTENT = "persistent", "non-persistent"
DOMAINS = (PERSISTENT, NON_PERSISTENT)
SYSTEM = "pulsar/system"
COORDINATORS = "transaction_coordinator_assign"
"""The topic, in the system's namespace, by whose partitions clients find transaction coordinators."""
_PARTITION = re.compile(r"(.+)-partition-(0|[1-9][0-9]{0,8})", re.DOTALL)
_PART = re.compile(r"[-=:.\w]+", re.ASCII)
"""Of tenants and namespaces."""


class TopicName(NamedTuple):
    """A name, taken apart."""

    domain: str
    place: str
    """Tenant and namespace."""
    local: str
    """Without a partition."""
    partition: int = -1

    @property
    def namespace(self) -> str:
        """Ours."""
        return namespace_of(self.place)

    @property
    def topic(self) -> str:
        """Ours."""
        name = topic_name_of(self.local)
        if name is None:
            raise CommandRefused(ServerError.INVALID_TOPIC_NAME, f"the name {self.local[:80]}... is too long")
        return name

    @property
    def whole(self) -> str:
        """The name of all partitions together."""
        return f"{self.domain}://{self.place}/{self.local}"

    def __str__(self) -> str:
        return self.whole if self.partition < 0 else partition_name(self.whole, self.partition)


def topic_name(text: str) -> TopicName:
    """A name as clients say it. Raises CommandRefused."""
    domain, found, rest = text.partition("://")
    if not found:
        domain, rest = PERSISTENT, text
        if "/" not in text:
            rest = f"{PUBLIC}/{text}"
    tenant, _, more = rest.partition("/")
    namespace, _, local = more.partition("/")
    if domain not in DOMAINS or not (_PART.fullmatch(tenant) and _PART.fullmatch(namespace)) or not local.strip():
        raise CommandRefused(ServerError.INVALID_TOPIC_NAME, f"Invalid topic name: {text[:200]!r}")
    return local_name(domain, f"{tenant}/{namespace}", local)


def local_name(domain: str, place: str, local: str) -> TopicName:
    """The same, where the parts are known."""
    match = _PARTITION.fullmatch(local)
    if match is None:
        return TopicName(domain, place, local)
    return TopicName(domain, place, match[1], int(match[2]))


def partition_name(whole: str, partition: int) -> str:
    """Of one partition."""
    return f"{whole}-partition-{partition}"


def namespace_of(place: str) -> str:
    """Our namespace."""
    return DEFAULT_NAMESPACE if place == PUBLIC else place


def place_of(namespace: str) -> str | None:
    """Tenant and namespace; None: a namespace of ours that is no place of Pulsar."""
    if namespace == DEFAULT_NAMESPACE:
        return PUBLIC
    parts = namespace.split("/")
    return namespace if len(parts) == 2 and all(map(_PART.fullmatch, parts)) else None


def shown_name(topic: str) -> str:
    """The local name of a topic of ours."""
    return queue_name_of(topic)


def is_part(text: str) -> bool:
    """Whether a tenant or a namespace may be called so."""
    return _PART.fullmatch(text) is not None
