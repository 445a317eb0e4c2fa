"""The real program with MQTT's listeners, Kafka and AMQP."""

import base64
import contextlib
import json
import urllib.request
from pathlib import Path

from tests.support.serving.lasting_broker import LastingBroker, closing
from tests.support.serving.ports import lasting_address

ANY_DISK = ("--set", "storage.disk_hard_mark=0.99")
"""The tests may run on a disk that others have nearly filled."""


class MqttBroker(LastingBroker):
    """Keeps its addresses over restarts."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.mqtt, self.websocket = lasting_address(), lasting_address()
        self.kafka, self.amqp = lasting_address(), lasting_address()
        self.management = lasting_address()
        listeners = {
            "management": self.management,
            "mqtt": self.mqtt,
            "mqtt-websocket": self.websocket,
            "kafka": self.kafka,
            "amqp": self.amqp,
        }
        super().__init__(data_dir, {**listeners, "http": "off"}, *ANY_DISK, *options)

    @property
    def mqtt_port(self) -> int:
        return int(self.mqtt.rpartition(":")[2])

    def administer(self, path: str, content: dict[str, str]) -> None:
        """Set something by the management API."""
        authorization = base64.b64encode(b"guest:guest").decode()
        headers = {"Authorization": f"Basic {authorization}", "Content-Type": "application/json"}
        address = f"http://{self.management}/api/{path}"
        with urllib.request.urlopen(
            urllib.request.Request(address, json.dumps(content).encode(), headers, method="PUT")
        ) as answer:
            assert answer.status in (201, 204)

    @property
    def websocket_port(self) -> int:
        return int(self.websocket.rpartition(":")[2])


def serving(data_dir: Path, *options: str) -> contextlib.AbstractContextManager[MqttBroker]:
    """A broker until the end of the block."""
    return closing(MqttBroker(data_dir, *options))
