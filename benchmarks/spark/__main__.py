"""`make bench-spark`: Spark over topics of a broker on the same machine.

    python -m benchmarks.spark [NAME ...] [--records N] [--report FILE]

Nothing else should run meanwhile. Exit code 1 when a figure is not as wanted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import mainstem.spark
from benchmarks.report import HEAD, Figure, write_report
from benchmarks.spark.connector import measure_connector
from benchmarks.spark.micro_batches import measure_micro_batches
from benchmarks.spark.scan import measure_scans
from benchmarks.spark.sink import measure_sink
from benchmarks.spark.tables import measure_tables
from demo.broker import running_broker

NAMES = ("scan", "connector", "table", "sink", "micro-batch")
SINK_RECORDS_RATIO = 5
"""Writing is slower than reading: fewer rows show as much."""


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--report", type=Path, default=Path("benchmark-spark-report.md"))
    options = parser.parse_args()
    wanted = options.names or list(NAMES)
    if unknown := set(wanted) - set(NAMES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    figures: list[Figure] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-spark-") as directory,
        running_broker(Path(directory) / "data") as address,
    ):
        spark = mainstem.spark.session(
            "bench",
            master="local[2]",
            data_dir=directory,
            settings={"spark.local.dir": f"{directory}/local", "spark.driver.memory": "2g"},
        )
        if "scan" in wanted:
            figures += measure_scans(spark, address["kafka"], Path(directory), options.records)
        if "connector" in wanted:
            figures += measure_connector(spark, address["kafka"], options.records)
        if "table" in wanted:
            figures += measure_tables(spark, address["kafka"], Path(directory), options.records)
        if "sink" in wanted:
            records = options.records // SINK_RECORDS_RATIO
            figures += measure_sink(spark, address["kafka"], Path(directory), records)
        if "micro-batch" in wanted:
            figures += measure_micro_batches(spark, address["kafka"], Path(directory))
        spark.stop()
    print(HEAD)
    for figure in figures:
        print(figure.row())
    write_report(options.report, figures, "make bench-spark")
    return 1 if any(figure.met is False for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
