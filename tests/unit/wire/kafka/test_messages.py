"""Headers around requests and responses."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.model.errors import PeerError
from mainstem.wire.errors import BufferUnderflow, MalformedBytes, TrailingBytes, UnknownMessage
from mainstem.wire.kafka import (
    APIS,
    Api,
    ApiKey,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)

EVERY_API = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)


@EVERY_API
@settings(max_examples=settings().max_examples // 5)
@given(
    data=st.data(), correlation_id=st.integers(-(1 << 31), (1 << 31) - 1), client_id=st.none() | st.text(max_size=40)
)
def test_round_trip(api: Api, data: st.DataObject, correlation_id: int, client_id: str | None) -> None:
    version = data.draw(st.integers(*api.versions))
    raw = encode_request(api.key, version, {}, correlation_id=correlation_id, client_id=client_id)
    header, body = decode_request(raw)
    assert header[:4] == (api.key, version, correlation_id, client_id)
    assert body == api.request.type()
    assert decode_request(raw + b"more") == (header, body)
    answer = encode_response(api.key, version, {}, correlation_id=correlation_id)
    assert decode_response(api.key, version, answer) == (correlation_id, api.response.type())
    with pytest.raises(TrailingBytes):
        decode_response(api.key, version, answer + b"\0")


def test_header_of_an_old_version_has_no_tags() -> None:
    raw = encode_request(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}, correlation_id=7, client_id="me")
    assert raw.hex() == "001100010000000700026d650005504c41494e"


def test_header_of_a_flexible_version_keeps_the_old_client_id() -> None:
    raw = encode_request(ApiKey.HEARTBEAT, 4, {}, correlation_id=7, client_id="me")
    assert raw.hex().startswith("000c00040000000700026d6500")
    assert decode_request_header(raw).body_at == 13


def test_header_tags_are_skipped() -> None:
    raw = bytes.fromhex("000c000400000007ffff010502aabb") + b"\x01" + bytes(4) + b"\x01\x00\x00"
    header, body = decode_request(raw)
    assert header.client_id is None
    assert body == APIS[ApiKey.HEARTBEAT].request.type()


def test_api_versions_is_answered_with_the_old_header() -> None:
    body: dict[str, Any] = {"api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}]}
    flexible = encode_response(ApiKey.API_VERSIONS, 3, body, correlation_id=1)
    assert flexible.hex() == "00000001000002001200000004000000000000"
    assert decode_response(ApiKey.API_VERSIONS, 3, flexible)[1].api_keys[0].max_version == 4
    other = encode_response(ApiKey.HEARTBEAT, 4, {}, correlation_id=1)
    assert other.hex().startswith("0000000100")


def test_a_request_that_is_not_known_still_has_a_header() -> None:
    newest = encode_request(ApiKey.API_VERSIONS, 4, {}, correlation_id=3, client_id="new")
    unheard = newest[:2] + b"\x00\x63" + newest[4:]
    header = decode_request_header(unheard)
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (18, 99, 3, "new")
    with pytest.raises(UnknownMessage):
        decode_request(unheard)
    with pytest.raises(UnknownMessage):
        decode_request(bytes.fromhex("7fff000000000001ffff"))


@pytest.mark.parametrize("api_key", [ApiKey.SASL_HANDSHAKE, ApiKey.HEARTBEAT])
def test_truncated_headers(api_key: ApiKey) -> None:
    raw = encode_request(api_key, 1, {}, correlation_id=7, client_id="me")
    for cut in range(len(raw)):
        with pytest.raises(MalformedBytes):
            decode_request(raw[:cut])
    with pytest.raises(BufferUnderflow):
        decode_response(api_key, 1, b"\0\0\0")


@settings(max_examples=settings().max_examples * 6)
@given(st.integers(-1, 95), st.integers(-1, 20), st.binary(max_size=80))
def test_garbage_is_a_value_or_a_typed_error(api_key: int, version: int, garbage: bytes) -> None:
    start = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    for decode in (lambda: decode_request(start + garbage), lambda: decode_response(api_key, version, garbage)):
        try:
            decode()
        except PeerError:
            pass
