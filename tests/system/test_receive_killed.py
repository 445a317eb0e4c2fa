"""A broker that is killed between receive and settle: every message that was not settled is given again, none is lost."""

import json
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.serving.program import PATIENCE_S, Program

pytestmark = pytest.mark.system

MESSAGES, AT_ONCE, KILLS = 60, 7, 4
Q = "/v1/queues/work"


def _start(data_dir: Path) -> tuple[Program, str]:
    program = Program(data_dir, "--listen", "http=127.0.0.1:0")
    return program, program.wait_ready()["http"][0]


def _ask(address: str, path: str, content: Any) -> Any:
    request = urllib.request.Request(
        f"http://{address}{path}", json.dumps(content).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
        return json.loads(reply.read())


def _receive(address: str, count: int = AT_ONCE) -> list[Any]:
    found: list[Any] = _ask(address, f"{Q}/receive", {"max": count, "lease_ms": 600_000})["messages"]
    return found


def test_what_was_not_settled_is_given_again(tmp_path: Path) -> None:
    program, address = _start(tmp_path / "data")
    _ask(address, "/v1/queues", {"name": "work"})
    _ask(address, "/v1/topics/work/records", {"records": [{"value": number} for number in range(MESSAGES)]})
    accepted: list[int] = []
    try:
        for _ in range(KILLS):
            done, left = _receive(address), _receive(address)
            assert not {one["place"] for one in done} & {one["place"] for one in left}
            answer = _ask(address, f"{Q}/settle", {"accept": [one["receipt"] for one in done]})
            assert answer == {"done": len(done), "unknown": []}
            accepted += [one["value"] for one in done]
            program.signal(signal.SIGKILL)
            program.wait_end()
            program, address = _start(tmp_path / "data")
            stale = [one["receipt"] for one in left]
            answer = _ask(address, f"{Q}/settle", {"accept": stale})
            assert answer == {"done": 0, "unknown": stale}, "receipts of an earlier run are good no more"
        rest: list[int] = []
        while messages := _receive(address, 100):
            rest += [one["value"] for one in messages]
        assert sorted(accepted + rest) == list(range(MESSAGES)), "each once: none lost, none that was settled again"
    finally:
        program.process.kill()
        program.wait_end()
