"""Deployed pipelines, whose processes are killed again and again: `python -m tests.spark.pipelines.crash --cycles 20`.

Records are sent all the time; in every cycle a driver, its Java, the worker, the broker or all of them are killed at a random
moment. In the end every id has come out once.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from mainstem.sdk.http_api import ask
from tests.spark.pipelines.deployment import MARK, definition, facts, ids, kill, wait, wait_gone
from tests.spark.pipelines.runs import send_json
from tests.system.stage_client import Served

RECORDS_PER_CYCLE = 60
LONGEST_S = 8.0
SETTLED_SHARE = 0.7
"""Of cycles in which the driver has come up before anything is killed."""
KINDS = ("driver", "java", "worker", "broker", "all")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    os.environ.pop("PYSPARK_PYTHON", None)
    with tempfile.TemporaryDirectory(prefix="mainstem-pipeline-crash-") as directory:
        os.environ[MARK] = directory
        served = Served(Path(directory) / "data", "--pipelines")
        try:
            sent = 0
            send_json(served, "given", [])
            for cycle in range(options.cycles):
                send_json(served, "given", [{"id": n} for n in range(sent, sent + RECORDS_PER_CYCLE)])
                sent += RECORDS_PER_CYCLE
                if cycle == 0:
                    ask(served.http, "PUT", "/v1/pipelines/copy", {"definition": definition("copy", "given", "taken")})
                if chance.random() < SETTLED_SHARE:
                    wait(lambda: facts(served, "copy")["state"] == "running")
                pause_s = chance.uniform(0, LONGEST_S)
                time.sleep(pause_s)
                kind = chance.choice(KINDS)
                print(
                    f"cycle {cycle}: {kind} is killed after {pause_s:.1f} s, {len(ids(served, 'taken'))} of {sent} came"
                )
                strike(served, directory, kind)
            wait(lambda: len(ids(served, "taken")) >= sent, lambda: facts(served, "copy"))
            found = ids(served, "taken")
        finally:
            served.kill()
            kill(directory, "worker", "driver", "java")
            wait_gone(directory)
    is_right = sorted(found) == list(range(sent))
    print(f"{sent} sent, {len(found)} came, {len(set(found))} different: {'right' if is_right else 'WRONG'}")
    return 0 if is_right else 1


def strike(served: Served, mark: str, kind: str) -> None:
    """End one kind of process, and start again what nobody else starts."""
    if kind in ("broker", "all"):
        served.kill()
        if kind == "all":
            kill(mark, "worker", "driver", "java")
        served.start()
    else:
        kill(mark, kind)


if __name__ == "__main__":
    sys.exit(main())
