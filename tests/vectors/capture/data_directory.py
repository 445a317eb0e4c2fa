"""Writes `data_directory.tar.xz`: a data directory as an earlier version left it when it was killed.

    python tests/vectors/capture/data_directory.py INTERPRETER

INTERPRETER is the Python of the checkout that writes the directory. The clients are those of this environment.
Small files of the write-ahead log have runs, state runs, key tables and an unmerged end in few kilobytes.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path

import pika
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

ARCHIVE = Path(__file__).parents[1] / "data_directory.tar.xz"
SETTINGS = {
    "MAINSTEM_STORAGE_WAL_FILE_BYTES": str(64 << 10),
    "MAINSTEM_STORAGE_WAL_SPARE_FILES": "1",
    "MAINSTEM_STORAGE_GROUP_BYTES_MAX": str(32 << 10),
    "MAINSTEM_STORAGE_TIER_RUNS_MAX": "2",
    "MAINSTEM_STORAGE_RETENTION_CHECK_MS": "200",
}
RECORDS = 600
DUE_MS = 4_000_000_000_000
"""When the delayed message is due: in the year 2096."""


def _serve(interpreter: str, directory: Path) -> tuple[subprocess.Popen[str], dict[str, str]]:
    command = [interpreter, "-m", "mainstem.cli", "serve", "--data-dir", str(directory)]
    for name in ("http", "kafka", "amqp", "management"):
        command += ["--listen", f"{name}=127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ) | SETTINGS)
    assert process.stdout is not None
    return process, dict(re.findall(r"(\w+)=(\S+)", process.stdout.readline()))


def _write_kafka(address: str) -> dict[str, object]:
    admin = AdminClient({"bootstrap.servers": address})
    topics = [
        NewTopic("plain", 3, 1),
        NewTopic("keys", 1, 1, config={"cleanup.policy": "compact"}),
        NewTopic("paid", 1, 1),
    ]
    for future in admin.create_topics(topics).values():
        future.result()
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
    for number in range(RECORDS):
        headers = [("n", str(number).encode()), ("none", None)]
        producer.produce("plain", f"value {number} ".encode() * 20, b"key %d" % number, number % 3, headers=headers)
        producer.produce("keys", None if number == RECORDS - 1 else b"%d" % number, b"k%d" % (number % 10))
        if number % 50 == 49:
            producer.flush()
    producer.flush()
    paid = Producer({"bootstrap.servers": address, "transactional.id": "till"})
    paid.init_transactions()
    for number in range(6):
        paid.begin_transaction()
        paid.produce("paid", b"%d" % number)
        paid.commit_transaction() if number % 2 == 0 else paid.abort_transaction()
    consumer = Consumer({"bootstrap.servers": address, "group.id": "readers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("plain", 1, 77)], asynchronous=False)
    consumer.close()
    return {"records": RECORDS, "paid": ["0", "2", "4"], "committed": 77}


def _write_amqp(address: str) -> dict[str, object]:
    host, port = address.rsplit(":", 1)
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("events", "topic", durable=True)
        channel.queue_declare("dead", durable=True)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        channel.queue_declare("work", durable=True, arguments=arguments)
        channel.queue_declare("urgent", durable=True, arguments={"x-max-priority": 3})
        channel.queue_bind("work", "events", "orders.#")
        persistent = pika.BasicProperties(delivery_mode=2, headers={"a": 1}, content_type="text/plain")
        for number in range(100):
            channel.basic_publish("events", "orders.new", b"order %d" % number, persistent)
        for number in range(6):
            channel.basic_publish(
                "", "urgent", b"%d" % number, pika.BasicProperties(delivery_mode=2, priority=number % 3)
            )
        for number in range(30):
            method, _, _ = channel.basic_get("work")
            if number % 10 == 0:
                channel.basic_reject(method.delivery_tag, requeue=False)
            else:
                channel.basic_ack(method.delivery_tag)
    return {
        "work": [f"order {n}" for n in range(30, 100)],
        "dead": [f"order {n}" for n in (0, 10, 20)],
        "urgent": list("251403"),
    }


def _write_schedule(address: str) -> None:
    document = {"target": {"topic": "plain"}, "value": "later", "due_ms": DUE_MS}
    head = {"content-type": "application/json"}
    request = urllib.request.Request(f"http://{address}/v1/schedules", json.dumps(document).encode(), head)
    with urllib.request.urlopen(request) as reply:
        assert reply.status in (200, 201), reply.read()


def main() -> None:
    """Write it."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "data"
        process, addresses = _serve(sys.argv[1], directory)
        expected = _write_kafka(addresses["kafka"]) | _write_amqp(addresses["amqp"])
        time.sleep(3)  # what is full is merged
        _write_schedule(addresses["http"])
        process.kill()
        process.wait()
        (directory / "expected.json").write_text(json.dumps(expected))
        with tarfile.open(ARCHIVE, "w:xz") as archive:
            archive.add(directory, "data")
        for path in sorted(directory.rglob("*")):
            print(path.relative_to(directory), path.stat().st_size)
        print(ARCHIVE.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
