"""Codecs: round trips, both snappy forms, limits, garbage."""

import gzip
import mmap

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.model.errors import InvalidBatch
from mainstem.wire.compression import (
    GZIP,
    LZ4,
    MAPPED_BYTES_MIN,
    NONE,
    SNAPPY,
    XERIAL_HEADER,
    ZSTD,
    Compression,
    compress,
    decompress,
    unpack,
)
from mainstem.wire.errors import DecompressedTooLarge, UndecodableCompression, UnknownCompression

CODECS = pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
COMPRESSING = pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=lambda codec: codec.name.lower())


@CODECS
@given(content=st.binary(max_size=2000), times=st.integers(0, 60))
def test_round_trip(codec: Compression, content: bytes, times: int) -> None:
    assert decompress(codec, compress(codec, content * times)) == content * times


@CODECS
def test_the_limit_is_exact(codec: Compression) -> None:
    content = b"0123456789" * 20_000
    data = compress(codec, content)
    assert decompress(codec, data, len(content)) == content
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, data, len(content) - 1)


@COMPRESSING
def test_a_bomb_is_refused_within_the_limit(codec: Compression) -> None:
    data = compress(codec, bytes(64 << 20))
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, data, 1 << 20)


@COMPRESSING
def test_content_far_above_the_first_guess(codec: Compression) -> None:
    content = bytes(4 << 20)
    assert decompress(codec, compress(codec, content)) == content


@COMPRESSING
def test_every_truncation_is_refused(codec: Compression) -> None:
    data = bytes(compress(codec, b"some content, " * 40 + bytes(range(256))))
    # a header without blocks is how the Java library writes nothing
    whole = {len(XERIAL_HEADER)} if codec is SNAPPY else set()
    for cut in set(range(len(data))) - whole:
        with pytest.raises(InvalidBatch):
            decompress(codec, data[:cut])


@CODECS
@given(garbage=st.binary(max_size=200), honest=st.booleans())
def test_garbage_is_a_typed_error(codec: Compression, garbage: bytes, honest: bool) -> None:
    start = bytes(compress(codec, b"content"))[:12] if honest else b""
    try:
        decompress(codec, start + garbage, 1 << 16)
    except InvalidBatch:
        pass


def test_unknown_codecs_are_refused() -> None:
    for codec in (-1, 5, 7):
        with pytest.raises(UnknownCompression):
            compress(codec, b"")
        with pytest.raises(UnknownCompression):
            decompress(codec, b"")


def test_raw_snappy_is_read_too() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(b"abc" * 100))) == b"abc" * 100


def test_raw_snappy_announcing_too_much_is_refused_before_it_is_allocated() -> None:
    with pytest.raises(DecompressedTooLarge):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(10))


def test_xerial_limit_counts_all_blocks() -> None:
    data = compress(SNAPPY, bytes(40 << 10))
    with pytest.raises(DecompressedTooLarge):
        decompress(SNAPPY, data, 33 << 10)


def test_gzip_of_several_members_is_read() -> None:
    assert decompress(GZIP, gzip.compress(b"one") + gzip.compress(b"two" * 1000)) == b"one" + b"two" * 1000


def test_gzip_that_lies_about_its_size_is_refused() -> None:
    data = gzip.compress(b"content" * 10)
    with pytest.raises(UndecodableCompression):
        decompress(GZIP, data[:-4] + b"\xff\xff\xff\x7f", 1 << 20)


def test_no_compression_copies_nothing_on_writing() -> None:
    content = b"content"
    assert compress(NONE, content) is content


@COMPRESSING
@pytest.mark.parametrize("size", [MAPPED_BYTES_MIN - 1, MAPPED_BYTES_MIN, MAPPED_BYTES_MIN + 1, 5 * MAPPED_BYTES_MIN])
def test_large_content_is_mapped_and_reads_like_bytes(codec: Compression, size: int) -> None:
    """A thread that clears or copies a hundred megabytes would hold the interpreter's lock meanwhile."""
    content = (bytes(range(256)) * (size // 256 + 1))[:size]
    compressed = compress(codec, content)
    unpacked = unpack(codec, compressed)
    assert isinstance(unpacked, mmap.mmap) == (size > MAPPED_BYTES_MIN)
    assert len(unpacked) == size
    assert unpacked[:] == content
    assert unpacked[-1] == content[-1]
    assert bytes(compress(codec, unpacked)) == bytes(compressed)
    assert decompress(codec, compressed) == content
    with pytest.raises(DecompressedTooLarge):
        unpack(codec, compressed, size - 1)
