"""A log goes into the shared store and back, with all that is in it."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.loads import AmqpLoad, KafkaLoad, check_amqp, check_kafka, stored_records
from tests.support.serving.lasting_broker import closing
from tests.support.serving.ports import lasting_address
from tests.support.serving.served import Served
from tests.support.serving.shared_store import ClusterBroker, SharedStore, shared_store

SMALL_FILES = ("--set", "storage.wal_file_bytes=262144", "--set", "storage.adopt_share=0.1")


@pytest.fixture(scope="module")
def store() -> Iterator[SharedStore]:
    with shared_store() as store:
        yield store


def move(store: SharedStore, to: str, data_dir: Path) -> tuple[int, str]:
    words = [sys.executable, "-m", "mainstem.cli", "storage", "move", "--to", to, "--data-dir", str(data_dir)]
    words += [*store.options, "--set", "cluster.inline_bytes_max=2000", *SMALL_FILES]
    environment = os.environ | store.environment
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100, env=environment)
    return done.returncode, done.stdout + done.stderr


def test_a_log_moves_into_a_cluster_and_back(store: SharedStore, tmp_path: Path) -> None:
    amqp = lasting_address()
    with closing(Served(tmp_path / "alone", *SMALL_FILES, listeners={"amqp": amqp})) as broker:
        kafka, messages = KafkaLoad([broker.kafka], "records", size=3_000), AmqpLoad([amqp], "messages")
        while len(kafka.acknowledged) < 1_000 or len(messages.confirmed) < 50:
            time.sleep(0.05)
        kafka.stop()
        messages.stop()
    status, text = move(store, "cluster", tmp_path / "alone")
    assert (status, "moved and verified" in text) == (0, True), text
    files, groups = map(int, re.findall(r"(\d+) files, (\d+) groups", text)[0])
    assert files > 1
    assert groups > 1
    assert "holds a log already" in move(store, "cluster", tmp_path / "alone")[1]

    shared = ClusterBroker(store, tmp_path / "copies", *SMALL_FILES)
    shared.wait_line("ready")
    check_kafka(kafka, stored_records(shared.kafka, "records"))
    assert "end the brokers of the cluster first" in move(store, "directory", tmp_path / "back")[1]
    shared.stop()

    status, text = move(store, "directory", tmp_path / "back")
    assert (status, "moved and verified" in text) == (0, True), text
    with closing(Served(tmp_path / "back", *SMALL_FILES, listeners={"amqp": amqp})) as broker:
        check_kafka(kafka, stored_records(broker.kafka, "records"))
        check_amqp(messages, amqp, "messages")
