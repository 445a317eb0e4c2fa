"""What the bytes of a value mean: `value.format`.

A format has a Spark type, and decodes a whole column of bytes. What does not fit is null in the column and kept, byte for
byte, in `_corrupt`.
"""

from mainstem.pipelines.value_formats.contract import Decoded, RawFormat, StringFormat, ValueFormat

__all__ = ["Decoded", "RawFormat", "StringFormat", "ValueFormat"]
