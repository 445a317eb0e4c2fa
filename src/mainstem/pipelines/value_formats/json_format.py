"""JSON with a fixed type, parsed by Arrow for many values at once.

Arrow refuses a whole block for one value that does not fit. Such a block is halved until the misfits stand alone, so that a few
of them cost a few parses and not one for each value.
"""

from __future__ import annotations

import io

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json as pj
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from mainstem.pipelines.errors import SchemaMismatch
from mainstem.pipelines.value_formats.contract import Decoded
from mainstem.pipelines.value_formats.misfits import corrupt_column

BLOCK_SLACK_BYTES = 1 << 10
_check = msgspec.json.Decoder(msgspec.Raw).decode


class JsonFormat:
    """Objects of one type; fields that the type does not have are left out."""

    has_corrupt = True

    def __init__(self, kind: DataType) -> None:
        if not isinstance(kind, StructType):
            raise SchemaMismatch(f"With value.format json the column `value` is a struct, not {kind.simpleString()}.")
        _check_parsable(kind, "value")
        self.type: DataType = kind

    def decode(self, values: pa.Array) -> Decoded:
        """A struct for each value that fits."""
        arrow_type = to_arrow_type(self.type, timezone="UTC")
        present = np.flatnonzero(np.asarray(values.is_valid()))
        is_json = np.fromiter(
            (_is_json(value) for value in values.take(pa.array(present)).to_pylist()), bool, len(present)
        )
        misfits: list[int] = present[~is_json].tolist()
        parts = self._parse(values, present[is_json], arrow_type, misfits)
        parsed = pa.concat_arrays(parts) if parts else pa.nulls(0, arrow_type)
        if len(present) < len(values) or misfits:
            fitting = np.setdiff1d(present, np.array(misfits, np.int64), assume_unique=True)
            places = np.zeros(len(values), np.int64)
            places[fitting] = np.arange(len(fitting))
            missing = np.ones(len(values), bool)
            missing[fitting] = False
            parsed = parsed.take(pa.array(places, mask=missing))
        return parsed, corrupt_column(values, misfits)

    def _parse(
        self, values: pa.Array, indices: np.ndarray, arrow_type: pa.StructType, misfits: list[int]
    ) -> list[pa.Array]:
        if not len(indices):
            return []
        parsed = _parse_block(values.take(pa.array(indices)), arrow_type)
        if parsed is not None:
            return [parsed]
        if len(indices) == 1:
            misfits.append(int(indices[0]))
            return []
        half = len(indices) // 2
        return self._parse(values, indices[:half], arrow_type, misfits) + self._parse(
            values, indices[half:], arrow_type, misfits
        )


def _is_json(value: bytes) -> bool:
    """One value and nothing behind it. Beside others, Arrow takes halves and doubles for what they make together."""
    try:
        _check(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _parse_block(values: pa.Array, arrow_type: pa.StructType) -> pa.Array | None:
    """All of them, or None where one does not fit. Each stands in an object with its number, so that none can be taken for
    two, or two for one, without being noticed.
    """
    block = b"\n".join(b'{"n":%d,"v":%s}' % numbered for numbered in enumerate(values.to_pylist()))
    if not len(arrow_type):
        return pa.array([{}] * len(values), arrow_type)
    try:
        table = pj.read_json(
            io.BytesIO(block),
            pj.ReadOptions(use_threads=False, block_size=len(block) + BLOCK_SLACK_BYTES),
            pj.ParseOptions(
                explicit_schema=pa.schema([("v", _readable(arrow_type))]),
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
        read = table.column("v").combine_chunks()
        if read.null_count or len(read) != len(values):
            return None
        parsed = read.cast(arrow_type)
        # Arrow's parser does not look whether text is UTF-8
        parsed.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return parsed


def _readable(kind: pa.DataType) -> pa.DataType:
    """Arrow's parser has no dates, but casts text to them."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_readable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_readable(kind.value_type)))
    return pa.string() if pa.types.is_date(kind) else kind


def _check_parsable(kind: DataType, path: str) -> None:
    if isinstance(kind, StructType):
        for field in kind:
            _check_parsable(field.dataType, f"{path}.{field.name}")
    elif isinstance(kind, ArrayType):
        _check_parsable(kind.elementType, f"{path}[]")
    elif isinstance(kind, MapType):
        raise SchemaMismatch(
            f"`{path}` is a map, which value.format json does not parse: name the fields in a struct, or read the value "
            "as string and use from_json."
        )
