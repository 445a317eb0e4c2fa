"""KafkaJS: an implementation of the protocol of its own, with versions and habits of its own."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.serving.kafka import PATIENCE_S, Broker

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

SCENARIO = Path(__file__).parent / "scenario.js"
COUNT = 200


def run(name: str, broker: Broker, environment: dict[str, str]) -> Any:
    done = subprocess.run(
        ["node", str(SCENARIO), name, broker.address],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_gzip_is_read_by_a_group(broker: Broker, environment: dict[str, str]) -> None:
    found = run("group", broker, environment)
    assert sorted(found["values"]) == sorted(f"gzip-{index}" for index in range(COUNT))
    assert found["partitions"] == [0, 1, 2]
    assert found["traces"] == ["abc"]
    assert found["committed"] == COUNT


def test_topics_come_and_go(broker: Broker, environment: dict[str, str]) -> None:
    assert run("admin", broker, environment) == {
        "created": True,
        "again": False,
        "listed": True,
        "partitions": 4,
        "retention": "3600000",
        "offsets": 4,
        "brokers": 1,
        "left": False,
    }


def test_transactions(broker: Broker, environment: dict[str, str]) -> None:
    found = run("transactions", broker, environment)
    assert sorted(found["values"]) == sorted(f"committed-{index}" for index in range(COUNT))
    assert found["offset"] == "7"
