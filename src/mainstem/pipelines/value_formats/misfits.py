"""Columns where some values did not fit."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def corrupt_column(values: pa.Array, misfits: Sequence[int]) -> pa.Array | None:
    """The bytes of the values at these places, null elsewhere; None if there are no such places."""
    if not misfits:
        return None
    kept: list[bytes | None] = [None] * len(values)
    for index in misfits:
        kept[index] = values[index].as_py()
    return pa.array(kept, pa.binary())
