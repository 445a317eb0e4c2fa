"""Deployed pipelines, whose processes are killed again and again: `python -m tests.spark.pipelines.crash --cycles 20`.

In every cycle records are sent, and a driver, its Java, the worker, the broker or all of them are killed, mostly while records
come out. In the end every id has come out once.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from mainstem.sdk.http_api import ask
from tests.spark.deployment import MARK, definition, facts, ids, kill, wait, wait_gone
from tests.support.clients.json_topics import send_json
from tests.support.crashing.spark.run import command_line
from tests.support.serving.queue_broker import QueueBroker
from tests.support.serving.served import Served

RECORDS_PER_CYCLE = 400
"""Eight micro-batches: seconds of work."""
WORKING_SHARE = 0.8
"""Of cycles in which the strike comes while records come out; in the others at whatever is done at a start."""
LATER_S = 1.0
START_S = 20.0
KINDS = ("driver", "java", "worker", "broker", "all")
SOURCES = ("topic", "queue")


def main() -> int:
    parser = command_line("tests.spark.pipelines.crash", 10)
    parser.add_argument("--source", choices=SOURCES)
    options = parser.parse_args()
    os.environ.pop("PYSPARK_PYTHON", None)
    sources = [options.source] if options.source else SOURCES
    return max(run(source, options.cycles, options.seed) for source in sources)


def run(source: str, cycles: int, seed: int) -> int:
    """One deployed pipeline, killed `count` times."""
    print(f"{source}: seed {seed}, {cycles} kills", flush=True)
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="mainstem-pipeline-crash-") as directory:
        os.environ[MARK] = directory
        served = QueueBroker(Path(directory) / "data", "--pipelines")
        try:
            sent, in_work = 0, 0
            # each kind in turn, then by chance
            kinds = [*KINDS, *(chance.choice(KINDS) for _ in range(cycles))][:cycles]
            if source == "queue":
                served.declare("given")
            for cycle, kind in enumerate(kinds):
                send(served, source, [{"id": n} for n in range(sent, sent + RECORDS_PER_CYCLE)])
                sent += RECORDS_PER_CYCLE
                if cycle == 0:
                    text = definition("copy", "given", "taken", source)
                    ask(served.http, "PUT", "/v1/pipelines/copy", {"definition": text})
                came = wait_moment(served, sent, chance)
                strike(served, directory, kind)
                in_work += bool(came and came < sent)
                print(f"{cycle + 1}: {kind} is killed when {came} of {sent} had come", flush=True)
            wait(lambda: len(ids(served, "taken")) >= sent, lambda: facts(served, "copy"))
            found = ids(served, "taken")
            if source == "queue":
                wait(lambda: served.counts("given") == (0, 0), lambda: served.counts("given"))
        finally:
            served.kill()
            kill(directory, "worker", "driver", "java")
            wait_gone(directory)
    is_right = sorted(found) == list(range(sent))
    print(f"{cycles} kills, {in_work} of them in the middle of the work")
    print(f"{sent} sent, {len(found)} came, {len(set(found))} different: {'right' if is_right else 'WRONG'}")
    return 0 if is_right and in_work else 1


def send(served: QueueBroker, source: str, rows: list[dict[str, int]]) -> None:
    """As clients of the source do."""
    if source == "topic":
        send_json(served, "given", rows)
    else:
        served.publish("given", [json.dumps(row).encode() for row in rows])


def wait_moment(served: Served, sent: int, chance: random.Random) -> int:
    """Mostly until some of what was sent last has come and some has not; answers how many have come in all."""
    if chance.random() < WORKING_SHARE:
        wanted = sent - RECORDS_PER_CYCLE + chance.randrange(1, RECORDS_PER_CYCLE // 2)
        wait(lambda: len(ids(served, "taken")) >= wanted, lambda: facts(served, "copy"))
        time.sleep(chance.uniform(0, LATER_S))
    else:
        time.sleep(chance.uniform(0, START_S))
    return len(ids(served, "taken"))


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
