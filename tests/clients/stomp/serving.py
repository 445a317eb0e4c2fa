"""The real program with STOMP, AMQP and Kafka, and what tests do with stomp.py."""

import contextlib
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import stomp
from stomp.utils import Frame

from tests.support.serving.lasting_broker import LastingBroker, closing
from tests.support.serving.ports import lasting_address

PATIENCE_S = 30
ANY_DISK = ("--set", "storage.disk_hard_mark=0.99")
"""The tests may run on a disk that others have nearly filled."""
CLASSES = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}


class Broker(LastingBroker):
    """Keeps its addresses over restarts."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.stomp, self.web, self.amqp, self.kafka = (lasting_address() for _ in range(4))
        listeners = {"stomp": self.stomp, "stomp-websocket": self.web, "amqp": self.amqp, "kafka": self.kafka}
        super().__init__(data_dir, {**listeners, "http": "off"}, *ANY_DISK, *options)

    def place(self, address: str) -> tuple[str, int]:
        host, _, port = address.rpartition(":")
        return host, int(port)


class Listener(stomp.ConnectionListener):  # type: ignore[misc]
    """What came, for the thread of the test."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Frame] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()
        self.errors: queue.Queue[Frame] = queue.Queue()

    def on_message(self, frame: Frame) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: Frame) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame: Frame) -> None:
        self.errors.put(frame)


@contextlib.contextmanager
def connected(broker: Broker, version: str = "1.2", **options: Any) -> Iterator[tuple[Any, Listener]]:
    """A connection with stomp.py's defaults, and what it hears."""
    connection = CLASSES[version]([broker.place(broker.stomp)], **options)
    listener = Listener()
    connection.set_listener("test", listener)
    connection.connect(wait=True)
    try:
        yield connection, listener
    finally:
        if connection.is_connected():
            connection.disconnect()


def serving(data_dir: Path, *options: str) -> contextlib.AbstractContextManager[Broker]:
    """A broker until the end of the block."""
    return closing(Broker(data_dir, *options))
