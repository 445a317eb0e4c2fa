"""Runs the query to its end however often it is killed, and counts what came out."""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from mainstem.sdk.client import Client
from tests.spark.crash.job import ROWS_PER_BATCH, TOPIC
from tests.spark.crash.killing import PLAN
from tests.support.clients.committed import committed_values
from tests.support.serving.served import Served

ROOT = Path(__file__).parents[3]
PATIENCE_S = 300
"""Bound of every wait: Spark takes a minute to start on a machine that has other things to do."""
ANSWER_S = 30
STARTS_MAX = 200


class CrashRun:
    """One checkpoint, one topic, one broker; all of them outlive their processes."""

    JOB = "tests.spark.crash.job"

    def __init__(self, directory: Path, module: str = "mainstem.cli") -> None:
        self.directory = directory
        self._plan = directory / "plan.json"
        self._broker_pid = directory / "broker.pid"
        self.served = self.serve(directory / "data", module)
        self.note_broker()
        self._closing = threading.Event()
        self._guard = threading.Thread(target=self._keep_broker, daemon=True)
        self._guard.start()
        self.broker_kills = 0
        self.driver_kills = 0
        with Client(self.served.kafka) as client:
            client.cluster([TOPIC], create=True)

    def serve(self, data_dir: Path, module: str) -> Served:
        return Served(data_dir, module=module)

    def __enter__(self) -> "CrashRun":
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._guard.join()
        self.served.kill()

    def note_broker(self) -> None:
        self._broker_pid.write_text(str(self.served.program.process.pid))

    def _keep_broker(self) -> None:
        """Whenever the broker is killed, start it again on the same data."""
        while not self._closing.wait(0.02):
            if self.served.program.process.poll() is not None:
                self.broker_kills += 1
                self.served.restart()
                self.note_broker()

    def plan(self, kills: Mapping[str, str]) -> None:
        """By point and batch: who is killed there."""
        entry = {"kills": dict(kills), "driver": str(self.directory / "driver.pid"), "broker": str(self._broker_pid)}
        self._plan.write_text(json.dumps(entry))

    def start(self, last_batch: object) -> subprocess.Popen[bytes]:
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
                [
                    sys.executable,
                    "-m",
                    self.JOB,
                    self.served.kafka,
                    str(self.directory),
                    str(last_batch),
                ],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def finish(self, last_batch: int) -> None:
        """Start the query as often as it takes to come to its last batch."""
        for _ in range(STARTS_MAX):
            process = self.start(last_batch)
            if self._wait(process) == 0:
                return
            self.driver_kills += 1
        raise AssertionError(f"not finished after {STARTS_MAX} starts\n{self.log()}")

    def live(self, last_batch: int) -> None:
        """Start the query once; it ends as planned, or at its last batch."""
        if self._wait(self.start(last_batch)):
            self.driver_kills += 1

    def live_until(self, batch: int, seconds: float) -> None:
        """Start the query, and kill its driver so long after it has published a batch."""
        process = self.start(batch + 1_000)
        deadline = time.monotonic() + PATIENCE_S
        while self.published_batch() < batch:
            assert process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)
        time.sleep(seconds)
        self.kill_driver(process)

    def published_batch(self) -> int:
        """The last batch that the broker has published; -1 for none. Asked again while the broker is away."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(f"http://{self.served.http}/v1/stages", timeout=ANSWER_S) as response:
                    return max((sink["batch"] for sink in json.load(response)["sinks"]), default=-1)
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def _wait_for_due(self) -> None:
        """Until what was scheduled is published."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < deadline, "what is due does not come"
            try:
                url = f"http://{self.served.http}/v1/schedules?topic={TOPIC}"
                with urllib.request.urlopen(url, timeout=ANSWER_S) as response:
                    page = json.load(response)
                    if not page["schedules"] and page["next"] is None:
                        return
            except OSError:
                pass
            time.sleep(0.05)

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        try:
            status = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"it hangs\n{self.log()}") from None
        assert status in (0, -9), f"ended with {status}\n{self.log()}"
        return status

    def kill_driver(self, process: subprocess.Popen[bytes]) -> None:
        """At whatever it is doing; it has started Java when it has told its process id."""
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

    def log(self) -> str:
        return (self.directory / "job.log").read_text(errors="replace")[-5_000:]

    def faults(self, last_batch: int) -> list[str]:
        """What is wrong with the topic, in a few words each; nothing, if each row came out once."""
        self._wait_for_due()
        with Client(self.served.kafka) as client:
            counts = Counter(int(value) for value in committed_values(client, TOPIC))
        batches = max(counts, default=-1) // ROWS_PER_BATCH + 1
        expected = range(batches * ROWS_PER_BATCH)
        faults = [f"{number} is missing" for number in expected if number not in counts]
        faults += [f"{number} came {times} times" for number, times in counts.items() if times > 1]
        if batches <= last_batch:
            faults.append(f"{batches} batches, of {last_batch + 1} at least")
        return faults
