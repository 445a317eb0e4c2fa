"""Spark with every topic at hand.

    import mainstem.spark

    spark = mainstem.spark.session()
    orders = spark.readStream.format("mainstem").option("topic", "orders").load()

A door to `mainstem.pipelines`, which is where Spark is known.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkMissing", "cluster_settings", "reason", "session"]


class SparkMissing(ImportError):
    """pyspark is not installed."""


def session(
    name: str = "mainstem",
    *,
    master: str | None = None,
    data_dir: str | None = None,
    checkpoint: str | None = None,
    settings: Mapping[str, str] | None = None,
    ui: bool = False,
) -> SparkSession:
    """A Spark session, local unless `master` says otherwise; the one that runs already, if there is one.

    Streams keep their checkpoints below `checkpoint`, on one machine by default in DATA_DIR/pipelines/NAME/checkpoint; give
    each query a name. `settings` are Spark's own, and come before ours.
    """
    _check_installed()
    from mainstem.pipelines.session import start_session

    return start_session(name, master=master, data_dir=data_dir, checkpoint=checkpoint, settings=settings or {}, ui=ui)


def cluster_settings() -> dict[str, str]:
    """What a session of your own, or `spark-submit --conf`, needs for workers that do not have mainstem."""
    _check_installed()
    from mainstem.pipelines.shipping import shipping_settings

    return shipping_settings()


def reason(error: BaseException) -> str:
    """The sentence in an error of Spark's that came from mainstem; else the first line of the error."""
    _check_installed()
    from mainstem.pipelines.errors import sentence_in

    return sentence_in(error)


def _check_installed() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise SparkMissing("Spark is not installed: pip install 'mainstem[spark]'.")
