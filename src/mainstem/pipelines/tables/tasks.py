"""Tasks that write files and answer with facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from mainstem.pipelines.tables.manifest import TableFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task: TypeAlias = Callable[[Any], list[TableFile]]
"""Made on the driver, called on an executor with its part."""


def run_tasks(spark: SparkSession, what: str, parts: Sequence[Any], task: Task) -> list[TableFile]:
    """One task for each part. What is collected are facts of files, never rows."""
    context = spark.sparkContext
    context.setJobDescription(what)
    try:
        found: list[list[TableFile]] = context.parallelize(parts, len(parts)).map(task).collect()
    finally:
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    return [file for files in found for file in files]
