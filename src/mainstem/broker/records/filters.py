"""Which records a reader wants: by key, and by an SQL92 expression over key, headers and the JSON value.

key, offset, partition, timestamp    facts of the record; the key as text
headers.NAME                         a header, as text
value.FIELD.FIELD                    a field of the JSON value
NAME                                 a header of this name, or else a field of the JSON value
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from mainstem.coordination.subscriptions.selector import compile_expression
from mainstem.wire.record_batch import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

Wanted: TypeAlias = Callable[[int, Record], bool]
"""Whether a record of a partition is wanted."""

_NOT_DECODED: Any = object()
_decode_json = msgspec.json.Decoder().decode


class RecordProperties:
    """What an expression may ask of one record. The value is decoded when it is first asked for."""

    __slots__ = ("_partition", "_record", "_value")

    def __init__(self, partition: int, record: Record) -> None:
        self._partition = partition
        self._record = record
        self._value: Any = _NOT_DECODED

    def get(self, name: str) -> object:
        """The property of this name; None: there is none."""
        record = self._record
        if name == "key":
            return _text(record.key)
        if name == "offset":
            return record.offset
        if name == "partition":
            return self._partition
        if name == "timestamp":
            return record.timestamp_ms
        if name.startswith("headers."):
            return self._header(name.removeprefix("headers."))
        if name.startswith("value."):
            return self._field(name.removeprefix("value."))
        header = self._header(name)
        return self._field(name) if header is None else header

    def _header(self, name: str) -> str | None:
        return next((_text(content) for known, content in self._record.headers if known == name), None)

    def _field(self, path: str) -> object:
        if self._value is _NOT_DECODED:
            self._value = _decode(self._record.value)
        found = self._value
        if isinstance(found, dict) and path in found:
            return found[path]
        for step in path.split("."):
            if not isinstance(found, dict):
                return None
            found = found.get(step)
        return found


def compile_filter(key: str | None = None, where: str | None = None) -> Wanted | None:
    """Both conditions as one; None where there is none. Raises InvalidSelector."""
    matches = None if where is None or not where.strip() else compile_expression(where)
    wanted_key = None if key is None else key.encode()
    if matches is None and wanted_key is None:
        return None

    def wanted(partition: int, record: Record) -> bool:
        if wanted_key is not None and record.key != wanted_key:
            return False
        if matches is None:
            return True
        return matches(cast("Mapping[str, object]", RecordProperties(partition, record)))

    return wanted


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "replace")


def _decode(value: bytes | None) -> object:
    try:
        return None if value is None else _decode_json(value)
    except (ValueError, RecursionError):
        return None
