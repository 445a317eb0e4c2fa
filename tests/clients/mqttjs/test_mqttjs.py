"""MQTT.js, unmodified: over TCP and over WebSocket, in every version that it speaks."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.serving.mqtt import MqttBroker

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

SCENARIO = Path(__file__).parent / "scenario.js"
PATIENCE_S = 60
COUNT = 60


@pytest.mark.parametrize("transport", ["mqtt", "ws"])
@pytest.mark.parametrize("version", ["4", "5"])
def test_it_publishes_and_listens(
    broker: MqttBroker, environment: dict[str, str], transport: str, version: str
) -> None:
    address = broker.mqtt if transport == "mqtt" else f"{broker.websocket}/mqtt"
    done = subprocess.run(
        ["node", str(SCENARIO), f"{transport}://{address}", version],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    heard = json.loads(done.stdout)
    assert heard[0] == ["js/kept", "retained", 1, True]
    expected = [[f"js/{number % 3}", str(number), number % 3, False] for number in range(COUNT)]
    assert sorted(heard[1 : COUNT + 1]) == sorted(expected)
