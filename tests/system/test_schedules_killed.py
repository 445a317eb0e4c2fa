"""Schedules of a broker that is killed again and again: nothing acknowledged is forgotten, nothing happens twice."""

import json
import random
import signal
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.support.serving.program import PATIENCE_S, Program, get

CYCLES = 6
LATEST_MS = 4_000


class Scheduling:
    """Schedules records as fast as it is answered, until the broker is gone."""

    def __init__(self, address: str, cycle: int, seed: int) -> None:
        self.acknowledged: list[str] = []
        self.unknown: list[str] = []
        """Sent, and the answer never came."""
        self._address = address
        self._cycle = cycle
        self._random = random.Random(seed)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        number = 0
        while True:
            name = f"{self._cycle}-{number}"
            number += 1
            wish = {"target": {"topic": "q"}, "delay_ms": self._random.randrange(LATEST_MS), "value": name}
            request = urllib.request.Request(
                f"http://{self._address}/v1/schedules",
                json.dumps(wish).encode(),
                {"content-type": "application/json"},
            )
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
                    reply.read()
                self.acknowledged.append(name)
            except (OSError, urllib.error.URLError):
                self.unknown.append(name)
                return


def start(data_dir: Path) -> tuple[Program, str, str]:
    options = ("--listen", "http=127.0.0.1:0", "--listen", "kafka=off", "--listen", "management=127.0.0.1:0")
    program = Program(data_dir, *options)
    ready = program.wait_ready()
    return program, ready["http"][0], ready["management"][0]


def declare(management: str) -> None:
    request = urllib.request.Request(f"http://{management}/api/queues/%2F/q", b'{"durable": true}', method="PUT")
    request.add_header("authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
        assert reply.status in (201, 204)


def delivered(http: str) -> list[str]:
    found: list[str] = []
    path: str | None = "/v1/queues/q/messages?limit=1000"
    while path is not None:
        status, body = get(http, path)
        assert status == 200, body
        page = json.loads(body)
        found += [message["value"] for message in page["messages"]]
        path = page["next"]
    return found


@pytest.mark.system
@pytest.mark.slow
def test_schedules_survive_kills(tmp_path: Path) -> None:
    seeded = random.Random(5)
    acknowledged: list[str] = []
    unknown: list[str] = []
    for cycle in range(CYCLES):
        program, http, management = start(tmp_path / "data")
        declare(management)
        load = Scheduling(http, cycle, cycle)
        time.sleep(seeded.uniform(0.3, 1.5))  # the one place where time itself is what is wanted
        program.signal(signal.SIGKILL)
        program.process.communicate()
        load.thread.join()
        acknowledged += load.acknowledged
        unknown += load.unknown
    program, http, _ = start(tmp_path / "data")
    deadline = time.monotonic() + PATIENCE_S
    while json.loads(get(http, "/v1/schedules?limit=1")[1])["pending"] and time.monotonic() < deadline:
        time.sleep(0.05)
    found = delivered(http)
    program.signal(signal.SIGTERM)
    assert program.wait_end()[0] == 0
    assert len(acknowledged) > 100
    assert len(found) == len(set(found)), "moved once"
    assert set(acknowledged) <= set(found), "never forgotten"
    assert set(found) <= set(acknowledged) | set(unknown)
