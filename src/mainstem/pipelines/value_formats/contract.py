"""The contract of a format, and the two that hardly are any."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, StringType

from mainstem.pipelines.codec.batch_decoding import as_text

Decoded: TypeAlias = tuple[pa.Array, pa.Array | None]
"""The column, and the bytes of what did not fit (null elsewhere); None if everything did."""


class ValueFormat(Protocol):
    """Pickled to executors, so it holds what was said, not what was built of it."""

    has_corrupt: bool

    @property
    def type(self) -> DataType:
        """Of the column."""

    def decode(self, values: pa.Array) -> Decoded:
        """From bytes; null stays null."""


class RawFormat:
    """Bytes as they are."""

    has_corrupt = False
    type: DataType = BinaryType()

    def decode(self, values: pa.Array) -> Decoded:
        """Nothing to do."""
        return values, None


class StringFormat:
    """Text; what is not UTF-8 in it is replaced."""

    has_corrupt = False
    type: DataType = StringType()

    def decode(self, values: pa.Array) -> Decoded:
        """The same bytes, checked."""
        return as_text(values), None
