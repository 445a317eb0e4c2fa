"""Where topics are: LOOKUP, partitions, lists of topics; and signs of life."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import re2

from mainstem.protocols.pulsar.codec.frames import Buffer, encode_command
from mainstem.protocols.pulsar.codec.schema import Kind
from mainstem.protocols.pulsar.errors import CommandRefused, ServerError
from mainstem.protocols.pulsar.handlers.calls import Handler, Refusal, Speaker
from mainstem.protocols.pulsar.handlers.topics import PulsarTopics, topics_hash
from mainstem.protocols.pulsar.mapping.names import topic_name

FAILED, CONNECT_THERE, FAILED_METADATA = 2, 1, 1
PATTERN_CHARACTERS_MAX = 1_000


class Lookups:
    """For all connections."""

    def __init__(self, topics: PulsarTopics, address: Callable[[], str | None]) -> None:
        self._topics = topics
        self._address = address

    def handlers(self) -> dict[int, Handler]:
        """By type."""
        return {
            Kind.PING: self.ping,
            Kind.PONG: self.pong,
            Kind.LOOKUP: self.lookup,
            Kind.PARTITIONED_METADATA: self.partitions,
            Kind.GET_TOPICS: self.list_topics,
        }

    def refusals(self) -> dict[str, Refusal]:
        """By the name of what was asked."""
        return {"Lookup": _refuse_lookup, "PartitionedMetadata": _refuse_partitions}

    def ping(self, connection: Speaker, said: Any) -> None:
        """A sign of life is asked for."""
        connection.say(Kind.PONG)

    def pong(self, connection: Speaker, said: Any) -> None:
        """It is there."""

    def url(self) -> str:
        """Where clients find us."""
        address = self._address()
        if address is None:
            raise CommandRefused(ServerError.SERVICE_NOT_READY, "the binary protocol has no listener")
        return f"pulsar://{address}"

    def lookup(self, connection: Speaker, said: Any) -> None:
        """Every topic is here."""
        name = topic_name(said.topic)
        self._topics.check_place(name)
        if said.advertised_listener_name:
            raise CommandRefused(
                ServerError.METADATA, f"the broker has no listener of the name {said.advertised_listener_name[:100]}"
            )
        connection.say(
            Kind.LOOKUP_RESPONSE,
            brokerServiceUrl=self.url(),
            response=CONNECT_THERE,
            request_id=said.request_id,
            authoritative=True,
            proxy_through_service_url=False,
        )

    def partitions(self, connection: Speaker, said: Any) -> None:
        """How many a topic has."""
        name = topic_name(said.topic)
        may_create = not said.HasField("metadata_auto_creation_enabled") or said.metadata_auto_creation_enabled
        count = self._topics.partitions_of(name, may_create=may_create and self._topics.may_create(name))
        connection.say(Kind.PARTITIONED_METADATA_RESPONSE, partitions=count, request_id=said.request_id, response=0)

    def list_topics(self, connection: Speaker, said: Any) -> None:
        """Of a namespace, by a pattern where one is given."""
        if not self._topics.book.has_place(said.namespace):
            raise CommandRefused(ServerError.TOPIC_NOT_FOUND, f"Namespace not found: {said.namespace}")
        names = self._topics.names(said.namespace) if said.mode != 1 else []
        is_filtered = bool(said.topics_pattern)
        if is_filtered:
            names = matching(names, said.topics_pattern)
        found = topics_hash(names)
        is_changed = found != said.topics_hash
        connection.say(
            Kind.GET_TOPICS_RESPONSE,
            request_id=said.request_id,
            topics=names if is_changed else [],
            filtered=is_filtered,
            topics_hash=found,
            changed=is_changed,
        )


def matching(names: list[str], pattern: str) -> list[str]:
    """Those whose name without domain and partition fits a client's pattern. Raises CommandRefused."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise CommandRefused(ServerError.METADATA, f"a pattern of more than {PATTERN_CHARACTERS_MAX} characters")
    try:
        compiled = re2.compile(pattern.partition("://")[2] or pattern)
    except re2.error as error:
        raise CommandRefused(ServerError.METADATA, f"the pattern cannot be read: {error}") from None
    return [name for name in names if compiled.fullmatch(_bare(name))]


def _bare(name: str) -> str:
    return re.sub(r"-partition-[0-9]+$", "", name.partition("://")[2])


def _refuse_lookup(said: Any, code: ServerError, reason: str) -> list[Buffer]:
    return encode_command(Kind.LOOKUP_RESPONSE, request_id=said.request_id, response=FAILED, error=code, message=reason)


def _refuse_partitions(said: Any, code: ServerError, reason: str) -> list[Buffer]:
    return encode_command(
        Kind.PARTITIONED_METADATA_RESPONSE,
        request_id=said.request_id,
        response=FAILED_METADATA,
        error=code,
        message=reason,
    )
