"""Topics that take only records whose schema is registered: one question for each schema that a batch names."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.broker.catalog.topics import Topic
from mainstem.broker.schemas.schemas import Schemas, subject_of_topic
from mainstem.coordination.catalog.catalog import RegisteredIds
from mainstem.model.errors import UnregisteredSchema
from mainstem.wire.record_batch.survey import Survey
from mainstem.wire.schemas.framing import schema_id_of


def answer_from(registered: RegisteredIds, schemas: Schemas) -> None:
    """From now on topics ask the store."""

    def is_known(namespace: str, topic: str, is_key: bool, number: int) -> bool:
        return schemas.table.has_id(subject_of_topic(namespace, topic, is_key=is_key), number)

    registered.is_known = is_known


def check_schemas(topic: Topic, survey: Survey) -> None:
    """Whether all records of a batch name schemas that the topic takes. Raises UnregisteredSchema."""
    check = topic.schema_check
    if check is None:
        return
    for is_checked, names, is_key in (
        (check.of_keys, survey.key_names, True),
        (check.of_values, survey.value_names, False),
    ):
        for number, places in names.items() if is_checked and names is not None else ():
            _check(topic, is_key, number, places)


def check_record_schema(topic: Topic, key: bytes | None, value: bytes | None, place: int) -> None:
    """The same of one record. Raises UnregisteredSchema."""
    check = topic.schema_check
    if check is None:
        return
    for is_checked, part, is_key in ((check.of_keys, key, True), (check.of_values, value, False)):
        if is_checked and part is not None:
            _check(topic, is_key, schema_id_of(part), [place])


def _check(topic: Topic, is_key: bool, number: int | None, places: Sequence[int]) -> None:
    assert topic.schema_check is not None
    part = "key" if is_key else "value"
    if number is None:
        raise UnregisteredSchema(f"topic {topic.name} takes no record whose {part} names no schema", places)
    if not topic.schema_check.registered.is_known(topic.namespace, topic.name, is_key, number):
        raise UnregisteredSchema(
            f"topic {topic.name} takes no record whose {part} has the schema {number}: its subject has no such schema",
            places,
        )
