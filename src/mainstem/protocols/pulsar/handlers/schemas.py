"""Schemas of topics, in the broker's one store: what producers and consumers bring, and what is asked for.

A version of Pulsar is a version of the subject, counted from 0 as 8 bytes. JSON, Avro and Protobuf schemas are described in Avro
by Pulsar's clients, and are kept so. What the store does not know of one, its type, name and properties, is its note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mainstem.broker.catalog.topics import Topic
from mainstem.broker.schemas.errors import IncompatibleSchema, InvalidSchema, SchemaError
from mainstem.broker.schemas.schemas import LATEST, Level, Registered, Schema, Subject, subject_of_topic
from mainstem.protocols.pulsar.codec.frames import Buffer, encode_command
from mainstem.protocols.pulsar.codec.schema import Kind
from mainstem.protocols.pulsar.errors import CommandRefused, ServerError
from mainstem.protocols.pulsar.handlers.calls import Handler, Refusal, Speaker
from mainstem.protocols.pulsar.mapping.names import TopicName, place_of, topic_name
from mainstem.wire.schemas.levels import PULSAR_LEVELS
from mainstem.wire.schemas.schema import AVRO

if TYPE_CHECKING:
    from mainstem.protocols.pulsar.handlers.parts import PulsarParts

STRATEGY, AUTO_UPDATE = "schema_compatibility_strategy", "is_allow_auto_update_schema"
"""Policies."""
VERSION_BYTES = 8
NONE, AUTO_CONSUME = 0, 21
TYPES = (
    "NONE", "STRING", "JSON", "PROTOBUF", "AVRO", "BOOLEAN", "INT8", "INT16", "INT32", "INT64", "FLOAT", "DOUBLE", "DATE", "TIME",
    "TIMESTAMP", "KEY_VALUE", "INSTANT", "LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME", "PROTOBUF_NATIVE", "AUTO_CONSUME",
)  # fmt: skip
DESCRIBED = ("JSON", "PROTOBUF", "AVRO")
"""By a text in Avro."""
PLAIN = {
    "STRING": "string", "BOOLEAN": "boolean", "INT8": "int", "INT16": "int", "INT32": "int", "INT64": "long",
    "FLOAT": "float", "DOUBLE": "double",
} | dict.fromkeys(("DATE", "TIME", "TIMESTAMP", "INSTANT", "LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME"), "long")  # fmt: skip
"""Types that need no text, as Avro has them."""


class TopicSchema(NamedTuple):
    """As clients say it."""

    kind: str
    name: str
    data: bytes
    properties: dict[str, str]


class TopicSchemas:
    """Of all topics."""

    def __init__(self, parts: PulsarParts) -> None:
        self._parts = parts
        self._store = parts.broker.schemas

    def handlers(self) -> dict[int, Handler]:
        """By type."""
        return {Kind.GET_SCHEMA: self.get, Kind.GET_OR_CREATE_SCHEMA: self.get_or_create}

    def refusals(self) -> dict[str, Refusal]:
        """By the name of what was asked."""
        return {"GetSchema": _refuse_get, "GetOrCreateSchema": _refuse_create}

    # What connections ask

    def get(self, connection: Speaker, said: Any) -> None:
        """A version, or the newest."""
        number = int.from_bytes(said.schema_version, "big") if said.HasField("schema_version") else None
        schema, version = self.find(topic_name(said.topic), number)
        shown = {
            "name": schema.name,
            "schema_data": schema.data,
            "type": TYPES.index(schema.kind),
            "properties": [{"key": key, "value": value} for key, value in schema.properties.items()],
        }
        connection.say(
            Kind.GET_SCHEMA_RESPONSE, request_id=said.request_id, schema=shown, schema_version=version_bytes(version)
        )

    async def get_or_create(self, connection: Speaker, said: Any) -> None:
        """The version of this schema, which is registered where it is not."""
        name = topic_name(said.topic)
        connection.check(name, "write")
        log = await self._parts.topics.open(name)
        version = await self.register(log.topic, schema_of(said.schema))
        connection.say(Kind.GET_OR_CREATE_SCHEMA_RESPONSE, request_id=said.request_id, schema_version=version)

    # What others do

    def find(self, name: TopicName, version: int | None = None) -> tuple[TopicSchema, int]:
        """A version counted from 0, or the newest. Raises CommandRefused."""
        self._parts.topics.check_place(name)
        subject = subject_of_topic(name.namespace, name.topic)
        try:
            found = self._store.get(subject, LATEST if version is None else version + 1)
        except SchemaError:
            raise CommandRefused(ServerError.TOPIC_NOT_FOUND, "Topic not found or no-schema") from None
        return topic_schema(found), found.version - 1

    def all_versions(self, name: TopicName) -> list[tuple[TopicSchema, int]]:
        """By rising number."""
        subject = subject_of_topic(name.namespace, name.topic)
        return [(topic_schema(one), one.version - 1) for one in self._store.all_versions(subject)]

    async def remove(self, name: TopicName) -> None:
        """All versions go. Raises CommandRefused."""
        try:
            await self._store.delete_subject(subject_of_topic(name.namespace, name.topic))
        except SchemaError as error:
            raise CommandRefused(ServerError.TOPIC_NOT_FOUND, str(error)) from None

    async def register(self, topic: Topic, schema: TopicSchema | None) -> bytes:
        """What a producer brings; empty: nothing. Raises CommandRefused: IncompatibleSchema."""
        if schema is None:
            return b""
        subject = subject_of_topic(topic.namespace, topic.name)
        stored = self._stored(subject, schema)
        try:
            if not self._may_update(topic) and self._store.all_versions(subject):
                found = await self._store.find(subject, stored)
            else:
                note = msgspec.msgpack.encode(schema)
                found = await self._store.register(subject, stored, level=self._level(topic), note=note)
        except (SchemaError, InvalidSchema) as error:
            raise incompatible(error) from None
        return version_bytes(found.version - 1)

    async def check(self, topic: Topic, schema: TopicSchema | None) -> None:
        """What a consumer brings is registered if it is the first, and must be compatible else. Raises CommandRefused."""
        subject = subject_of_topic(topic.namespace, topic.name)
        if schema is None:
            return
        if not self._store.all_versions(subject):
            await self.register(topic, schema)
            return
        try:
            against = await self._store.check(subject, self._stored(subject, schema), level=self._level(topic))
        except (SchemaError, InvalidSchema) as error:
            raise incompatible(error) from None
        if against:
            raise incompatible(IncompatibleSchema(str(subject), against))

    def _stored(self, subject: Subject, schema: TopicSchema) -> Schema:
        """As the store has it. Raises CommandRefused."""
        known = self._store.all_versions(subject)
        if known and topic_schema(known[-1]).kind != schema.kind:
            raise incompatible(f"the topic has schemas of type {topic_schema(known[-1]).kind}, not {schema.kind}")
        if schema.kind in PLAIN:
            return Schema(AVRO, f'"{PLAIN[schema.kind]}"')
        try:
            return Schema(AVRO, schema.data.decode())
        except UnicodeDecodeError:
            raise incompatible("the schema is no text") from None

    def _level(self, topic: Topic) -> Level:
        level: Level = PULSAR_LEVELS.get(str(self._parts.book.policy(topic, STRATEGY)), Level.FULL)
        return level

    def _may_update(self, topic: Topic) -> bool:
        place = place_of(topic.namespace)
        return place is None or self._parts.book.policies(place).get(AUTO_UPDATE) is not False


def schema_of(said: Any) -> TopicSchema | None:
    """What a command brings; None: no schema. Raises CommandRefused."""
    if said.type in (NONE, AUTO_CONSUME):
        return None
    kind = TYPES[said.type] if 0 < said.type < len(TYPES) else str(said.type)
    if kind not in DESCRIBED and kind not in PLAIN:
        raise incompatible(f"schemas of type {kind} are not supported")
    return TopicSchema(kind, said.name, said.schema_data, {one.key: one.value for one in said.properties})


def topic_schema(found: Registered) -> TopicSchema:
    """A registered version; one that came by another way is Avro."""
    if found.note:
        return TopicSchema(*msgspec.msgpack.decode(found.note))
    return TopicSchema("AVRO", found.subject.name, found.schema.text.encode(), {})


def version_bytes(version: int) -> bytes:
    """As commands have it."""
    return version.to_bytes(VERSION_BYTES, "big")


def incompatible(reason: object) -> CommandRefused:
    """The refusal of a schema."""
    return CommandRefused(ServerError.INCOMPATIBLE_SCHEMA, str(reason))


def _refuse_get(said: Any, code: ServerError, reason: str) -> list[Buffer]:
    return encode_command(Kind.GET_SCHEMA_RESPONSE, request_id=said.request_id, error_code=code, error_message=reason)


def _refuse_create(said: Any, code: ServerError, reason: str) -> list[Buffer]:
    return encode_command(
        Kind.GET_OR_CREATE_SCHEMA_RESPONSE, request_id=said.request_id, error_code=code, error_message=reason
    )
