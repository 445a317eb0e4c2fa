"""What a continuous pipeline costs that has nothing to do: `python -m tests.spark.pipelines.idle`.

CPU seconds of the driver with its Java and Python workers, and of the broker, over a minute, as the kernel counts them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from mainstem.sdk.http_api import ask
from tests.spark.deployment import MARK, definition, facts, ids, kill, wait, wait_gone
from tests.support.clients.json_topics import send_json
from tests.support.serving.served import Served

SETTLE_S = 90.0
MEASURED_S = 60.0
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> int:
    os.environ.pop("PYSPARK_PYTHON", None)
    with tempfile.TemporaryDirectory(prefix="mainstem-idle-") as directory:
        os.environ[MARK] = directory
        served = Served(Path(directory) / "data", "--pipelines")
        try:
            send_json(served, "given", [{"id": 0}])
            text = definition("idle", "given", "taken").replace("trigger: 200 ms", "trigger: 1 second")
            ask(served.http, "PUT", "/v1/pipelines/idle", {"definition": text})
            wait(lambda: len(ids(served, "taken")) == 1, lambda: facts(served, "idle"))
            time.sleep(SETTLE_S)
            before, begun = seconds(directory), time.monotonic()
            time.sleep(MEASURED_S)
            after, elapsed = seconds(directory), time.monotonic() - begun
        finally:
            served.kill()
            kill(directory, "worker", "driver", "java")
            wait_gone(directory)
    kinds: dict[str, float] = {}
    for (kind, process), spent in after.items():
        kinds[kind] = kinds.get(kind, 0.0) + spent - before.get((kind, process), 0.0)
    for kind, used in sorted(kinds.items()):
        print(f"{kind:<24} {used:6.2f} s, {used / elapsed:6.1%} of a core")
    total = sum(kinds.values())
    print(f"{'all':<24} {total:6.2f} s, {total / elapsed:6.1%} of a core, over {elapsed:.0f} s")
    return 0


def seconds(mark: str) -> dict[tuple[str, str], float]:
    """CPU seconds so far, by what the process is and its number."""
    found: dict[tuple[str, str], float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if f"{MARK}={mark}\0" not in (entry / "environ").read_bytes().decode(errors="replace"):
                continue
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[_kind(words), entry.name] = (int(fields[11]) + int(fields[12])) / TICKS
    return found


def _kind(words: list[str]) -> str:
    if words[0].endswith("java"):
        return "Spark's Java"
    for part, kind in (
        ("worker.driver", "driver"),
        ("serve", "broker"),
        ("pipeline", "worker"),
        ("pyspark", "Spark's Python"),
    ):
        if any(part in word for word in words[1:]):
            return kind
    return "other"


if __name__ == "__main__":
    sys.exit(main())
