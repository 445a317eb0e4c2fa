"""Spark with every topic at hand.

    import mainstem.spark

    spark = mainstem.spark.session()
    orders = spark.readStream.format("mainstem").option("topic", "orders").load()

A door to `mainstem.pipelines`, which is where Spark is known.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mainstem.pipelines.session.interpreter import choose_running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "SparkMissing",
    "append_to_delta",
    "append_to_table",
    "cluster_settings",
    "pipeline",
    "read_delta",
    "read_table",
    "reason",
    "session",
    "settle",
    "table",
    "with_origin",
]


choose_running()


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
    from mainstem.pipelines.session.session import start_session

    return start_session(name, master=master, data_dir=data_dir, checkpoint=checkpoint, settings=settings or {}, ui=ui)


def table(topic: str, *, session: SparkSession | None = None, **options: str) -> DataFrame:
    """All of a topic as of now: its table by Spark's own Parquet reader, and what is not there yet from the log.

    A topic without a table is read from the log. `options` are those of the source, as `address="127.0.0.1:9092"`.
    """
    _check_installed()
    from mainstem.pipelines.tables.reading import read_topic

    return read_topic(session or _running(), topic, options)


def read_table(location: str, *, session: SparkSession | None = None) -> DataFrame:
    """A table that a pipeline has written, as of now."""
    _check_installed()
    from mainstem.pipelines.tables.reading import read_table as read

    return read(session or _running(), location)


def append_to_table(frame: DataFrame, location: str, number: int, *, query: str | None = None) -> bool:
    """For foreachBatch: the rows of a micro-batch into a table, once. Whether they were not there before."""
    _check_installed()
    from mainstem.pipelines.tables.sink import append_batch

    return append_batch(frame, location, number, query=query)


def append_to_delta(
    frame: DataFrame, location: str, number: int, *, query: str | None = None, partition_by: Sequence[str] = ()
) -> bool:
    """For foreachBatch: the rows of a micro-batch into a table of Delta Lake, once. Whether they were not there before."""
    _check_installed()
    from mainstem.pipelines.tables.delta import append_to_delta as append

    return append(frame, location, number, query=query, partition_by=partition_by)


def read_delta(location: str, *, session: SparkSession | None = None) -> DataFrame:
    """A table of Delta Lake as of now, by Spark's own Parquet reader."""
    _check_installed()
    from mainstem.pipelines.tables.delta import read_delta as read

    return read(session or _running(), location)


def pipeline(**definition: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Marks the function that is a pipeline, with the keys of a definition in YAML: see docs/pipelines.md.

    The function is given the sources and steps that its parameters are named after, and answers what the sinks write.
    """
    from mainstem.pipelines.definition.files import declare

    return declare(definition)


def cluster_settings() -> dict[str, str]:
    """What a session of your own, or `spark-submit --conf`, needs for workers that do not have mainstem."""
    _check_installed()
    from mainstem.pipelines.session.code_shipping import shipping_settings

    return shipping_settings()


def settle(rows: DataFrame, *, address: str | None = None, name: str = "settle") -> None:
    """Say of acquired rows what is to become of them, within foreachBatch; the others of the batch are accepted.

    Columns: `_receipt` as the source gave it, `_verdict` (retry, reject, or null for accept), and where wanted `_reason` and
    `_retryAfterMs`. Several calls for one batch need a name each.
    """
    writer = rows.write.format("mainstem").mode("append").option("settle", "true").option("sinkId", name)
    (writer if address is None else writer.option("address", address)).save()


def with_origin(letters: DataFrame) -> DataFrame:
    """Dead letters, read with `includeHeaders`, with a column `origin`: reason, queue, offset, deliveries, error, and more."""
    from mainstem.pipelines.source.dead_letter_columns import with_origin as decode

    return decode(letters)


def reason(error: BaseException) -> str:
    """The sentence in an error of Spark's that came from mainstem; else the first line of the error."""
    _check_installed()
    from mainstem.pipelines.errors import sentence_in

    return sentence_in(error)


def _running() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or session()


def _check_installed() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise SparkMissing("Spark is not installed: pip install 'mainstem[spark]'.")
