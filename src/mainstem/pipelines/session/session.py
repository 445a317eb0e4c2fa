"""A session with everything set as a user of one machine, or of a cluster, would want it."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from mainstem.pipelines.errors import InvalidOption
from mainstem.pipelines.session.code_shipping import shipping_settings
from mainstem.pipelines.session.interpreter import choose_for_session
from mainstem.pipelines.session.java import find_java
from mainstem.pipelines.session.listener import ProgressListener
from mainstem.pipelines.spark_version import check_spark_version
from mainstem.sdk.credentials import VARIABLES

DATA_DIR_DEFAULT = "mainstem-data"
DATA_DIR_VARIABLE = "MAINSTEM_DATA_DIR"
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
}
LOCAL_DEFAULTS = {
    # 200 shuffle partitions are for clusters: here each costs more than what it sorts
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

logger = logging.getLogger(__name__)


def start_session(
    name: str,
    *,
    master: str | None,
    data_dir: str | None,
    checkpoint: str | None,
    settings: Mapping[str, str],
    ui: bool,
) -> SparkSession:
    """See `mainstem.spark.session`."""
    check_spark_version()
    master = master or settings.get("spark.master") or os.environ.get("MASTER") or "local[*]"
    is_local = master.startswith("local")
    chosen = {**DEFAULTS, "spark.ui.enabled": str(ui).lower()}
    chosen |= LOCAL_DEFAULTS if is_local else shipping_settings()
    where = checkpoint_root(name, is_local=is_local, data_dir=data_dir, checkpoint=checkpoint)
    if where is not None:
        chosen["spark.sql.streaming.checkpointLocation"] = where
    chosen |= settings
    running = SparkSession.getActiveSession()
    if running is None:
        find_java()
        choose_for_session(is_local)
        conf = SparkConf().setMaster(master).setAppName(name).setAll(list(chosen.items()))
        # given here and not as a setting, which would stand on the command line of the JVM for all to see
        secrets = {} if is_local else {name: os.environ[name] for name in VARIABLES if name in os.environ}
        context = SparkContext.getOrCreate(conf) if not secrets else SparkContext(conf=conf, environment=secrets)
        running = SparkSession(context)
    _listen(running)
    return running


def checkpoint_root(name: str, *, is_local: bool, data_dir: str | None, checkpoint: str | None) -> str | None:
    """Below which Spark keeps the checkpoint of each query, by the query's name."""
    if checkpoint is None:
        if not is_local:
            return None
        root = Path(data_dir or os.environ.get(DATA_DIR_VARIABLE) or DATA_DIR_DEFAULT)
        return str(root.resolve() / "pipelines" / name / "checkpoint")
    if not is_local and not urlsplit(checkpoint).scheme:
        raise InvalidOption(
            f"The checkpoint {checkpoint!r} is a path of this machine, which a cluster cannot share: give a URI that every "
            "worker reaches, as s3a://bucket/path, hdfs://host/path, or file:///path where that is mounted everywhere."
        )
    return checkpoint


def _listen(running: SparkSession) -> None:
    if getattr(running, "_mainstem_listener", None) is None:
        listener = ProgressListener()
        running.streams.addListener(listener)
        running._mainstem_listener = listener  # type: ignore[attr-defined]
