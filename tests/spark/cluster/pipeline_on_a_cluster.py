"""A pipeline on a cluster whose workers do not have mainstem."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from mainstem.pipelines.tables.store import TableStore
from tests.spark.cluster.daemons import cluster
from tests.spark.deployment import ids
from tests.support.clients.json_topics import records, rows, send_json
from tests.support.serving.served import Served

pytestmark = pytest.mark.slow

PIPELINE = """
name: on-a-cluster
mode: available-now
settings:
  checkpoint: file://{directory}/checkpoint
  spark: {{spark.driver.host: 127.0.0.1, spark.executor.memory: 512m}}
sources:
  given: {{topic: given, format: json, schema: id BIGINT}}
  kinds: {{table: kinds, format: string}}
steps:
  found:
    sql: SELECT given.value.id AS id, kinds.value AS kind FROM given JOIN kinds ON kinds.offset = given.value.id % 2
expectations:
  readable: {{on: given, rule: value.id IS NOT NULL, action: dead-letter, topic: dead}}
sinks:
  out: {{from: found, topic: taken}}
  kept: {{from: found, table: kept}}
  lake: {{from: found, delta: lake}}
"""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    with cluster(tmp_path / "cluster") as running_master:
        yield running_master


def test_a_pipeline_runs_on_a_cluster_and_goes_on(tmp_path: Path, master: str) -> None:
    """Every kind of sink that our code writes on executors, by the command."""
    (tmp_path / "p.yml").write_text(PIPELINE.format(directory=tmp_path))
    served = Served(tmp_path / "data")
    words = ("run", "p.yml", "--master", master, "--address", served.kafka, "--data-dir", str(tmp_path / "kept-here"))
    try:
        send_json(served, "kinds", [b"even", b"odd"])
        for sent in (20, 30):
            done = len(ids(served, "taken"))
            send_json(served, "given", [*({"id": n} for n in range(done, sent)), b"{"])
            line = [sys.executable, "-m", "mainstem.cli", "pipeline", *words]
            ran = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
            assert ran.returncode == 0, ran.stderr
            assert sorted(ids(served, "taken")) == list(range(sent))
        found = rows(served, "taken")
        assert {(row["id"] % 2, row["kind"]) for row in found} == {(0, "even"), (1, "odd")}
        assert len(records(served, "dead")) == 2
        kept = TableStore(str(tmp_path / "kept")).latest()
        assert kept is not None
        assert sum(file.rows for file in kept.files) == 30
        assert DeltaTable(str(tmp_path / "lake")).to_pyarrow_table().num_rows == 30
    finally:
        served.kill()
