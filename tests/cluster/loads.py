"""Clients that send while brokers come and go, and note what was acknowledged."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pika
from confluent_kafka import Message, Producer
from pika.adapters.utils.connection_workflow import AMQPConnectorException

from mainstem.sdk.client import Client
from mainstem.sdk.operations import TopicPartition, receive_fetch, send_fetch
from mainstem.wire.record_batch import batches_in, decode_records, read_header

LATENCY_S = 0.002
AWAY = (pika.exceptions.AMQPError, AMQPConnectorException, OSError)
"""What pika raises when a broker is gone, or does not answer."""
PERSISTENT = pika.BasicProperties(delivery_mode=2)


class KafkaLoad:
    """An idempotent producer. It gives up nothing: a message that timed out would come again under another epoch."""

    def __init__(self, addresses: Sequence[str], topic: str, size: int = 10) -> None:
        self._filler = b"." * size
        self.acknowledged: dict[bytes, int] = {}
        """Value -> offset."""
        self.sent = 0
        self.errors: list[str] = []
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": ",".join(addresses),
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "queue.buffering.max.messages": 2_000,
                "linger.ms": 5,
                "socket.timeout.ms": 10_000,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 2_000,
                "log_level": 0,
            }
        )
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.is_set():
            with contextlib.suppress(BufferError):
                value = b"k-%d-%b" % (self.sent, self._filler)
                self._producer.produce(self._topic, value, partition=0, on_delivery=self._delivered)
                self.sent += 1
            self._producer.poll(LATENCY_S)

    def _delivered(self, error: object, message: Message) -> None:
        value, offset = message.value(), message.offset()
        if error is not None:
            self.errors.append(str(error))
        elif value is not None and offset is not None:
            self.acknowledged[value] = offset

    def end(self) -> None:
        """Send no more."""
        self._end.set()

    def stop(self, seconds: float = 60) -> None:
        """Send no more, and wait for all acknowledgements."""
        self._end.set()
        self._thread.join()
        left = self._producer.flush(seconds)
        assert left == 0, f"{left} records are not acknowledged"


class AmqpLoad:
    """A publisher with confirms that comes back to whichever broker answers."""

    def __init__(self, addresses: Sequence[str], queue: str) -> None:
        self.confirmed: set[bytes] = set()
        self.sent = 0
        self.reconnections = 0
        self._addresses = addresses
        self._queue = queue
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.is_set():
            for address in self._addresses:
                with contextlib.suppress(*AWAY):
                    self._publish(address)
                if self._end.is_set():
                    return
            self.reconnections += 1
            time.sleep(0.1)

    def _publish(self, address: str) -> None:
        with connected(address) as connection:
            channel = connection.channel()
            channel.queue_declare(self._queue, durable=True)
            channel.confirm_delivery()
            while not self._end.is_set():
                body = b"a-%d" % self.sent
                self.sent += 1
                channel.basic_publish("", self._queue, body, PERSISTENT)
                self.confirmed.add(body)

    def stop(self) -> None:
        self._end.set()
        self._thread.join()


@contextlib.contextmanager
def connected(address: str) -> Iterator[pika.BlockingConnection]:
    host, _, port = address.rpartition(":")
    parameters = pika.ConnectionParameters(
        host, int(port), socket_timeout=5, stack_timeout=5, blocked_connection_timeout=5, heartbeat=2
    )
    connection = pika.BlockingConnection(parameters)
    try:
        yield connection
    finally:
        with contextlib.suppress(*AWAY):
            connection.close()


class Stored(NamedTuple):
    """A record as it lies in the log."""

    offset: int
    value: bytes
    identity: tuple[int, int, int]
    """Producer id, epoch and sequence."""
    leader_epoch: int


def stored_records(address: str, topic: str) -> list[Stored]:
    """All records of partition 0, with who sent them. Asks again while the broker is away."""
    at = TopicPartition(topic, 0)
    found: list[Stored] = []
    with Client(address) as client:
        offset = 0
        while True:

            def ask(offset: int = offset) -> object:
                connection = client.leader(at)
                send_fetch(connection, at, offset)
                return receive_fetch(connection, at, offset)

            fetched = client.retrying(ask)
            for position, size in batches_in(fetched.batches):
                header = read_header(fetched.batches, position)
                for number, record in enumerate(decode_records(fetched.batches[position : position + size])):
                    identity = (header.producer_id, header.producer_epoch, header.base_sequence + number)
                    found.append(
                        Stored(header.base_offset + number, bytes(record.value or b""), identity, header.leader_epoch)
                    )
                offset = header.next_offset
            if offset >= fetched.end:
                return found


def check_kafka(load: KafkaLoad, records: Sequence[Stored]) -> None:
    """Everything acknowledged is there, where it was said to be, once."""
    assert not load.errors, load.errors[:3]
    assert [record.offset for record in records] == list(range(len(records))), "offsets are not dense"
    by_offset = {record.offset: record.value for record in records}
    wrong = [value for value, offset in load.acknowledged.items() if by_offset.get(offset) != value]
    assert not wrong, f"{len(wrong)} of {len(load.acknowledged)} acknowledged records are lost: {wrong[:3]}"
    # librdkafka itself may send a record again under another epoch: that is no fault of the broker.
    again = [identity for identity, count in Counter(r.identity for r in records).items() if count > 1]
    assert not again, f"{len(again)} records are stored twice: {again[:3]}"


def check_amqp(load: AmqpLoad, address: str, queue: str) -> None:
    """Every confirmed message can be taken."""
    found: set[bytes] = set()
    with connected(address) as connection:
        channel = connection.channel()
        for method, _, body in channel.consume(queue, auto_ack=False, inactivity_timeout=2):
            if method is None:
                break
            found.add(body)
            channel.basic_ack(method.delivery_tag)
    missing = load.confirmed - found
    assert not missing, f"{len(missing)} of {len(load.confirmed)} confirmed messages are lost: {sorted(missing)[:3]}"
