"""A system table as a source of Spark's: `format("mainstem").option("system", "groups")`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mainstem.pipelines.errors import InvalidOption, plain_errors
from mainstem.pipelines.options import Options
from mainstem.pipelines.spark_version import check_spark_version
from mainstem.pipelines.sql.system_tables import SYSTEM_TABLES
from mainstem.sdk.http_pages import HttpPages
from mainstem.sdk.stages import http_address

SYSTEM, HTTP_ADDRESS = "system", "httpAddress"
ROWS_PER_BATCH = 1_000


def system_schema(given: Mapping[str, str]) -> str:
    """Its columns."""
    with plain_errors():
        return SYSTEM_TABLES[_name(_options(given))].schema


class SystemReader(DataSourceReader):
    """One task reads it, page by page."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        with plain_errors():
            check_spark_version()
            self._options = _options(given)
            self._name = _name(self._options)
            self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """One: pages follow each other."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task."""
        schema = to_arrow_schema(self._schema, timezone="UTC")
        with plain_errors(), self._options.client() as client:
            address = self._options.text(HTTP_ADDRESS) or http_address(client)
            with HttpPages(address) as http:
                rows = SYSTEM_TABLES[self._name].rows(http, client)
                while some := list(islice(rows, ROWS_PER_BATCH)):
                    yield pa.RecordBatch.from_pylist(some, schema)


def _options(given: Mapping[str, str]) -> Options:
    return Options(given, (SYSTEM, HTTP_ADDRESS))


def _name(options: Options) -> str:
    name = options.text(SYSTEM) or ""
    if name not in SYSTEM_TABLES:
        raise InvalidOption(f"Option `{SYSTEM}` is {name!r}; it can be {', '.join(SYSTEM_TABLES)}.")
    return name
