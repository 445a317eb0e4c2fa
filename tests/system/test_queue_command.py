"""`mainstem queue` against a real broker: what is acquired is shown, and released; other consumers have it then."""

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mainstem.cli.app import app
from mainstem.sdk.acquisitions import Acquisitions, Subscribed
from mainstem.sdk.client import Client
from mainstem.sdk.operations import TopicPartition, produce
from mainstem.wire.record_batch import Record, encode_batch
from tests.support.serving.served import Served

pytestmark = [pytest.mark.system]


def test_what_is_acquired_is_shown_and_released(tmp_path: Path) -> None:
    served = Served(tmp_path / "data")
    try:
        with Client(served.kafka) as client:
            client.cluster(["t"], create=True)
            at = TopicPartition("t", 0)
            now_ms = time.time_ns() // 1_000_000  # retention takes what is older than a week
            records = [Record(delta, now_ms, None, value) for delta, value in enumerate((b"a", b"b"))]
            produce(client.leader(at), at, encode_batch(records))
        calls, subscribed = Acquisitions(served.http, timeout_s=10), Subscribed("g", ["t"])
        taken = calls.acquire(subscribed, records_max=10, lease_ms=60_000, starting="earliest")
        assert taken is not None
        calls.pin(taken)
        served.restart()
        shown = run(served, "acquisitions", "--json", "--subscription", "g")
        assert [(one["id"], one["condition"], one["records"]) for one in map(json.loads, shown)] == [
            (taken, "pinned", 2)
        ]
        (line,) = run(served, "acquisitions")
        assert line.startswith(f"{taken}  pinned ")
        assert calls.acquire(subscribed, records_max=10, lease_ms=60_000) is None
        assert run(served, "release", taken, "--yes") == ["2 records of g are free"]
        assert run(served, "acquisitions") == []
        assert len(run(served, "acquisitions", "--all")) == 1
        assert calls.acquire(subscribed, records_max=10, lease_ms=60_000) is not None
        failed = CliRunner().invoke(app, ["queue", "release", "nothing", "--yes", "--http", served.http])
        assert (failed.exit_code, "no acquisition nothing" in failed.output) == (1, True)
    finally:
        served.kill()


def run(served: Served, *words: str) -> list[str]:
    """What a command prints."""
    done = CliRunner().invoke(app, ["queue", *words, "--http", served.http])
    assert done.exit_code == 0, done.output
    return done.output.splitlines()
