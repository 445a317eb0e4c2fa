"""The session of a query that is killed: small, and a file names its processes for those who kill them."""

import os
from pathlib import Path

from pyspark.sql import SparkSession

TOPIC = "out"
"""What a query that is killed writes to."""
TIMEOUT = "60"


def killable_session(directory: Path) -> SparkSession:
    """The file `driver.pid` names Java's process and this one, once there is something to kill."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto")
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .getOrCreate()
    )
    java = spark.sparkContext._gateway.proc.pid
    (directory / "driver.pid").write_text(f"{java} {os.getpid()}")
    return spark
