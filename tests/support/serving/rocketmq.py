"""The real program with RocketMQ's listeners, Kafka and AMQP."""

import contextlib
from pathlib import Path

from tests.support.serving.lasting_broker import LastingBroker, closing
from tests.support.serving.ports import lasting_address

ANY_DISK = ("--set", "storage.disk_hard_mark=0.99")
"""The tests may run on a disk that others have nearly filled."""


class RocketmqBroker(LastingBroker):
    """Keeps its addresses over restarts."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.names, self.broker, self.grpc = lasting_address(), lasting_address(), lasting_address()
        self.kafka, self.amqp = lasting_address(), lasting_address()
        listeners = {"rocketmq-names": self.names, "rocketmq-broker": self.broker, "rocketmq": self.grpc}
        listeners |= {"kafka": self.kafka, "amqp": self.amqp}
        super().__init__(data_dir, {**listeners, "http": "off"}, *ANY_DISK, *options)


def serving(data_dir: Path, *options: str) -> contextlib.AbstractContextManager[RocketmqBroker]:
    """A broker until the end of the block."""
    return closing(RocketmqBroker(data_dir, *options))
