"""Confluent's serializers for Python, unmodified: all three formats, with references and evolution, through a topic."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory

from mainstem.wire.schemas.formats import parse_schema
from tests.clients.schemas.serving import PATIENCE_S, RegistryBroker

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.error import SchemaRegistryError
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

pytestmark = [pytest.mark.conformance, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(params=[0, 1], ids=["own listener", "http listener"])
def client(request: pytest.FixtureRequest, broker: RegistryBroker) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": broker.urls[request.param]}) as client:
        yield client


def through(broker: RegistryBroker, topic: str, values: list[bytes]) -> list[bytes]:
    """What a consumer finds of what a producer sent."""
    producer = Producer({"bootstrap.servers": broker.address})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    config = {"bootstrap.servers": broker.address, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(config)
    consumer.subscribe([topic])
    try:
        messages = consumer.consume(len(values), PATIENCE_S)
        assert all(message.error() is None for message in messages)
        return [message.value() for message in messages]
    finally:
        consumer.close()


ORDER_1 = """{"type": "record", "name": "Order", "namespace": "shop",
  "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": null}]}"""
ORDER_2 = """{"type": "record", "name": "Order", "namespace": "shop",
  "fields": [{"name": "id", "type": "double"}, {"name": "price", "type": "double", "default": 1.5}]}"""


def test_avro_with_evolution(broker: RegistryBroker, client: SchemaRegistryClient) -> None:
    topic = f"avro-{id(client)}"
    place = SerializationContext(topic, MessageField.VALUE)
    written = [
        AvroSerializer(client, ORDER_1)({"id": 1, "note": "first"}, place),
        AvroSerializer(client, ORDER_2)({"id": 2.5, "price": 9.0}, place),
    ]
    one, two = through(broker, topic, written)
    read = AvroDeserializer(client)
    assert read(one, place) == {"id": 1, "note": "first"}
    assert read(two, place) == {"id": 2.5, "price": 9.0}
    newer = AvroDeserializer(client, ORDER_2)
    assert newer(one, place) == {"id": 1.0, "price": 1.5}
    assert client.get_versions(f"{topic}-value") == [1, 2]
    with pytest.raises(SchemaRegistryError) as refused:
        AvroSerializer(client, '{"type":"record","name":"shop.Order","fields":[{"name":"x","type":"long"}]}')(
            {"x": 1}, place
        )
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in str(refused.value)


def test_avro_with_references(broker: RegistryBroker, client: SchemaRegistryClient) -> None:
    topic = f"avro-references-{id(client)}"
    address = (
        '{"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "city", "type": "string"}]}'
    )
    client.register_schema(f"address-{topic}", Schema(address, "AVRO"))
    person = Schema(
        '{"type": "record", "name": "Person", "fields": [{"name": "home", "type": "shop.Address"}]}',
        "AVRO",
        [SchemaReference("shop.Address", f"address-{topic}", 1)],
    )
    place = SerializationContext(topic, MessageField.VALUE)
    (value,) = through(broker, topic, [AvroSerializer(client, person)({"home": {"city": "Bonn"}}, place)])
    assert AvroDeserializer(client)(value, place) == {"home": {"city": "Bonn"}}
    assert client.get_referenced_by(f"address-{topic}", 1) == [int.from_bytes(value[1:5], "big")]


def test_json_schema_with_references_and_evolution(broker: RegistryBroker, client: SchemaRegistryClient) -> None:
    topic = f"json-{id(client)}"
    city = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "string", "minLength": 2}'
    client.register_schema(f"city-{topic}", Schema(city, "JSON"))
    template = """{"$schema": "http://json-schema.org/draft-07/schema#", "title": "Person", "type": "object",
        "additionalProperties": false, "properties": {"city": {"$ref": "city.json"}%s}}"""
    references = [SchemaReference("city.json", f"city-{topic}", 1)]
    place = SerializationContext(topic, MessageField.VALUE)
    older, newer = (Schema(template % more, "JSON", references) for more in ("", ', "age": {"type": "integer"}'))
    written = [
        JSONSerializer(older, client)({"city": "Bonn"}, place),
        JSONSerializer(newer, client)({"city": "Ulm", "age": 3}, place),
    ]
    read = JSONDeserializer(newer, schema_registry_client=client)
    assert [read(value, place) for value in through(broker, topic, written)] == [
        {"city": "Bonn"},
        {"city": "Ulm", "age": 3},
    ]
    assert client.get_versions(f"{topic}-value") == [1, 2]


def message_types(*files: tuple[str, str]) -> list[Any]:
    """Classes of the first message of each file; later ones may import earlier ones."""
    pool = descriptor_pool.DescriptorPool()
    texts: dict[str, str] = {}
    found = []
    for name, text in files:
        parsed = parse_schema("PROTOBUF", text, texts)
        file = parsed.file  # type: ignore[attr-defined]
        file.name = name
        pool.AddSerializedFile(file.SerializeToString())
        package = f"{file.package}." if file.package else ""
        found.append(message_factory.GetMessageClass(pool.FindMessageTypeByName(package + file.message_type[0].name)))
        texts[name] = text
    return found


def test_protobuf_with_references_and_evolution(broker: RegistryBroker, client: SchemaRegistryClient) -> None:
    topic = f"proto-{id(client)}"
    place_name = f"place{id(client)}.proto"
    place_file = (place_name, 'syntax = "proto3"; package shop; message Place { string city = 1; }')
    head = f'syntax = "proto3"; package shop; import "{place_name}"; message Person {{ Place home = 1; '
    _, older = message_types(place_file, ("person.proto", head + "}"))
    _, newer = message_types(place_file, ("person.proto", head + "int32 age = 2; map<string, int64> marks = 3; }"))
    place = SerializationContext(topic, MessageField.VALUE)
    config = {"use.deprecated.format": False}
    first = ProtobufSerializer(older, client, config)(older(home={"city": "Bonn"}), place)
    second = ProtobufSerializer(newer, client, config)(newer(home={"city": "Ulm"}, age=3, marks={"a": 1}), place)
    one, two = through(broker, topic, [first, second])
    read = ProtobufDeserializer(newer, config, client)
    assert read(one, place).home.city == "Bonn"
    assert (read(two, place).age, dict(read(two, place).marks)) == (3, {"a": 1})
    assert client.get_versions(f"{topic}-value") == [1, 2]
    text = client.get_latest_version(f"{topic}-value").schema.schema_str
    assert "map<string, int64> marks = 3;" in text
    serialized = broker.ask("GET", f"/subjects/{topic}-value/versions/2?format=serialized").content["schema"]
    again = broker.ask("POST", f"/subjects/{topic}-value", {"schema": serialized, "schemaType": "PROTOBUF",
        "references": [{"name": place_name, "subject": place_name, "version": 1}]})  # fmt: skip
    assert again.content["version"] == 2


def test_what_the_client_administers(broker: RegistryBroker, client: SchemaRegistryClient) -> None:
    subject = f"administered-{id(client)}"
    number = client.register_schema(subject, Schema('"string"', "AVRO"))
    assert client.register_schema(subject, Schema('{"type": "string"}', "AVRO")) == number
    assert client.get_schema(number).schema_str == '"string"'
    assert subject in client.get_subjects()
    found = client.lookup_schema(subject, Schema('"string"', "AVRO"))
    assert (found.schema_id, found.version, found.subject) == (number, 1, subject)
    assert client.get_schema_by_guid(found.guid).schema_str == '"string"'
    client.set_compatibility(subject, "FULL_TRANSITIVE")
    assert client.get_compatibility(subject) == "FULL_TRANSITIVE"
    assert client.test_compatibility(subject, Schema('"bytes"', "AVRO"))
    assert not client.test_compatibility(subject, Schema('"int"', "AVRO"))
    verbose = client.test_compatibility_all_versions(subject, Schema('"int"', "AVRO"), verbose=True)
    assert not verbose
    with pytest.raises(SchemaRegistryError) as unknown:
        client.get_version("nothing", 1)
    assert unknown.value.error_code == 40401
    assert client.delete_subject(subject) == [1]
    assert client.delete_subject(subject, permanent=True) == [1]
    with pytest.raises(SchemaRegistryError) as unknown:
        client.get_schema(10_000)
    assert unknown.value.error_code == 40403
