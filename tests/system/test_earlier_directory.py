"""A data directory that an earlier version left behind is opened and read back, by clients and by `mainstem log`."""

import json
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.serving.program import ANY_PORT, running

ARCHIVE = Path(__file__).parents[1] / "vectors" / "data_directory.tar.xz"
PATIENCE_S = 30.0

pytestmark = pytest.mark.system


class Earlier:
    """The directory, served."""

    def __init__(self, directory: Path, addresses: dict[str, list[str]]) -> None:
        self.directory = directory
        self.expected: dict[str, Any] = json.loads((directory / "expected.json").read_text())
        self.kafka, self.amqp, self.http = (addresses[name][0] for name in ("kafka", "amqp", "http"))

    def records(self, topic: str, partition: int, **settings: Any) -> list[Any]:
        """All of a partition, up to its end."""
        consumer = Consumer(
            {"bootstrap.servers": self.kafka, "group.id": "look", "enable.partition.eof": True, **settings}
        )
        consumer.assign([TopicPartition(topic, partition, 0)])
        found = []
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{topic} does not end"
            if message.error():
                consumer.close()
                return found
            found.append(message)

    def messages(self, queue: str) -> list[str]:
        """All of a queue, acknowledged."""
        host, port = self.amqp.rsplit(":", 1)
        with pika.BlockingConnection(pika.ConnectionParameters(host, int(port))) as connection:
            channel = connection.channel()
            found = []
            while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
                found.append(got[2].decode())
            return found


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parent = tmp_path_factory.mktemp("earlier")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(parent, filter="data")
    return parent / "data"


@pytest.fixture(scope="module")
def earlier(directory: Path) -> Iterator[Earlier]:
    with running(directory, "--listen", ANY_PORT) as program:
        yield Earlier(directory, program.wait_ready())


def test_it_is_whole_before_anybody_opens_it(tmp_path: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    command = [sys.executable, "-m", "mainstem.cli", "log", "verify", "--data-dir", str(tmp_path / "data")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_records_keys_headers_and_places(earlier: Earlier) -> None:
    count = earlier.expected["records"]
    for partition in range(3):
        found = earlier.records("plain", partition)
        assert [message.offset() for message in found] == list(range(count // 3))
        for message, number in zip(found, range(partition, count, 3), strict=True):
            assert message.value() == f"value {number} ".encode() * 20
            assert message.key() == b"key %d" % number
            assert message.headers() == [("n", str(number).encode()), ("none", None)]


def test_the_last_value_of_each_key_is_there(earlier: Earlier) -> None:
    count = earlier.expected["records"]
    last = {message.key(): message.value() for message in earlier.records("keys", 0)}
    wanted = {b"k%d" % (number % 10): b"%d" % number for number in range(count)}
    assert last == {**wanted, b"k9": None}


def test_transactions_that_were_aborted_stay_so(earlier: Earlier) -> None:
    found = earlier.records("paid", 0, **{"isolation.level": "read_committed"})
    assert [message.value().decode() for message in found] == earlier.expected["paid"]


def test_offsets_of_groups(earlier: Earlier) -> None:
    consumer = Consumer({"bootstrap.servers": earlier.kafka, "group.id": "readers"})
    (place,) = consumer.committed([TopicPartition("plain", 1)], PATIENCE_S)
    consumer.close()
    assert place.offset == earlier.expected["committed"]


@pytest.mark.parametrize("queue", ["work", "dead", "urgent"])
def test_queues_hold_what_was_not_settled(earlier: Earlier, queue: str) -> None:
    assert earlier.messages(queue) == earlier.expected[queue]


def test_what_is_due_later_still_waits(earlier: Earlier) -> None:
    with urllib.request.urlopen(f"http://{earlier.http}/v1/schedules?topic=plain") as reply:
        document = json.load(reply)
    assert [one["value"] for one in document["schedules"]] == ["later"]
