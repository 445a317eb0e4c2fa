"""`mainstem pipeline` as people use it, and a worker with pipelines that cannot run: none of it starts Spark."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.sdk.http_api import ask
from tests.support.serving.served import Served

pytestmark = [pytest.mark.system, pytest.mark.slow]
PATIENCE_S = 120
DEFINITION = """\
name: copy
sources:
  given:
    topic: given
steps:
  named: {python: names.py:named}
sinks:
  out: {topic: taken}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    broker = Served(tmp_path_factory.mktemp("commands") / "data")
    yield broker
    broker.kill()


def command(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")}
    line = [sys.executable, "-m", "mainstem.cli", "pipeline", *words]
    return subprocess.run(
        line, cwd=directory, env=clean, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_what_is_wrong_is_told_before_anything_is_started(served: Served, tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text(DEFINITION.replace("topic: taken", "topik: taken"))
    for words in (("validate", "p.yml"), ("run", "p.yml"), ("deploy", "p.yml", "--http", served.http)):
        done = command(tmp_path, *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(
            "mainstem: error: p.yml:8: one of topic, parquet, delta, table, console is needed"
        )
    (tmp_path / "p.yml").write_text(DEFINITION)
    done = command(tmp_path, "validate", "p.yml")
    assert (done.returncode, done.stdout) == (0, "p.yml: pipeline copy, continuous: 1 sources, 1 steps, 1 sinks.\n")
    for words in (("validate", "p.yml", "--address", served.kafka), ("run", "p.yml", "--address", served.kafka)):
        done = command(tmp_path, *words)
        assert done.returncode in (1, 2)
        assert "p.yml:3: there is no topic 'given'; create it first" in done.stderr
        assert "Traceback" not in done.stderr
    done = command(tmp_path, "run", "p.yml", "--mode", "sometimes")
    assert (done.returncode, done.stderr.startswith("mainstem: error: --mode is 'sometimes'")) == (2, True)
    done = command(tmp_path, "run", "p.yml", "--from", "2030-01-01")
    assert (done.returncode, done.stderr) == (2, "mainstem: error: --from has a meaning in mode batch alone\n")
    done = command(tmp_path, "list", "--http", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("mainstem: error: No broker answers at 127.0.0.1:1")


def test_deployed_failing_paused_and_removed(served: Served, tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text(DEFINITION)
    http = ("--http", served.http)
    done = command(tmp_path, "deploy", "p.yml", *http)
    assert (done.returncode, done.stderr) == (
        2,
        "mainstem: error: names.py cannot be read: [Errno 2] No such file or directory: 'names.py'\n",
    )
    (tmp_path / "names.py").write_text("def named(given):\n    return given\n")
    done = command(tmp_path, "deploy", "p.yml", *http)
    assert (done.returncode, done.stdout) == (0, "Pipeline copy is deployed, revision 1: waiting.\n")
    assert ask(served.http, "GET", "/v1/pipelines/copy")["files"] == {
        "names.py": "def named(given):\n    return given\n"
    }
    line = [sys.executable, "-m", "mainstem.cli", "pipeline", "worker", *http, "--data-dir"]
    workers = [subprocess.Popen([*line, str(tmp_path / name)], stderr=subprocess.PIPE, text=True) for name in "ab"]
    try:
        found = wait_failed(served, 2)
        # one of the two has it, and tells why it does not run
        assert found["error"].endswith("p.yml:3: there is no topic 'given'; create it first")
        assert found["worker"]
        done = command(tmp_path, "status", "copy", *http)
        assert "there is no topic 'given'" in done.stdout
        done = command(tmp_path, "logs", "copy", *http)
        assert "there is no topic 'given'" in done.stdout
        assert command(tmp_path, "list", *http).stdout.startswith("copy  ")
        command(tmp_path, "pause", "copy", *http)
        wait_state(served, "paused")
        done = command(tmp_path, "remove", "copy", "--yes", *http)
        assert (done.returncode, done.stdout) == (0, "Pipeline copy is removed.\n")
        assert command(tmp_path, "status", "copy", *http).returncode == 1
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        ends = [worker.communicate(timeout=PATIENCE_S) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    assert all("Traceback" not in text for _, text in ends)
    assert sorted("copy is started" in text for _, text in ends) == [False, True]


def wait_failed(served: Served, restarts: int) -> dict[str, object]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found: dict[str, object] = ask(served.http, "GET", "/v1/pipelines/copy")
        if found["restarts"] >= restarts and found["state"] == "failed":  # type: ignore[operator]
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def wait_state(served: Served, state: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := ask(served.http, "GET", "/v1/pipelines/copy"))["state"] != state:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
