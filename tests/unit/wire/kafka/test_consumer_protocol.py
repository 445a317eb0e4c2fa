"""The two messages that consumers embed in a classic group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.model.errors import PeerError
from mainstem.wire.errors import UnknownMessage
from mainstem.wire.kafka import consumer_protocol as cp

WANTED = {
    "topics": ["a"],
    "owned_partitions": [{"topic": "a", "partitions": [0, 2]}],
    "generation_id": 9,
    "rack_id": "r1",
}


def test_subscription_bytes() -> None:
    assert cp.encode_subscription(WANTED, 0).hex() == "000000000001000161ffffffff"
    assert (
        cp.encode_subscription(WANTED).hex() == "0003"
        "00000001"
        "000161"
        "ffffffff"
        "00000001"
        "000161"
        "00000002"
        "00000000"
        "00000002"
        "00000009"
        "00027231"
    )


@pytest.mark.parametrize("version", range(4))
def test_round_trip(version: int) -> None:
    sent, wanted = cp.decode_subscription(cp.encode_subscription(WANTED, version))
    assert sent == version
    assert wanted.topics == ["a"]
    assert wanted.generation_id == (9 if version >= 2 else -1)
    assert wanted.rack_id == ("r1" if version >= 3 else None)
    given_out = {"assigned_partitions": [{"topic": "a", "partitions": [1]}], "user_data": b"x"}
    sent, assigned = cp.decode_assignment(cp.encode_assignment(given_out, version))
    assert sent == version
    assert assigned.assigned_partitions[0].partitions == [1]
    assert assigned.user_data == b"x"


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    raw = cp.encode_subscription(WANTED)
    raw[0:2] = b"\x00\x09"
    version, wanted = cp.decode_subscription(raw + b"something new")
    assert version == 9
    assert wanted.rack_id == "r1"


def test_a_negative_version_is_refused() -> None:
    with pytest.raises(UnknownMessage):
        cp.decode_assignment(b"\xff\xff" + bytes(20))


@given(st.binary(max_size=60))
def test_garbage_is_a_value_or_a_typed_error(garbage: bytes) -> None:
    for decode in (cp.decode_subscription, cp.decode_assignment):
        try:
            decode(garbage)
        except PeerError:
            pass
