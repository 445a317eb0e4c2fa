"""The real program with Pulsar's listeners, Kafka and AMQP."""

import contextlib
from pathlib import Path

from tests.support.serving.lasting_broker import LastingBroker, closing
from tests.support.serving.ports import lasting_address

ANY_DISK = ("--set", "storage.disk_hard_mark=0.99")
"""The tests may run on a disk that others have nearly filled."""


class PulsarServer(LastingBroker):
    """Keeps its addresses over restarts."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.binary, self.admin, self.kafka, self.amqp = (lasting_address() for _ in range(4))
        self.management = lasting_address()
        listeners = {"pulsar": self.binary, "pulsar-admin": self.admin, "kafka": self.kafka, "amqp": self.amqp}
        listeners["management"] = self.management
        super().__init__(data_dir, {**listeners, "http": "off"}, *ANY_DISK, *options)

    @property
    def url(self) -> str:
        return f"pulsar://{self.binary}"


def serving(data_dir: Path, *options: str) -> contextlib.AbstractContextManager[PulsarServer]:
    """A broker until the end of the block."""
    return closing(PulsarServer(data_dir, *options))
