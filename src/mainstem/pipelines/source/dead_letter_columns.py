"""Where dead letters come from, as a column: decoded from the header that every dead letter has."""

from __future__ import annotations

from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from mainstem.model.header_names import ORIGIN_HEADER
from mainstem.pipelines.errors import SchemaMismatch

HEADERS, ORIGIN = "headers", "origin"
ORIGIN_TYPE = StructType(
    [
        StructField("reason", StringType()),
        StructField("namespace", StringType()),
        StructField("queue", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp_ms", LongType()),
        StructField("died_ms", LongType()),
        StructField("deliveries", IntegerType()),
        StructField("failures", IntegerType()),
        StructField("error", StringType()),
    ]
)


def decode_origin(content: bytes | None) -> dict[str, Any] | None:
    """The facts; nothing where there are none, or not such. Earlier versions wrote msgpack, not JSON."""
    if content is None:
        return None
    try:
        if content.startswith(b"{"):
            facts = msgspec.json.decode(content, type=dict[str, Any])
        else:
            facts = msgspec.msgpack.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return {"error": "", **facts}


def with_origin(letters: DataFrame) -> DataFrame:
    """The same rows with the column `origin`, null in what is no dead letter. Raises SchemaMismatch."""
    if HEADERS not in letters.columns:
        raise SchemaMismatch("Where a letter comes from is in its headers: read it with includeHeaders.")
    decode = F.udf(decode_origin, ORIGIN_TYPE, useArrow=True)
    found = F.expr(f"try_element_at(filter({HEADERS}, header -> header.key = '{ORIGIN_HEADER}'), 1).value")
    return letters.withColumn(ORIGIN, decode(found))
