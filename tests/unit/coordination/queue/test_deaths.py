"""What dead letters say of themselves: text for everybody, and readable as earlier versions wrote it."""

import json

import msgspec
import pytest

from mainstem.coordination.dead_letters.deaths import Attempt, Death, Origin, deaths_of, decode_origin, encode_facts
from mainstem.wire.record_batch.encoding import encode_headers

DEATHS = [Death("q", "rejected", 2, 10, 20, "x", ["k", "ü"]), Death("r", "expired", 1, 5, 5, "", ["r"], 7)]
ORIGIN = Origin("expired", "default", "r", None, 0, 3, 1, 5, 1, 0, "late", [Attempt(4, "why"), Attempt(5)])
PACKED_DEATHS = [["q", "rejected", 2, 10, 20, "x", ["k", "ü"], -1], ["r", "expired", 1, 5, 5, "", ["r"], 7]]
"""As earlier versions stored them."""


def block(content: bytes) -> bytes:
    return encode_headers([("a", b"1"), ("mainstem-dead", content)])


def test_deaths_are_text_and_come_back() -> None:
    content = encode_facts(DEATHS)
    assert [death["queue"] for death in json.loads(content.decode())] == ["q", "r"]
    assert deaths_of(block(content)) == DEATHS


def test_the_origin_is_text_and_comes_back() -> None:
    content = encode_facts(ORIGIN)
    assert json.loads(content.decode())["error"] == "late"
    assert decode_origin(content) == ORIGIN


def test_what_earlier_versions_stored_is_read() -> None:
    assert deaths_of(block(msgspec.msgpack.encode(PACKED_DEATHS))) == DEATHS
    assert decode_origin(msgspec.msgpack.encode(ORIGIN)) == ORIGIN


@pytest.mark.parametrize("content", [b"", b"[", b"[1]", b"{}", b'["\xff"]', b"\xc1", b"\x91\x01"])
def test_what_is_none_of_both_is_no_history(content: bytes) -> None:
    assert deaths_of(block(content)) == []
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        decode_origin(content)


def test_keys_that_are_no_text_are_shown_as_far_as_they_are() -> None:
    content = encode_facts([Death("q", "rejected", 1, 1, 1, "x", ["k", "\udcff!"])])
    assert deaths_of(block(content))[0].routing_keys == ["k", "\ufffd!"]
