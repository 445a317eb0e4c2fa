"""Registering, finding and deleting schemas, whatever their format."""

import asyncio

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.schemas import errors
from mainstem.broker.schemas.schemas import Level, Reference, Schema, Subject, SubjectSettings, parse_subject
from mainstem.model.errors import Overloaded
from mainstem.storage.memory.engine import MemoryEngine
from tests.support.worlds.brokers import refuse_once, with_broker, with_engine

ORDERS = parse_subject("orders-value")


def record(*fields: str, name: str = "Order") -> Schema:
    return Schema("AVRO", f'{{"type": "record", "name": "{name}", "fields": [{", ".join(fields)}]}}')


ID = '{"name": "id", "type": "long"}'
NOTE = '{"name": "note", "type": "string", "default": ""}'
PRICE = '{"name": "price", "type": "double"}'


@with_broker
async def test_one_schema_has_one_id_in_every_subject(broker: Broker) -> None:
    first = await broker.schemas.register(ORDERS, record(ID))
    other_text = Schema("AVRO", '{"fields":[{"type":"long","name":"id"}],\n"name":"Order","type":"record"}')
    assert await broker.schemas.register(ORDERS, other_text) == first
    elsewhere = await broker.schemas.register(parse_subject("bills-value"), record(ID))
    assert (elsewhere.id, elsewhere.version) == (first.id, 1)
    second = await broker.schemas.register(ORDERS, record(ID, NOTE))
    assert (second.id, second.version) == (first.id + 1, 2)
    in_context = await broker.schemas.register(parse_subject(":.shop:orders-value"), record(ID, NOTE))
    assert in_context.id == 1
    assert broker.schemas.table.contexts() == [".", ".shop"]


@with_broker
async def test_a_storm_of_registrations_gives_one_id(broker: Broker) -> None:
    found = await asyncio.gather(*(broker.schemas.register(ORDERS, record(ID)) for _ in range(50)))
    assert {(one.id, one.version) for one in found} == {(1, 1)}
    assert broker.schemas.table.versions(ORDERS) == [1]


@with_broker
async def test_an_incompatible_schema_is_refused_with_what_stands_against_it(broker: Broker) -> None:
    await broker.schemas.register(ORDERS, record(ID))
    with pytest.raises(errors.IncompatibleSchema) as refused:
        await broker.schemas.register(ORDERS, record(ID, PRICE))
    assert [one.difference.kind for one in refused.value.found] == ["READER_FIELD_MISSING_DEFAULT_VALUE"]
    assert (await broker.schemas.register(ORDERS, record(ID, PRICE), level=Level.FORWARD)).version == 2
    with pytest.raises(errors.IncompatibleSchema):
        await broker.schemas.register(ORDERS, record(ID, NOTE), level=Level.ALWAYS_INCOMPATIBLE)
    await broker.schemas.change_settings(ORDERS, lambda _: SubjectSettings(level="NONE"))
    assert (await broker.schemas.register(ORDERS, Schema("AVRO", '"string"'))).version == 3
    with pytest.raises(errors.InvalidSchema):
        await broker.schemas.register(ORDERS, Schema("AVRO", '{"type": "nonsense"}'))


@with_broker
async def test_a_schema_uses_another(broker: Broker) -> None:
    address = parse_subject("address")
    await broker.schemas.register(address, record(ID, name="Address"))
    uses = Schema(
        "AVRO",
        '{"type": "record", "name": "Person", "fields": [{"name": "home", "type": "Address"}]}',
        (Reference("Address", "address", 1),),
    )
    person = await broker.schemas.register(parse_subject("person"), uses)
    assert '"type":"Address"' in person.schema.text
    assert broker.schemas.table.referring(address, 1) == [person.id]
    with pytest.raises(errors.SchemaReferenced):
        await broker.schemas.delete_subject(address)
    with pytest.raises(errors.InvalidSchema, match="no subject"):
        await broker.schemas.register(ORDERS, Schema("AVRO", '"X"', (Reference("X", "unknown", 1),)))


@with_broker
async def test_deleted_and_deleted_for_good(broker: Broker) -> None:
    first = await broker.schemas.register(ORDERS, record(ID))
    with pytest.raises(errors.SubjectNotDeleted):
        await broker.schemas.delete_subject(ORDERS, permanent=True)
    assert await broker.schemas.delete_subject(ORDERS) == [1]
    with pytest.raises(errors.SubjectDeleted):
        await broker.schemas.delete_subject(ORDERS)
    with pytest.raises(errors.UnknownSubject):
        broker.schemas.get(ORDERS)
    assert broker.schemas.get(ORDERS, deleted=True).version == 1
    assert broker.schemas.by_id(".", first.id).format == "AVRO"
    again = await broker.schemas.register(ORDERS, record(ID))
    assert (again.id, again.version) == (first.id, 2)
    assert await broker.schemas.delete_version(ORDERS, 1, permanent=True) == 1
    await broker.schemas.delete_subject(ORDERS)
    assert await broker.schemas.delete_subject(ORDERS, permanent=True) == [2]
    with pytest.raises(errors.UnknownSchema):
        broker.schemas.by_id(".", first.id)
    assert (await broker.schemas.register(ORDERS, record(ID))).id == first.id + 1


@with_broker
async def test_modes(broker: Broker) -> None:
    with pytest.raises(errors.NotPermitted):
        await broker.schemas.register(ORDERS, record(ID), number=7)
    await broker.schemas.set_mode(ORDERS, "IMPORT")
    imported = await broker.schemas.register(ORDERS, record(ID), number=7, version=3)
    assert (imported.id, imported.version) == (7, 3)
    with pytest.raises(errors.IdDiffers):
        await broker.schemas.register(ORDERS, record(PRICE), number=7)
    await broker.schemas.set_mode(ORDERS, "READONLY")
    with pytest.raises(errors.NotPermitted):
        await broker.schemas.register(ORDERS, record(ID, NOTE))
    with pytest.raises(errors.NotPermitted):
        await broker.schemas.set_mode(ORDERS, "IMPORT")
    await broker.schemas.set_mode(Subject(".", ""), "READONLY_OVERRIDE")
    with pytest.raises(errors.NotPermitted):
        await broker.schemas.register(parse_subject("other"), record(ID))


@with_engine
async def test_all_is_there_after_a_restart(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    await broker.schemas.register(ORDERS, record(ID))
    await broker.schemas.register(ORDERS, record(ID, NOTE), note=b"who")
    await broker.schemas.delete_version(ORDERS, 1)
    await broker.schemas.change_settings(ORDERS, lambda _: SubjectSettings(level="FULL", normalize=True))
    again = await Broker.open(engine, LoopClock())
    assert again.schemas.all_versions(ORDERS, deleted=True) == broker.schemas.all_versions(ORDERS, deleted=True)
    assert again.schemas.level_of(ORDERS) is Level.FULL
    assert again.schemas.get(ORDERS).note == b"who"
    assert (await again.schemas.register(parse_subject("next"), record(PRICE))).id == 3


@with_engine
async def test_a_refused_commit_leaves_nothing(engine: MemoryEngine) -> None:
    broker = await Broker.open(engine, LoopClock())
    refuse_once(engine)
    with pytest.raises(Overloaded):
        await broker.schemas.register(ORDERS, record(ID))
    with pytest.raises(errors.UnknownSubject):
        broker.schemas.get(ORDERS)
    assert (await broker.schemas.register(ORDERS, record(ID))).id == 1


@with_broker
async def test_pulsar_json_is_compared_as_avro_and_other_kinds_by_their_text(broker: Broker) -> None:
    await broker.schemas.register(ORDERS, Schema("PULSAR_JSON", record(ID).text))
    assert (await broker.schemas.register(ORDERS, Schema("PULSAR_JSON", record(ID, NOTE).text))).version == 2
    with pytest.raises(errors.IncompatibleSchema):
        await broker.schemas.register(ORDERS, Schema("PULSAR_STRING", ""))
