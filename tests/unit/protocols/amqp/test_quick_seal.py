"""The short way from properties to record headers: the same as the long way, or not taken."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.broker.queues import decode_headers, encode_headers, find_header
from mainstem.protocols.amqp.codec.field_table import Field, Table
from mainstem.protocols.amqp.codec.properties import decode_properties, encode_properties
from mainstem.protocols.amqp.errors import AmqpError
from mainstem.protocols.amqp.mapping.envelope import encode_address, seal
from mainstem.protocols.amqp.mapping.quick_seal import QuickSeal
from tests.unit.protocols.amqp.amqp_strategies import properties, tables

QUICK = QuickSeal()
USUAL = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "message_id",
    "timestamp",
    "type",
    "app_id",
    "cluster_id",
)


def sealed(exchange: str, key: str, encoded: bytes) -> bytes | None:
    entries, count, content = encode_address(exchange, key)
    return QUICK.seal(entries, count, content, encoded)


@given(properties, st.sampled_from(["", "x"]), st.sampled_from(["q", "a.b"]))
def test_it_is_what_the_long_way_makes(given_properties: dict[str, Any], exchange: str, key: str) -> None:
    encoded = encode_properties(given_properties)
    found = sealed(exchange, key, encoded)
    decoded = decode_properties(encoded)
    if found is not None:
        assert found == seal(exchange, key, encoded, decoded, -1)
        assert (QUICK.delivery_mode, QUICK.priority) == (decoded.get("delivery_mode", 0), decoded.get("priority", 0))
    assert QUICK.is_whole(encoded)


def test_what_is_usual_takes_it() -> None:
    headers: Table = {
        "task": Field("longstr", b"add"),
        "eta": Field("void", None),
        "retries": Field("long", -3),
        "timelimit": Field("array", [Field("void", None), Field("table", {"a": Field("bool", True)})]),
        "ratio": Field("double", 0.5),
    }
    values: dict[str, Any] = dict.fromkeys(USUAL, "text") | {
        "headers": headers,
        "delivery_mode": 2,
        "priority": 7,
        "timestamp": 2**64 - 1,
    }
    encoded = encode_properties(values)
    found = sealed("exchange", "key", encoded)
    assert found is not None
    assert found == seal("exchange", "key", encoded, decode_properties(encoded), -1)


@pytest.mark.parametrize(
    "unusual",
    [
        {"expiration": "5"},
        {"user_id": "guest"},
        {"reply_to": "amq.rabbitmq.reply-to"},
        {"headers": {"CC": Field("array", [])}},
        {"headers": {"BCC": Field("array", [])}},
        {"headers": {"mainstem-key": Field("longstr", b"k")}},
        {"headers": {"amqp": Field("longstr", b"k")}},
        {"headers": {"amqp.type": Field("longstr", b"k")}},
        {"headers": {"é": Field("longstr", b"k")}},
    ],
)
def test_what_is_unusual_does_not(unusual: dict[str, Any]) -> None:
    assert sealed("", "q", encode_properties(unusual)) is None


def test_of_a_name_that_comes_twice_the_long_way_decides() -> None:
    entry = b"\x01aV"
    assert sealed("", "q", b"\x20\0" + (6).to_bytes(4, "big") + entry * 2) is None


@given(properties, st.data())
def test_what_is_broken_is_never_taken(given_properties: dict[str, Any], data: st.DataObject) -> None:
    encoded = bytearray(encode_properties(given_properties))
    for _ in range(data.draw(st.integers(1, 3))):
        if encoded:
            encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    broken = bytes(encoded[: data.draw(st.integers(0, len(encoded)))])
    found = sealed("", "q", broken)
    try:
        decoded = decode_properties(broken)
    except AmqpError:
        assert found is None
        assert not QUICK.is_whole(broken)
    else:
        assert QUICK.is_whole(broken)
        if found is not None:
            assert found == seal("", "q", broken, decoded, -1)


@given(tables, st.integers(0, 60))
def test_tables_that_nest_too_deeply_are_not_whole(inner: Table, depth: int) -> None:
    for _ in range(depth):
        inner = {"t": Field("table", inner)}
    encoded = encode_properties({"headers": inner})
    try:
        decode_properties(encoded)
    except AmqpError:
        assert not QUICK.is_whole(encoded)
    else:
        assert QUICK.is_whole(encoded)


@given(st.lists(st.tuples(st.sampled_from(["amqp", "a", "amqp.raw", "x" * 200]), st.none() | st.binary(max_size=300))))
def test_a_header_is_found_without_the_others(headers: list[tuple[str, bytes | None]]) -> None:
    block = encode_headers(headers)
    for name in ("amqp", "amqp.raw", "a", "missing", "x" * 200):
        first = next((content for known, content in decode_headers(block) if known == name), None)
        assert find_header(block, name.encode()) == first
