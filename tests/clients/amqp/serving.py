"""The real program with AMQP and Kafka, and what tests do with channels of pika."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.support.serving.lasting_broker import LastingBroker, closing
from tests.support.serving.ports import lasting_address

PATIENCE_S = 30
ANY_DISK = ("--set", "storage.disk_hard_mark=0.99")
"""The tests may run on a disk that others have nearly filled."""


class Broker(LastingBroker):
    """Serves AMQP and Kafka."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.address, self.kafka_address = lasting_address(), lasting_address()
        listeners = {"amqp": self.address, "kafka": self.kafka_address, "http": "off"}
        super().__init__(data_dir, listeners, *ANY_DISK, *options)

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self.address}/"

    def connect(self, **options: Any) -> pika.BlockingConnection:
        parameters = pika.ConnectionParameters(
            host="127.0.0.1", port=self.port, blocked_connection_timeout=PATIENCE_S, **options
        )
        try:
            return pika.BlockingConnection(parameters)
        except ValueError as error:
            # So pika puts it when the broker is killed between its connect and its look at the socket.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise

    @contextlib.contextmanager
    def channel(self, **options: Any) -> Iterator[BlockingChannel]:
        """On a connection of its own."""
        connection = self.connect(**options)
        try:
            yield connection.channel()
        finally:
            if connection.is_open:
                connection.close()

    def has_queue(self, name: str) -> bool:
        with self.channel() as channel:
            try:
                channel.queue_declare(name, passive=True)
            except ChannelClosedByBroker:
                return False
            return True


def serving(data_dir: Path, *options: str) -> contextlib.AbstractContextManager[Broker]:
    """A broker until the end of the block."""
    return closing(Broker(data_dir, *options))


def take(channel: BlockingChannel, queue: str, count: int, **options: Any) -> list[tuple[Any, Any, bytes]]:
    """`count` deliveries; fails when they do not come."""
    found: list[tuple[Any, Any, bytes]] = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=PATIENCE_S, **options):
        assert method is not None, f"{len(found)} of {count} came"
        found.append((method, properties, body))
        if len(found) == count:
            return found
    raise AssertionError(f"cancelled after {len(found)} of {count}")


def until(channel: BlockingChannel, condition: Callable[[], bool]) -> None:
    """Let the connection work until something is so."""
    for _ in range(PATIENCE_S * 20):
        if condition():
            return
        channel.connection.process_data_events(0.05)
    raise AssertionError("it never became so")


def depth(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)
