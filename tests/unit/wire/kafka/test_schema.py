"""The table language, and that every table is a sane one."""

import keyword

import pytest

from mainstem.wire.errors import UnknownMessage
from mainstem.wire.kafka import APIS, ApiKey, Message, api_of
from mainstem.wire.kafka.schema import ZERO_UUID, StructSchema, Versions, parse_table, walk_fields
from tests.unit.wire.kafka.message_strategies import MESSAGES

EVERY_MESSAGE = pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)


def structs_of(schema: StructSchema) -> list[StructSchema]:
    return [schema, *(field.struct for field in walk_fields(schema) if field.struct is not None)]


def test_one_line_says_it_all() -> None:
    root = parse_table("T", Versions(2, 7), "    name: []string?4+ 3-6 tag=2 default=null")
    (field,) = root.fields
    assert (field.name, field.kind, field.is_array, field.tag, field.default) == ("name", "string", True, 2, None)
    assert field.versions == Versions(3, 6)
    assert field.nullable == Versions(4, 6)


def test_structs_nest_and_are_named_again() -> None:
    root = parse_table(
        "T",
        Versions(0, 3),
        """
        first: Row
            id: int32 default=-1
            deep: []Deep? 2+
                flag: bool default=true
        second: []Row
        last: int8
        """,
    )
    first, second, last = root.fields
    assert first.struct is second.struct
    assert second.is_array
    assert last.kind == "int8"
    value = root.type()
    assert (value.first.id, value.first.deep, value.second) == (-1, [], [])
    assert root.type().second is not value.second


def test_defaults() -> None:
    kinds = ["bool", "int8", "int16", "uint16", "int32", "int64", "float64", "string", "bytes", "records", "uuid"]
    value = parse_table("T", Versions(0, 0), "\n".join(f"f_{kind}: {kind}" for kind in kinds)).type()
    assert [getattr(value, f"f_{kind}") for kind in kinds] == [False, 0, 0, 0, 0, 0, 0.0, "", b"", b"", ZERO_UUID]


def test_a_bad_table_is_noticed() -> None:
    for text in ("a: int31", "a: int8 size=4", "a: int8\n        b: int8"):
        with pytest.raises(AssertionError):
            parse_table("T", Versions(0, 0), text)
    with pytest.raises(KeyError):
        parse_table("T", Versions(0, 0), "a: Missing")


@EVERY_MESSAGE
def test_names_are_usable_and_single(message: Message) -> None:
    for struct in structs_of(message.schema):
        names = [field.name for field in struct.fields]
        assert len(names) == len(set(names))
        for name in names:
            assert name.isidentifier()
            assert name == name.lower()
            assert not keyword.iskeyword(name)


@EVERY_MESSAGE
def test_versions_and_tags_are_possible(message: Message) -> None:
    for struct in structs_of(message.schema):
        tags = [field.tag for field in struct.fields if field.tag is not None]
        assert len(tags) == len(set(tags))
        for field in struct.fields:
            assert field.versions.first <= field.versions.last
            assert field.versions.first >= message.versions.first
            assert field.versions.last <= message.versions.last
            if field.tag is not None:
                assert message.is_flexible(field.versions.first)
            if field.nullable is not None:
                assert field.kind in ("string", "bytes", "records", "struct") or field.is_array
            if field.default is None:
                assert field.nullable is not None or field.struct is not None


def test_keys_have_names() -> None:
    assert {int(key) for key in ApiKey} == set(APIS)
    for key in ApiKey:
        assert APIS[key].name.upper() == key.name.replace("_", "")
    assert api_of(ApiKey.FETCH) is APIS[1]
    with pytest.raises(UnknownMessage):
        api_of(4)


def test_announced_versions() -> None:
    assert APIS[ApiKey.FETCH].announced == APIS[ApiKey.FETCH].versions == (4, 18)
    # the newest is unfinished
    assert APIS[ApiKey.INIT_PRODUCER_ID].versions == (0, 6)
    assert APIS[ApiKey.INIT_PRODUCER_ID].announced == (0, 5)
    # older ones are announced and not served
    assert APIS[ApiKey.PRODUCE].versions == (3, 13)
    assert APIS[ApiKey.PRODUCE].announced == (0, 13)
