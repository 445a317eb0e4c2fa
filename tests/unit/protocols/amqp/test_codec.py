"""Tables, properties and methods: there and back, and byte for byte what pika and pamqp write."""

import contextlib
import datetime
import decimal
from typing import Any

import pamqp.commands
import pamqp.frame
import pamqp.header
import pika.spec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.protocols.amqp.codec.field_table import DEPTH_MAX, Field, Table, decode_table, encode_table
from mainstem.protocols.amqp.codec.framing import METHOD, encode_frame
from mainstem.protocols.amqp.codec.methods import SIGNATURES, decode_method, encode_method
from mainstem.protocols.amqp.codec.properties import decode_properties, encode_properties
from mainstem.protocols.amqp.errors import ConnectionError_
from tests.unit.protocols.amqp.amqp_strategies import properties, short_texts, tables

ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "o": st.integers(0, 2**8 - 1),
    "s": st.integers(0, 2**16 - 1),
    "l": st.integers(0, 2**32 - 1),
    "q": st.integers(0, 2**64 - 1),
    "S": short_texts,
    "L": st.binary(max_size=100),
    "T": tables,
    "b": st.booleans(),
}
NATIVE = {"a": True, "b": -5, "c": 2**40, "e": "text", "f": None, "g": ["x", 1, {"h": False}], "i": {"j": 3}}


def native(field: Field) -> Any:
    """As pika shows a value."""
    kind, value = field
    if kind == "table":
        return {name: native(inner) for name, inner in value.items()}
    if kind == "array":
        return [native(inner) for inner in value]
    if kind == "longstr":
        return value.decode()
    if kind == "timestamp":
        return datetime.datetime.fromtimestamp(value, tz=datetime.UTC)
    if kind == "decimal":
        return decimal.Decimal(value[1]) / (decimal.Decimal(10) ** value[0])
    return value


@given(table=tables)
def test_a_table_comes_back_as_it_was(table: Table) -> None:
    encoded = encode_table(table)
    assert int.from_bytes(encoded[:4], "big") == len(encoded) - 4
    assert decode_table(encoded, 4, len(encoded)) == table


@given(listed=properties)
def test_properties_come_back_as_they_were(listed: dict[str, Any]) -> None:
    assert decode_properties(encode_properties(listed)) == listed


@given(data=st.data())
@pytest.mark.parametrize("signature", SIGNATURES.values(), ids=lambda signature: signature.name)
def test_a_method_comes_back_as_it_was(signature: Any, data: st.DataObject) -> None:
    arguments = {name: data.draw(ARGUMENTS[kind]) for name, kind in signature.arguments}
    method = decode_method(encode_method(signature.name, **arguments))
    assert method.signature is signature
    assert method.arguments == arguments


@pytest.mark.parametrize("method", pika.spec.methods.values(), ids=lambda method: method.NAME)
def test_pika_knows_the_same_methods(method: Any) -> None:
    signature = SIGNATURES[method.INDEX >> 16, method.INDEX & 0xFFFF]
    words = "".join("-" + letter.lower() if letter.isupper() else letter for letter in method.NAME.split(".")[1])
    assert signature.name == f"{method.NAME.split('.')[0].lower()}.{words[1:]}"


@pytest.mark.parametrize(
    "theirs",
    [
        pamqp.commands.Queue.Declare(queue="q", durable=True, exclusive=True, arguments={"x-max-length": 5}),
        pamqp.commands.Exchange.Declare(exchange="e", exchange_type="topic", auto_delete=True, arguments=NATIVE),
        pamqp.commands.Basic.Consume(queue="q", consumer_tag="c", no_ack=True, exclusive=True, nowait=True),
        pamqp.commands.Basic.Deliver("c", 77, True, "e", "k"),
        pamqp.commands.Basic.Nack(9, multiple=True, requeue=False),
        pamqp.commands.Connection.Close(320, "CONNECTION_FORCED", 10, 40),
        pamqp.commands.Connection.UpdateSecret(new_secret="secret", reason="why"),
        pamqp.commands.Basic.Qos(prefetch_count=3, global_=True),
    ],
    ids=lambda theirs: theirs.name,
)
def test_methods_are_the_bytes_of_other_codecs(theirs: Any) -> None:
    frame = pamqp.frame.marshal(theirs, 3)
    method = decode_method(frame[7:-1])
    assert encode_frame(METHOD, 3, encode_method(method.name, **method.arguments)) == frame


def test_pika_reads_what_we_write_and_we_what_it_writes() -> None:
    when = datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)
    theirs = pika.spec.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={**NATIVE, "when": when, "much": decimal.Decimal("1.25")},
        delivery_mode=2,
        priority=7,
        correlation_id="c",
        reply_to="r",
        expiration="100",
        message_id="m",
        timestamp=5,
        type="t",
        user_id="guest",
        app_id="a",
        cluster_id="x",
    )
    encoded = b"".join(theirs.encode())
    decoded = decode_properties(encoded)
    assert encode_properties(decoded) == encoded
    assert {name: native(field) for name, field in decoded["headers"].items()} == theirs.headers
    for name in ("content_type", "priority", "expiration", "timestamp", "user_id", "cluster_id"):
        assert decoded[name] == getattr(theirs, name)


@given(listed=properties)
def test_pamqp_sees_the_same_properties(listed: dict[str, Any]) -> None:
    listed.pop("headers", None)
    listed.pop("timestamp", None)
    encoded = encode_properties(listed)
    theirs = pamqp.header.ContentHeader()
    theirs.unmarshal(b"\0\x3c\0\0" + bytes(8) + encoded)
    for name, value in listed.items():
        assert getattr(theirs.properties, "message_type" if name == "type" else name) == value


@given(garbage=st.binary(max_size=200))
def test_garbage_is_an_error_of_the_peer(garbage: bytes) -> None:
    for decode in (decode_properties, decode_method, lambda data: decode_table(data, 0, len(data))):
        with contextlib.suppress(ConnectionError_):
            decode(garbage)


@given(table=tables, data=st.data())
def test_a_table_cut_short_is_an_error_of_the_peer(table: Table, data: st.DataObject) -> None:
    encoded = encode_table(table)
    cut = data.draw(st.integers(4, len(encoded)))
    with contextlib.suppress(ConnectionError_):
        decode_table(encoded, 4, cut)


def test_deep_nesting_is_refused() -> None:
    table: Table = {}
    for _ in range(DEPTH_MAX + 2):
        table = {"t": Field("table", table)}
    with pytest.raises(ConnectionError_):
        decode_table(encode_table(table), 4, len(encode_table(table)))


def test_the_first_of_two_names_counts() -> None:
    twice = encode_table({"n": Field("signedint", 1)})[4:] + encode_table({"n": Field("signedint", 2)})[4:]
    assert decode_table(twice, 0, len(twice)) == {"n": Field("signedint", 1)}


def test_a_text_is_cut_to_what_a_short_string_holds() -> None:
    error = ConnectionError_(541, "ü" * 300)
    assert len(error.text.encode()) <= 255
    assert error.text.startswith("INTERNAL_ERROR - ")
