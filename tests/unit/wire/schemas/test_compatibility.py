"""Verdicts of compatibility, against tables that follow from the formats' own rules."""

import io
import itertools
import json

import fastavro
import pytest
from avro import compatibility as reference
from avro import schema as reference_schema
from hypothesis import given
from hypothesis import strategies as st

from mainstem.wire.schemas.formats import parse_schema
from mainstem.wire.schemas.levels import PULSAR_LEVELS, Level, Older, check_level
from mainstem.wire.schemas.schema import InvalidSchema
from tests.unit.wire.schemas.avro_cases import AVRO_CASES, Case
from tests.unit.wire.schemas.avro_schemas import datum_of, evolved, schemas
from tests.unit.wire.schemas.json_cases import JSON_CASES
from tests.unit.wire.schemas.protobuf_cases import PROTOBUF_CASES

CASES = [
    *(("AVRO", case) for case in AVRO_CASES),
    *(("JSON", case) for case in JSON_CASES),
    *(("PROTOBUF", case) for case in PROTOBUF_CASES),
]


def kinds(format: str, reader: str, writer: str) -> set[str]:
    found = parse_schema(format, reader, {}).differences(parse_schema(format, writer, {}))
    assert all(one.path and one.sentence for one in found)
    return {one.kind for one in found}


def test_the_tables_are_long_enough() -> None:
    assert len(CASES) >= 200
    assert {format for format, _ in CASES} == {"AVRO", "JSON", "PROTOBUF"}


@pytest.mark.parametrize(("format", "case"), CASES, ids=itertools.count())
def test_verdict(format: str, case: Case) -> None:
    for reader, writer, wanted in ((case.newer, case.older, case.backward), (case.older, case.newer, case.forward)):
        found = kinds(format, reader, writer)
        assert bool(found) == bool(wanted), (reader, writer, found)
        assert set(wanted.split()) <= found, (reader, writer, found)


class Fixed:
    """Reads what is written by those of lower or the same number."""

    canonical = normal = ""

    def __init__(self, reads: set[int], number: int) -> None:
        self.reads, self.number = reads, number

    def text_in(self, form: str) -> str:
        return form

    def differences(self, written: "Fixed") -> list[object]:
        return [] if written.number in self.reads else [object()]


@pytest.mark.parametrize(
    ("level", "against"),
    [
        ("NONE", []), ("BACKWARD", [2]), ("BACKWARD_TRANSITIVE", [1, 2]), ("FORWARD", [-2]),
        ("FORWARD_TRANSITIVE", [-1, -2]), ("FULL", [2, -2]), ("FULL_TRANSITIVE", [1, -1, 2, -2]),
        ("ALWAYS_INCOMPATIBLE", [2]),
    ],
)  # fmt: skip
def test_which_versions_a_level_compares(level: str, against: list[int]) -> None:
    older = [Older(number, "AVRO", Fixed(set(), number)) for number in (1, 2)]
    found = check_level("AVRO", Fixed(set(), 3), older, Level(level))
    assert [-one.version if one.is_forward else one.version for one in found] == against
    assert check_level("AVRO", Fixed(set(), 3), [], Level(level)) == []


def test_another_format_is_incompatible_at_every_level_but_one() -> None:
    older = [Older(1, "JSON", Fixed({3}, 1))]
    for level in Level:
        found = check_level("AVRO", Fixed({1}, 3), older, level)
        assert bool(found) == (level is not Level.NONE)


def test_pulsar_has_eight_strategies() -> None:
    assert len(PULSAR_LEVELS) == 8
    assert PULSAR_LEVELS["ALWAYS_COMPATIBLE"] is Level.NONE


@given(schemas(), st.data())
def test_what_is_called_readable_is_read_by_fastavro(older: object, data: st.DataObject) -> None:
    newer = data.draw(evolved(older))
    if kinds("AVRO", json.dumps(newer), json.dumps(older)):
        return
    old, new = (fastavro.schema.parse_schema(one) for one in (older, newer))
    written = io.BytesIO()
    fastavro.schemaless_writer(written, old, data.draw(datum_of(older)))
    written.seek(0)
    fastavro.schemaless_reader(written, old, new)


@given(schemas(), schemas())
def test_verdicts_are_those_of_avros_own_library(older: object, newer: object) -> None:
    texts = [json.dumps(one) for one in (older, newer)]
    old, new = (reference_schema.parse(text) for text in texts)
    checker = reference.ReaderWriterCompatibilityChecker()
    verdict = checker.get_compatibility(new, old).compatibility
    is_compatible = verdict is reference.SchemaCompatibilityType.compatible
    assert (not kinds("AVRO", texts[1], texts[0])) == is_compatible


@given(
    st.text(max_size=40) | st.text('{}[]":,abmrtype=0123 ;', max_size=60), st.sampled_from(["AVRO", "JSON", "PROTOBUF"])
)
def test_garbage_is_refused_or_read(text: str, format: str) -> None:
    try:
        parse_schema(format, text, {})
    except InvalidSchema:
        pass


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("AVRO", "[" * 100_000), ("JSON", "[" * 100_000), ("JSON", '{"not":' * 5_000 + "{}" + "}" * 5_000),
        ("AVRO", '{"type":"array","items":' * 5_000 + '"int"' + "}" * 5_000),
        ("PROTOBUF", "message A {" * 5_000), ("PROTOBUF", 'option (a) = ' + "{" * 100_000),
        ("AVRO", "x" * 800_000), ("JSON", '{"$ref": "http://127.0.0.1:1/x"}'), ("JSON", '{"$schema": []}'),
        ("JSON", '{"$id": "http://[", "properties": {"a": {"$id": "http://[", "$ref": "x"}}}'),
        ("JSON", '{"maximum": NaN}'), ("JSON", '{"maximum": 1e999}'), ("JSON", '{"title": "\\ud800"}'),
        ("PROTOBUF", 'syntax = "proto3"; message M { int32 a = 99999999999999999999; }'),
        ("PROTOBUF", 'edition = "2023"; message M {}'), ("PROTOBUF", 'import "default.proto";'), ("XML", "<a/>"),
    ],
)  # fmt: skip
def test_what_no_schema_can_be(format: str, text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse_schema(format, text, {})


@pytest.mark.parametrize("text", [
    '{"$ref":"#"}', '{"allOf":[{"$ref":"#"}]}', '{"anyOf":[{"$ref":"#/definitions/a"}],"definitions":{"a":{"$ref":"#"}}}',
    '{"not":{"$ref":"#"}}', '{"items":{"$ref":"#"}}', '{"oneOf":[{"items":{"$ref":"#"}},{"type":"string"}]}',
    '{"properties":{"a":{"$ref":"#/definitions/b"}},"definitions":{"b":{"allOf":[{"$ref":"#"},{"$ref":"#/definitions/b"}]}}}',
])  # fmt: skip
def test_references_in_a_circle_end(text: str) -> None:
    for other in (text, '{"type":"object","properties":{"a":{"type":"string"}}}', '{"oneOf":[{"type":"array"}]}'):
        for reader, writer in ((text, other), (other, text)):
            try:
                kinds("JSON", reader, writer)
            except InvalidSchema as refused:
                assert "circle" in str(refused)  # noqa: PT017


@pytest.mark.parametrize(
    "wrap", ['{"not":%s}', '{"properties":{"a":%s}}', '{"allOf":[%s]}', '{"items":%s,"type":"array"}']
)
def test_the_deepest_schema_is_still_compared(wrap: str) -> None:
    text, deepest = "{}", ""
    while True:
        try:
            parse_schema("JSON", text, {})
        except InvalidSchema:
            break
        text, deepest = wrap % text, text
    assert not kinds("JSON", deepest, deepest)


def test_many_alternatives_are_not_compared_for_ever() -> None:
    wide = '{"anyOf":[' + ",".join(f'{{"maxLength":{n},"type":"string"}}' for n in range(1_000)) + "]}"
    with pytest.raises(InvalidSchema, match="too large"):
        kinds("JSON", wide, wide.replace("maxLength", "minLength"))
