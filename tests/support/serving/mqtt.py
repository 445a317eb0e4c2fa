"""The real program with MQTT's listeners, Kafka and AMQP."""

import contextlib
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
        listeners = {"mqtt": self.mqtt, "mqtt-websocket": self.websocket, "kafka": self.kafka, "amqp": self.amqp}
        super().__init__(data_dir, {**listeners, "http": "off"}, *ANY_DISK, *options)

    @property
    def mqtt_port(self) -> int:
        return int(self.mqtt.rpartition(":")[2])

    @property
    def websocket_port(self) -> int:
        return int(self.websocket.rpartition(":")[2])


def serving(data_dir: Path, *options: str) -> contextlib.AbstractContextManager[MqttBroker]:
    """A broker until the end of the block."""
    return closing(MqttBroker(data_dir, *options))
