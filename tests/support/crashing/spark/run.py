"""A Spark query and its broker, killed at named points: both are started again until the query is done."""

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tests.support.crashing.spark.killing import PLAN
from tests.support.serving.served import Served

ROOT = Path(__file__).parents[4]
PATIENCE_S = 300
"""Bound of every wait: Spark takes a minute to start on a machine that has other things to do."""
ANSWER_S = 30
STARTS_MAX = 200

AnyRun = TypeVar("AnyRun", bound="KilledQuery")


class KilledQuery:
    """One checkpoint and one broker. Both outlive their processes."""

    def __init__(self, directory: Path, job: str, served: Served) -> None:
        self.directory = directory
        self.served = served
        self.broker_kills = 0
        self.driver_kills = 0
        self._job = job
        self._plan = directory / "plan.json"
        self._broker_pid = directory / "broker.pid"
        self._note_broker()
        self._closing = threading.Event()
        self._guard = threading.Thread(target=self._keep_broker, daemon=True)
        self._guard.start()

    def __enter__(self: AnyRun) -> AnyRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._guard.join()
        self.served.kill()

    def _note_broker(self) -> None:
        self._broker_pid.write_text(str(self.served.program.process.pid))

    def _keep_broker(self) -> None:
        """Whenever the broker is killed, start it again on the same data."""
        while not self._closing.wait(0.02):
            if self.served.program.process.poll() is not None:
                self.broker_kills += 1
                self.served.restart()
                self._note_broker()

    @property
    def kills(self) -> int:
        return self.driver_kills + self.broker_kills

    def plan(self, kills: Mapping[str, str]) -> None:
        """By point and batch: who is killed there."""
        entry = {"kills": dict(kills), "driver": str(self.directory / "driver.pid"), "broker": str(self._broker_pid)}
        self._plan.write_text(json.dumps(entry))

    def start(self, argument: object) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            PLAN: str(self._plan),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        (self.directory / "driver.pid").unlink(missing_ok=True)
        with (self.directory / "job.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", self._job, self.served.kafka, str(self.directory), str(argument)],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def live(self, argument: object) -> bool:
        """Start the query once. Answers whether it came to its own end."""
        return self.wait(self.start(argument))

    def live_until_done(self, argument: object, is_done: Callable[[], bool] = lambda: True) -> None:
        """Start the query until it has come to its own end, and that was enough."""
        for _ in range(STARTS_MAX):
            if self.live(argument) and is_done():
                return
        raise AssertionError(f"not finished after {STARTS_MAX} starts\n{self.log()}")

    def wait(self, process: subprocess.Popen[bytes]) -> bool:
        """Until the query ends. Answers whether it came to its own end."""
        try:
            status = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"it hangs\n{self.log()}") from None
        assert status in (0, -9), f"ended with {status}\n{self.log()}"
        self.driver_kills += status != 0
        return status == 0

    def kill_driver(self, process: subprocess.Popen[bytes]) -> None:
        """Whatever it is doing. It has started Java when it has written its process ids."""
        deadline = time.monotonic() + PATIENCE_S
        file = self.directory / "driver.pid"
        while not (file.exists() and file.read_text().count(" ") == 1):
            assert process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)
        for pid in file.read_text().split():
            os.kill(int(pid), 9)
        process.wait()
        self.driver_kills += 1

    def ask(self, path: str) -> Any:
        """Over HTTP; asked again while the broker is away."""
        return self.ask_until(lambda: self._get(path))

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://{self.served.http}{path}", timeout=ANSWER_S) as response:
            return json.load(response)

    def ask_until(self, question: Callable[[], Any]) -> Any:
        """Until the broker is there to answer."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return question()
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def published_batch(self) -> int:
        """The last batch that the broker has published; -1 for none."""
        return max((sink["batch"] for sink in self.ask("/v1/stages")["sinks"]), default=-1)

    def log(self) -> str:
        return (self.directory / "job.log").read_text(errors="replace")[-5_000:]


def command_line(name: str, cycles: int) -> argparse.ArgumentParser:
    """What every crash test of Spark takes."""
    parser = argparse.ArgumentParser(prog=f"python -m {name}")
    parser.add_argument("--cycles", type=int, default=cycles)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    return parser


def kill_until(
    run: KilledQuery,
    count: int,
    cycle: Callable[[], list[str]],
    last: Callable[[], list[str]],
    progress: Callable[[], str],
) -> int:
    """Cycles until there were `count` kills, then a last one without any. Answers the exit status.

    A cycle answers its faults, in a few words each.
    """
    started = time.monotonic()
    faults: list[str] = []
    while run.kills < count and not faults:
        faults = cycle()
        print(
            f"{run.driver_kills} kills of the driver, {run.broker_kills} of the broker; {progress()}, "
            f"{time.monotonic() - started:.0f} s",
            flush=True,
        )
    if not faults:
        run.plan({})
        faults = last()
    if faults:
        print("\n".join(faults[:20]), file=sys.stderr)
        return 1
    print("every row was there once", flush=True)
    return 0
