"""Schemas that pulsar-client brings along, in the broker's one store."""

import pulsar
import pytest
from pulsar import InitialPosition
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String, StringSchema

from tests.clients.pulsar.admin_client import ask
from tests.support.serving.pulsar import PulsarServer

pytestmark = [pytest.mark.conformance, pytest.mark.system, pytest.mark.slow]

PATIENCE_MS = 30_000


class Order(Record):
    _avro_namespace = "shop"
    name = String()
    pears = Integer()


class OtherOrder(Record):
    _avro_namespace = "shop"
    name = Integer(required=True)


@pytest.mark.parametrize("kind", [AvroSchema, JsonSchema])
def test_a_schema_is_registered_and_kept_to(broker: PulsarServer, client: pulsar.Client, name: str, kind: type) -> None:
    producer = client.create_producer(name, schema=kind(Order))
    consumer = client.subscribe(name, "s", schema=kind(Order), initial_position=InitialPosition.Earliest)
    producer.send(Order(name="a", pears=2))
    assert consumer.receive(PATIENCE_MS).value().pears == 2
    shown = ask(broker, "GET", f"admin/v2/schemas/public/default/{name}/schema")
    assert (shown["version"], shown["type"]) == (0, "AVRO" if kind is AvroSchema else "JSON")
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(name, schema=kind(OtherOrder))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.subscribe(name, "other", schema=kind(OtherOrder))
    assert (
        ask(
            broker,
            "POST",
            f"admin/v2/persistent/public/default/{name}/schemaCompatibilityStrategy",
            "ALWAYS_COMPATIBLE",
        )
        is None
    )
    client.create_producer(name, schema=kind(OtherOrder))
    assert ask(broker, "GET", f"admin/v2/schemas/public/default/{name}/schema")["version"] == 1
    assert len(ask(broker, "GET", f"admin/v2/schemas/public/default/{name}/schemas")["getSchemaResponses"]) == 2


def test_another_type_is_refused(client: pulsar.Client, name: str) -> None:
    client.create_producer(name, schema=StringSchema()).send("x")
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(name, schema=JsonSchema(Order))
    client.create_producer(name).send(b"without")
