"""The versions of Spark that this was made and tested for."""

from __future__ import annotations

import pyspark

from mainstem.pipelines.errors import PipelineError

SUPPORTED = (4, 3)


class WrongSparkVersion(PipelineError):
    """Read limits, and the way Spark calls a source, change between versions."""


def check_spark_version(version: str = pyspark.__version__) -> None:
    """Raises unless Spark is one of the supported."""
    major, minor, *_ = (int(part) if part.isdigit() else 0 for part in version.split("."))
    if (major, minor) != SUPPORTED:
        wanted = ".".join(map(str, SUPPORTED))
        raise WrongSparkVersion(
            f"This is Spark {version}, and mainstem needs Spark {wanted}: pip install 'pyspark=={wanted}.*'."
        )
