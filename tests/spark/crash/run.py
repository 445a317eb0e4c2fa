"""Runs the query to its end however often it is killed, and counts what came out."""

import time
from collections import Counter
from pathlib import Path

from mainstem.sdk.client import Client
from tests.spark.crash.job import ROWS_PER_BATCH
from tests.support.clients.committed import committed_values
from tests.support.crashing.spark.killing import POINTS
from tests.support.crashing.spark.run import PATIENCE_S, KilledQuery
from tests.support.crashing.spark.session import TOPIC
from tests.support.serving.served import Served


def at_every_point(target: str) -> dict[str, str]:
    """A kill for each point, each in a batch of its own."""
    return {f"{point}/{batch}": target for batch, point in enumerate(POINTS, 1)}


class SinkCrashRun(KilledQuery):
    """A query that writes batch after batch to one topic."""

    def __init__(self, directory: Path, module: str = "mainstem.cli") -> None:
        super().__init__(directory, "tests.spark.crash.job", Served(directory / "data", module=module))
        with Client(self.served.kafka) as client:
            client.cluster([TOPIC], create=True)

    def finish(self, last_batch: int) -> None:
        """Start the query as often as it takes to come to its last batch."""
        self.live_until_done(last_batch)

    def live_until(self, batch: int, seconds: float) -> None:
        """Start the query, and kill its driver `seconds` after it has published a batch."""
        process = self.start(batch + 1_000)
        deadline = time.monotonic() + PATIENCE_S
        while self.published_batch() < batch:
            assert process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)
        time.sleep(seconds)
        self.kill_driver(process)

    def _wait_for_due(self) -> None:
        """Until what was scheduled is published."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            page = self.ask(f"/v1/schedules?topic={TOPIC}")
            if not page["schedules"] and page["next"] is None:
                return
            assert time.monotonic() < deadline, "what is due does not come"
            time.sleep(0.05)

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
