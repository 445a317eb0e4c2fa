"""Variable-length integers: the values of the specification, round trips, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.wire import varint
from mainstem.wire.errors import BufferUnderflow, InvalidVarint, MalformedBytes
from tests.support.record_strategies import INT32, INT64

# protocol buffers documentation, "Signed Integers" and "Base 128 Varints"
KNOWN_ZIGZAG = {0: "00", -1: "01", 1: "02", -2: "03", 2147483647: "feffffff0f", -2147483648: "ffffffff0f"}
KNOWN_UNSIGNED = {0: "00", 1: "01", 150: "9601", 300: "ac02", 4294967295: "ffffffff0f"}


@pytest.mark.parametrize(("value", "text"), KNOWN_ZIGZAG.items())
def test_zigzag_values_of_the_specification(value: int, text: str) -> None:
    out = bytearray()
    varint.encode_varint(out, value)
    assert out.hex() == text
    assert varint.decode_varint(out, 0) == (value, len(out))
    assert varint.decode_varlong(out, 0) == (value, len(out))


@pytest.mark.parametrize(("value", "text"), KNOWN_UNSIGNED.items())
def test_unsigned_values_of_the_specification(value: int, text: str) -> None:
    out = bytearray()
    varint.encode_unsigned_varint(out, value)
    assert out.hex() == text
    assert varint.decode_unsigned_varint(out, 0) == (value, len(out))


@given(INT32, st.binary(max_size=3))
def test_varint_round_trip(value: int, before: bytes) -> None:
    out = bytearray(before)
    varint.encode_varint(out, value)
    assert varint.decode_varint(memoryview(out), len(before)) == (value, len(out))


@given(INT64)
def test_varlong_round_trip(value: int) -> None:
    out = bytearray()
    varint.encode_varlong(out, value)
    assert varint.decode_varlong(out, 0) == (value, len(out))
    for cut in range(len(out)):
        with pytest.raises(BufferUnderflow):
            varint.decode_varlong(out[:cut], 0)


@pytest.mark.parametrize("text", ["ffffffff10", "ffffffffff01", "8080808080808000"])
def test_more_than_32_bits_is_refused(text: str) -> None:
    with pytest.raises(InvalidVarint):
        varint.decode_unsigned_varint(bytes.fromhex(text), 0)


@pytest.mark.parametrize("text", ["ffffffffffffffffff02", "ffffffffffffffffffff01"])
def test_more_than_64_bits_is_refused(text: str) -> None:
    with pytest.raises(InvalidVarint):
        varint.decode_varlong(bytes.fromhex(text), 0)


@given(st.binary(max_size=12))
def test_garbage_is_a_value_or_a_typed_error(garbage: bytes) -> None:
    for decode in (varint.decode_unsigned_varint, varint.decode_varint, varint.decode_varlong):
        try:
            _, position = decode(garbage, 0)
        except MalformedBytes:
            continue
        assert 0 < position <= len(garbage)


@given(st.integers())
def test_wrapping_is_64_bit_arithmetic(value: int) -> None:
    wrapped = varint.wrap_int64(value)
    assert varint.INT64_MIN <= wrapped <= varint.INT64_MAX
    assert (wrapped - value) % (1 << 64) == 0
