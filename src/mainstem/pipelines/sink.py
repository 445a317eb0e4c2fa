"""Writing rows to topics."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from mainstem.pipelines.errors import PipelineError


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """All rows or none."""
    raise PipelineError("Writing is not there yet.")


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    """Exactly once."""
    raise PipelineError("Writing is not there yet.")
