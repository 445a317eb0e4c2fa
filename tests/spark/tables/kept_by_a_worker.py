"""The pipeline that is built in, as `serve --pipelines` runs it: killed with everything, and back by itself.

`make test-tables`.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mainstem.pipelines.tables.store import TableStore
from mainstem.sdk.http_api import ask
from tests.spark.deployment import kill, processes, wait, wait_gone
from tests.support.clients.json_topics import send_json
from tests.support.serving.served import Served

BUILT_IN = "mainstem.tables"


def table(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = ask(served.http, "GET", "/v1/tables/orders")
    return found


def offsets(served: Served) -> list[int]:
    store = TableStore(table(served)["location"])
    manifest = store.latest()
    assert manifest is not None
    found: list[int] = []
    for file in manifest.files:
        with store.read_data(file.path) as stream:
            found += pq.ParquetFile(stream).read(["offset"]).column("offset").to_pylist()
    return sorted(found)


def test_a_table_is_kept_whatever_is_killed(tmp_path: Path, mark: str) -> None:
    served = Served(tmp_path / "data", "--pipelines")
    try:
        assert ask(served.http, "GET", "/v1/pipelines?all=true")["pipelines"] == []
        config = {"table": True, "table.interval.ms": 1_000, "value.format": "json"}
        ask(served.http, "POST", "/v1/topics", {"name": "orders", "config": config})
        send_json(served, "orders", [{"id": n} for n in range(100)])
        wait(lambda: table(served)["rows"] == 100, lambda: ask(served.http, "GET", f"/v1/pipelines/{BUILT_IN}/log"))
        served.kill()
        kill(mark, "worker", "driver", "java")
        wait_gone(mark)
        served.start()
        send_json(served, "orders", [{"id": n} for n in range(100, 150)])
        wait(lambda: table(served)["rows"] >= 150, lambda: ask(served.http, "GET", f"/v1/pipelines/{BUILT_IN}/log"))
        assert offsets(served) == list(range(150))
        send_json(served, "orders", [{"id": 150}])
        asked = [sys.executable, "-m", "mainstem.cli", "sql", "--address", served.kafka, "--format", "csv",
                 "SELECT sum(value.id) AS s, count(*) AS n FROM orders; "
                 "SELECT origin, state FROM mainstem.pipelines"]  # fmt: skip
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=240, check=True, env=os.environ.copy())
        assert answer.stdout == f"s,n\n{sum(range(151))},151\norigin,state\ntable,running\n"
        ask(served.http, "PATCH", "/v1/topics/orders", {"config": {"table": False}})
        assert ask(served.http, "GET", "/v1/pipelines?all=true")["pipelines"] == []
        wait(lambda: not {"driver", "java"} & set(processes(mark).values()))
    finally:
        served.kill()
    wait_gone(mark)
