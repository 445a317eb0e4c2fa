"""A streaming read of topics."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from mainstem.pipelines.errors import PipelineError


def TopicStreamReader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:  # noqa: N802
    """Reads what is new in each partition."""
    raise PipelineError("Reading is not there yet.")
