"""A deployed pipeline goes on by itself, whatever is killed: nothing is lost, nothing doubled."""

from pathlib import Path

import pytest

from mainstem.sdk.http_api import ApiRefused, ask
from tests.spark.deployment import definition, facts, ids, kill, wait, wait_gone, wait_state
from tests.support.clients.json_topics import send_json
from tests.support.serving.program import get
from tests.support.serving.served import Served

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_all_processes_killed_and_started_again(tmp_path: Path, mark: str) -> None:
    served = Served(tmp_path / "data", "--pipelines")
    try:
        send_json(served, "given", [{"id": n} for n in range(120)])
        ask(served.http, "PUT", "/v1/pipelines/copy", {"definition": definition("copy", "given", "taken")})
        wait(lambda: len(ids(served, "taken")) >= 50, lambda: facts(served, "copy"))
        # the power goes, in the middle of it
        served.kill()
        kill(mark, "worker", "driver", "java")
        wait_gone(mark)
        served.start()
        send_json(served, "given", [{"id": n} for n in range(120, 150)])
        wait(lambda: len(ids(served, "taken")) >= 150, lambda: facts(served, "copy"))
        assert sorted(ids(served, "taken")) == list(range(150))
        assert wait_state(served, "copy", "running")["restarts"] == 0
        wait(lambda: (sinks := facts(served, "copy")["sinks"]) and sinks[0]["rows_out"] and not sinks[0]["lag"])
        assert 'mainstem_pipeline_running{pipeline="copy"} 1.0' in get(served.http, "/metrics")[1]
        # a driver alone is killed: its worker starts another one
        assert kill(mark, "driver") == 1
        wait(lambda: facts(served, "copy")["restarts"] == 1)
        ask(served.http, "POST", "/v1/pipelines/copy/pause")
        wait_state(served, "copy", "paused")
        assert "the pipeline runs" in ask(served.http, "GET", "/v1/pipelines/copy/log")["text"]
        ask(served.http, "DELETE", "/v1/pipelines/copy")
        with pytest.raises(ApiRefused, match="there is no pipeline"):
            facts(served, "copy")
    finally:
        served.kill()
    wait_gone(mark)
