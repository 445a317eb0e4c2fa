"""A session for statements: of this machine, of a cluster, or of a Spark Connect server."""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
from typing import TYPE_CHECKING

from mainstem.pipelines.errors import PipelineError
from mainstem.pipelines.session.session import start_session
from mainstem.pipelines.spark_version import check_spark_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = "UTC"
SILENT = logging.CRITICAL + 1


class ConnectMissing(PipelineError):
    """What Spark Connect needs is not installed."""


def start_spark(remote: str | None, master: str | None) -> SparkSession:
    """Raises a sentence where there is none to be had."""
    spark = _start(remote, master)
    _silence()
    return spark


def _silence() -> None:
    """What is wrong is said in a sentence, and not in a stack or in lines of JSON besides."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect"):
        logging.getLogger(name).setLevel(SILENT)
    # py4j writes stacks to the root logger when a call is cancelled
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: "py4j" not in record.pathname)
    logging.getLogger().addHandler(handler)


def _start(remote: str | None, master: str | None) -> SparkSession:
    if remote is None:
        # nothing is kept: not even an empty directory where the command was typed
        scratch = tempfile.mkdtemp(prefix="mainstem-sql-")
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
        settings = {"spark.sql.warehouse.dir": scratch, "spark.log.level": "ERROR"}
        return start_session("sql", master=master, data_dir=scratch, checkpoint=None, settings=settings, ui=False)
    check_spark_version()
    try:
        from pyspark.sql.connect.session import SparkSession as RemoteSession
    except ImportError:
        raise ConnectMissing("Spark Connect is not installed: pip install 'mainstem[connect]'.") from None
    spark = RemoteSession.builder.remote(remote).getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", UTC)
    return spark  # type: ignore[return-value]
