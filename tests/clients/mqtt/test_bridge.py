"""mosquitto as a bridge to the real program: what is published at either end is heard at the other."""

import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.mqtt.devices import PATIENCE_S, Device, Devices
from tests.support.serving.mqtt import MqttBroker
from tests.support.serving.ports import lasting_address

pytestmark = [pytest.mark.conformance, pytest.mark.system, pytest.mark.slow]

PROGRAM = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
CONFIGURATION = """
listener {port} 127.0.0.1
allow_anonymous true
connection bridge
address {address}
topic bridged/# both 1
bridge_protocol_version {version}
"""


@pytest.fixture(params=["mqttv31", "mqttv311"])
def edge(broker: MqttBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of a mosquitto that is a bridge."""
    if PROGRAM is None:
        pytest.skip("mosquitto is not installed")
    port = int(lasting_address().rpartition(":")[2])
    configuration = tmp_path / "mosquitto.conf"
    configuration.write_text(CONFIGURATION.format(port=port, address=broker.mqtt, version=request.param))
    process = subprocess.Popen(
        [PROGRAM, "-v", "-c", str(configuration)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    watch = threading.Timer(PATIENCE_S, process.kill)
    watch.start()
    for line in process.stderr:
        if "Received SUBACK" in line:
            break
    watch.cancel()
    assert process.poll() is None, "the bridge was not let in"
    yield port
    process.terminate()
    process.communicate()


def test_a_bridge_carries_messages_both_ways(devices: Devices, edge: int, name: str) -> None:
    here = devices.device()
    there = Device(edge).connect()
    try:
        here.subscribe("bridged/#", 1)
        there.subscribe("bridged/#", 1)
        there.publish(f"bridged/{name}/up", b"up", 1)
        assert here.hear()[0].payload == b"up"
        assert there.hear()[0].payload == b"up"
        here.publish(f"bridged/{name}/down", b"down", 1)
        assert there.hear()[0].payload == b"down"
    finally:
        there.leave()
