"""The real program, with an AMQP and a Kafka listener, restarted at will on the same data."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.system.ports import lasting_address
from tests.system.program import Program

PATIENCE_S = 30
ANY_DISK = ("--set", "storage.disk_hard_mark=0.99")
"""The tests may run on a disk that others have nearly filled."""


class Broker:
    """`mainstem serve`. It keeps its ports over restarts, as clients expect of a broker."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self._data_dir = data_dir
        self._options = options
        self.address = lasting_address()
        self.kafka_address = lasting_address()
        self.start()

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self.address}/"

    def start(self) -> None:
        listen = ("--listen", f"amqp={self.address}", "--listen", f"kafka={self.kafka_address}", "--listen", "http=off")
        self.program = Program(self._data_dir, *listen, *ANY_DISK, *self._options)
        self.program.wait_ready()

    def kill(self) -> None:
        """As if the power had gone, for the process."""
        self.program.signal(signal.SIGKILL)
        self.program.process.communicate()

    def stop(self) -> None:
        self.program.signal(signal.SIGTERM)
        status, _, err = self.program.wait_end()
        assert status == 0, err
        assert "Traceback" not in err, err

    def close(self) -> None:
        if self.program.process.poll() is None:
            self.stop()

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


@contextlib.contextmanager
def serving(data_dir: Path, *options: str) -> Iterator[Broker]:
    broker = Broker(data_dir, *options)
    try:
        yield broker
        broker.close()
    finally:
        if broker.program.process.poll() is None:
            broker.program.process.kill()
            broker.program.process.communicate()


def take(channel: BlockingChannel, queue: str, count: int, **options: Any) -> list[tuple[Any, Any, bytes]]:
    """So many deliveries; fails when they do not come."""
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
