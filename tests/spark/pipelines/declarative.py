"""A project of Spark's Declarative Pipelines over our source and sink, run twice. Not part of `make test`, for its minutes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mainstem.pipelines.session.java import find_java
from tests.support.clients.json_topics import rows, send_json
from tests.support.serving.served import Served

PATIENCE_S = 400
SPEC = """\
name: declared
storage: file://{directory}/storage
libraries:
  - glob:
      include: transformations/**
"""
FLOWS = """\
from pyspark import pipelines as dp

source = {{"address": "{address}", "topic": "measured", "startingOffsets": "earliest",
          "value.format": "json", "value.schema": "id BIGINT, celsius DOUBLE"}}


@dp.table
def readings():
    return spark.readStream.format("mainstem").options(**source).load().selectExpr("value.*", "offset")


dp.create_sink("warm", "mainstem", {{"address": "{address}", "topic": "warm"}})


@dp.append_flow(target="warm")
def warm_readings():
    rows = spark.readStream.format("mainstem").options(**source).load()
    return rows.where("value.celsius > 20").selectExpr("to_json(value) AS value")
"""


@pytest.mark.system
@pytest.mark.slow
def test_two_runs_go_on_where_the_first_was(tmp_path: Path) -> None:
    find_java()
    served = Served(tmp_path / "data")
    project = tmp_path / "project"
    (project / "transformations").mkdir(parents=True)
    (project / "storage").mkdir()
    (project / "spark-pipeline.yml").write_text(SPEC.format(directory=project))
    (project / "transformations" / "flows.py").write_text(FLOWS.format(address=served.kafka))
    try:
        send_json(served, "measured", [{"id": n, "celsius": 18.0 + n} for n in range(5)])
        run(project)
        assert [row["id"] for row in rows(served, "warm")] == [3, 4]
        send_json(served, "measured", [{"id": n, "celsius": 30.0} for n in range(5, 8)])
        run(project)
        assert [row["id"] for row in rows(served, "warm")] == [3, 4, 5, 6, 7]
    finally:
        served.kill()


def run(project: Path) -> None:
    binaries = Path(sys.executable).parent
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    environment["PATH"] = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    command = [str(binaries / "spark-pipelines"), "--conf", "spark.sql.catalogImplementation=hive"]
    command += ["run", "--spec", str(project / "spark-pipeline.yml")]
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
