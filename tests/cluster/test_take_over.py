"""Two real brokers over PostgreSQL and SeaweedFS: one dies under load, one is paused, one hands over."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.cluster.loads import AmqpLoad, KafkaLoad, check_amqp, check_kafka, stored_records
from tests.support.serving.program import get
from tests.support.serving.shared_store import ClusterBroker, SharedStore, shared_store

LEASE_MS = 2_000
LEASE = ("--set", f"cluster.lease_ms={LEASE_MS}")


@pytest.fixture(scope="module")
def store() -> Iterator[SharedStore]:
    with shared_store() as store:
        yield store


class Pair:
    """Two brokers of one shard."""

    def __init__(self, store: SharedStore, directory: Path, *options: str) -> None:
        shard = ("--set", f"cluster.shard={directory.name.replace('_', '-')[:40].strip('-')}")
        self.first = ClusterBroker(store, directory / "first", *LEASE, *shard, *options)
        self.first.wait_line("ready")
        self.second = ClusterBroker(store, directory / "second", *LEASE, *shard, *options)
        self.second.wait_line("standby")

    @property
    def kafka(self) -> list[str]:
        return [self.first.kafka, self.second.kafka]

    @property
    def amqp(self) -> list[str]:
        return [self.first.amqp, self.second.amqp]

    def end(self) -> None:
        for broker in (self.first, self.second):
            if broker.is_running:
                broker.kill()


@pytest.fixture
def pair(store: SharedStore, tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(store, tmp_path)
    yield pair
    pair.end()


def wait_acknowledged(load: KafkaLoad, more: int) -> None:
    until, wanted = time.monotonic() + 30, len(load.acknowledged) + more
    while len(load.acknowledged) < wanted:
        assert time.monotonic() < until, f"nothing is acknowledged: {load.errors}"
        time.sleep(0.05)


def test_nothing_acknowledged_is_lost_when_owners_die_and_pause(pair: Pair) -> None:
    kafka, amqp = KafkaLoad(pair.kafka, "records"), AmqpLoad(pair.amqp, "messages")
    wait_acknowledged(kafka, 200)
    pair.first.kill()
    begun = time.monotonic()
    pair.second.wait_line("ready")
    assert time.monotonic() - begun < LEASE_MS / 1000 + 10
    wait_acknowledged(kafka, 200)

    pair.first.start()
    pair.first.wait_line("standby")
    pair.second.program.signal(signal.SIGSTOP)
    pair.first.wait_line("ready")
    wait_acknowledged(kafka, 200)
    pair.second.program.signal(signal.SIGCONT)
    # It notices that it was away for too long, ends its connections and stands by; it is not restarted for that.
    pair.second.wait_line("standby")
    wait_acknowledged(kafka, 200)

    begun = time.monotonic()
    pair.first.stop()
    pair.second.wait_line("ready")
    assert time.monotonic() - begun < 10
    wait_acknowledged(kafka, 200)
    kafka.stop()
    amqp.stop()
    assert amqp.confirmed
    check_kafka(kafka, stored_records(pair.second.kafka, "records"))
    check_amqp(amqp, pair.second.amqp, "messages")


def test_a_standby_leads_clients_to_the_owner(pair: Pair) -> None:
    load = KafkaLoad([pair.second.kafka], "led")
    wait_acknowledged(load, 1)
    load.stop()
    check_kafka(load, stored_records(pair.first.kafka, "led"))
    # The owner looks about once a second who else is there.
    admin, until = AdminClient({"bootstrap.servers": pair.second.kafka}), time.monotonic() + 10
    brokers: set[str] = set()
    while brokers != set(pair.kafka):
        assert time.monotonic() < until, brokers
        told = admin.list_topics(timeout=10)
        brokers = {f"{broker.host}:{broker.port}" for broker in told.brokers.values()}
    owner = told.brokers[told.topics["led"].partitions[0].leader]
    assert f"{owner.host}:{owner.port}" == pair.first.kafka

    amqp = AmqpLoad([pair.second.amqp], "led-messages")
    until = time.monotonic() + 20
    while not amqp.confirmed:
        assert time.monotonic() < until
        time.sleep(0.05)
    amqp.stop()
    check_amqp(amqp, pair.first.amqp, "led-messages")

    measured = get(pair.second.http, "/metrics")[1]
    assert "mainstem_cluster_owner 0" in measured
    assert "mainstem_cluster_brokers 2" in measured
    status, text = get(pair.second.http, "/ready")
    assert (status, json.loads(text)) == (503, {"status": "standby"})
    assert get(pair.second.http, "/v1/topics/led") == get(pair.first.http, "/v1/topics/led")  # by a redirect
