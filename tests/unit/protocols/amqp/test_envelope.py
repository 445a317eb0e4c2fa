"""What is around a message, as headers of a record and back: exactly, and readable for clients that know no AMQP."""

from base64 import b64decode
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.broker.queues import Message, decode_headers, encode_headers
from mainstem.protocols.amqp.codec.field_table import Field
from mainstem.protocols.amqp.codec.methods import encode_short_string
from mainstem.protocols.amqp.codec.properties import decode_properties, encode_properties
from mainstem.protocols.amqp.mapping.envelope import Envelopes, encode_address, seal
from mainstem.protocols.amqp.mapping.quick_seal import QuickSeal
from tests.unit.protocols.amqp.amqp_strategies import properties, short_texts

NOT_UTF8 = "id \udcff\udc80"


def message(block: bytes, queue: str = "q") -> Message:
    return Message(SimpleNamespace(queue=SimpleNamespace(name=queue)), 0, 5_000, None, block, b"", 0)  # type: ignore[arg-type]


def old_block(exchange: str, key: str, encoded: bytes) -> bytes:
    """As earlier versions stored it."""
    raw = encode_short_string(exchange) + encode_short_string(key) + encoded
    return encode_headers([("amqp.type", b"t"), ("amqp", raw)])


@given(properties, short_texts, short_texts)
def test_what_is_sealed_is_opened_as_it_came(given_properties: dict[str, Any], exchange: str, key: str) -> None:
    encoded = encode_properties(given_properties)
    blocks = [seal(exchange, key, encoded, decode_properties(encoded), -1), old_block(exchange, key, encoded)]
    quick = QuickSeal().seal(*encode_address(exchange, key), encoded)
    for block in [*blocks, *([] if quick is None else [quick])]:
        envelope = Envelopes().open(message(block))
        assert (envelope.exchange, envelope.routing_key, envelope.properties) == (exchange, key, encoded)
        assert envelope.address == encode_short_string(exchange) + encode_short_string(key)


@given(properties, short_texts, short_texts)
def test_our_headers_are_text_for_everybody(given_properties: dict[str, Any], exchange: str, key: str) -> None:
    if "correlation_id" in given_properties:
        given_properties["correlation_id"] = NOT_UTF8
    encoded = encode_properties(given_properties)
    decoded = decode_properties(encoded)
    for block in (seal(exchange, key, encoded, decoded, 5), QuickSeal().seal(*encode_address(exchange, key), encoded)):
        for name, content in decode_headers(block or b"\0"):
            if name.startswith(("amqp", "mainstem-")):
                assert content is not None
                content.decode()


def test_what_is_no_text_is_replaced_for_readers_and_kept_for_amqp() -> None:
    encoded = encode_properties({"correlation_id": NOT_UTF8, "type": "ü"})
    block = seal("x", "k", encoded, decode_properties(encoded), -1)
    assert block == QuickSeal().seal(*encode_address("x", "k"), encoded)
    headers = dict(decode_headers(block))
    assert headers["amqp.correlation-id"] == "id \ufffd\ufffd".encode()
    assert headers["amqp.type"] == "ü".encode()
    assert b64decode(headers["amqp.raw"] or b"", validate=True) == b"\1x\1k" + encoded
    assert Envelopes().open(message(block)).properties == encoded


@given(st.binary(max_size=40))
def test_what_others_put_there_is_not_shown_and_hurts_nobody(content: bytes) -> None:
    for name in ("amqp", "amqp.raw"):
        envelope = Envelopes().open(message(encode_headers([("a", b"1"), (name, content)])))
        decode_properties(envelope.properties)
    raw = encode_headers([("a", b"1"), ("amqp.raw", b"no base64!"), ("amqp", b"\0\0")])
    envelope = Envelopes().open(message(raw))
    assert (envelope.exchange, envelope.routing_key) == ("", "q")
    headers = decode_properties(envelope.properties)["headers"]
    assert set(headers) == {"a", "timestamp_in_ms"}


@pytest.mark.parametrize("is_old", [False, True])
def test_a_dead_letter_is_addressed_anew(is_old: bool) -> None:
    encoded = encode_properties({"headers": {"a": Field("longstr", b"1")}, "expiration": "5", "message_id": "m"})
    old = old_block("x", "k", encoded)
    sealed = seal("x", "k", encoded, decode_properties(encoded), 5)
    block = Envelopes().readdressed(message(old if is_old else sealed), "dead", "letters")
    names = [name for name, _ in decode_headers(block)]
    assert names.count("amqp.raw") == 1
    assert "amqp" not in names
    envelope = Envelopes().open(message(block))
    assert (envelope.exchange, envelope.routing_key) == ("dead", "letters")
    assert decode_properties(envelope.properties) == {"headers": {"a": Field("longstr", b"1")}, "message_id": "m"}
