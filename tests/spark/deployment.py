"""A broker that runs pipelines itself, and is killed with all its processes."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mainstem.sdk.errors import ClientError, UnknownTopic
from mainstem.sdk.http_api import ApiRefused, ask
from tests.support.clients.json_topics import rows
from tests.support.serving.served import Served

PATIENCE_S = 240
"""A driver takes ten seconds to come up, on a busy machine a minute."""
STEP_S = 0.2
MARK = "PYSPARK_TEST_MARK"
"""In the environment of all processes of a test: Spark's do not name the data directory."""
SMALL = "{spark.driver.memory: 512m, spark.master: 'local[1]', spark.sql.shuffle.partitions: 1}"


def definition(name: str, source: str, target: str, kind: str = "topic") -> str:
    return f"""
name: {name}
settings:
  trigger: 200 ms
  spark: {SMALL}
sources:
  given: {{{kind}: {source}, format: json, schema: id BIGINT, options: {{maxRowsPerTrigger: 50}}}}
steps:
  taken: {{sql: SELECT value.id FROM given}}
sinks:
  out: {{topic: {target}}}
"""


def facts(served: Served, name: str) -> dict[str, Any]:
    found: dict[str, Any] = ask(served.http, "GET", f"/v1/pipelines/{name}")
    return found


def wait_state(served: Served, name: str, *wanted: str) -> dict[str, Any]:
    def state() -> dict[str, Any] | None:
        found = facts(served, name)
        return found if found["state"] in wanted else None

    found: dict[str, Any] = wait(state, lambda: facts(served, name))
    return found


def wait(condition: Callable[[], Any], told: Callable[[], Any] = lambda: None) -> Any:
    """Until something is so, asked again and again; the broker may be away."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            if found := condition():
                return found
        except ApiRefused:
            raise
        except ClientError:
            pass
        assert time.monotonic() < deadline, told()
        time.sleep(STEP_S)


def ids(served: Served, topic: str) -> list[int]:
    """What has come out; the topic is made with the first of it."""
    try:
        return [row["id"] for row in rows(served, topic)]
    except UnknownTopic:
        return []


def processes(mark: str) -> dict[int, str]:
    """All that carry the mark, by what they are: worker, driver, java."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            environment = (entry / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if f"{MARK}={mark}\0" in environment and (kind := _kind(words)):
            found[int(entry.name)] = kind
    return found


def _kind(words: list[str]) -> str:
    if words[0].endswith("java"):
        return "java"
    if any("worker.driver" in word for word in words):
        return "driver"
    return "worker" if "worker" in words else ""


def kill(mark: str, *kinds: str) -> int:
    """As the power going would, for these."""
    count = 0
    for process, kind in processes(mark).items():
        if kind in kinds:
            try:
                os.kill(process, signal.SIGKILL)
                count += 1
            except ProcessLookupError:
                pass
    return count


def wait_gone(mark: str) -> None:
    wait(lambda: not processes(mark), lambda: processes(mark))
