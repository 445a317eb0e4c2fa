"""Brokers of a cluster among faults: rounds by a seed, each with a shard of its own, checked at its end.

    python -m tests.cluster.chaos --rounds 20 --seconds 60 --seed 1 --results FILE

Rounds that FILE has already are not run again: a run that was ended goes on where it was. Ends with 1 when a round was not clean.
With --broken RULE the brokers break a rule, and the run ends with 1 when no round notices.
"""

import argparse
import contextlib
import json
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from tests.cluster.broken_serve import RULES
from tests.cluster.chaos_proxy import ChaosProxy, to_path, to_port
from tests.cluster.loads import AmqpLoad, KafkaLoad, check_amqp, check_kafka, stored_records
from tests.support.serving.shared_store import ClusterBroker, SharedStore, shared_store

LEASE_S = 3.0
CALM_S = (1.0, 5.0)
"""Between two faults."""


class Transactions:
    """Pairs of records in two partitions, all or nothing."""

    def __init__(self, addresses: list[str], name: str) -> None:
        self.committed: set[int] = set()
        self.sent = 0
        self._addresses = ",".join(addresses)
        self._name = name
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.is_set():
            producer = Producer(
                {
                    "bootstrap.servers": self._addresses,
                    "transactional.id": self._name,
                    "transaction.timeout.ms": 20_000,
                    "reconnect.backoff.max.ms": 500,
                    "log_level": 0,
                }
            )
            with contextlib.suppress(KafkaException):
                producer.init_transactions(30)
                while not self._end.is_set():
                    self._send(producer)

    def _send(self, producer: Producer) -> None:
        number, self.sent = self.sent, self.sent + 1
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(self._name, b"%d" % number, partition=partition)
        producer.commit_transaction(30)
        self.committed.add(number)

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    def check(self, address: str) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "check",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        consumer.subscribe([self._name])
        seen: Counter[tuple[int, int]] = Counter()
        ended: set[int] = set()
        until = time.monotonic() + 60
        while len(ended) < 2:
            assert time.monotonic() < until, "the committed records cannot be read"
            message = consumer.poll(0.2)
            if message is None:
                continue
            partition = message.partition()
            if message.error() is not None:
                ended.add(partition or 0)
            else:
                seen[int(message.value() or b""), partition or 0] += 1
        consumer.close()
        torn = [n for n, _ in seen if seen[n, 0] != seen[n, 1]]
        assert not torn, f"{len(torn)} transactions are torn: {torn[:3]}"
        lost = [number for number in self.committed if not seen[number, 0]]
        assert not lost, f"{len(lost)} of {len(self.committed)} committed transactions are lost: {lost[:3]}"
        twice = [place for place, count in seen.items() if count > 1]
        assert not twice, f"{len(twice)} records of transactions are there twice"


class Round:
    """Two brokers, each with its own way to PostgreSQL and to the object store."""

    def __init__(self, store: SharedStore, directory: Path, seed: int, broken: str | None) -> None:
        self.random = Random(seed)
        self.store = store
        self.shard = f"round-{seed}"
        self.faults: Counter[str] = Counter()
        self.databases = [ChaosProxy(to_path(store.database_socket)) for _ in range(2)]
        self.objects = [ChaosProxy(to_port(store.weed.port)) for _ in range(2)]
        self.brokers = []
        for number in range(2):
            port = self.objects[number].port
            environment = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"} | ({"BROKEN": broken} if broken else {})
            broker = ClusterBroker(
                store,
                directory / f"broker-{number}",
                *("--set", f"cluster.lease_ms={int(LEASE_S * 1000)}", "--set", f"cluster.shard={self.shard}"),
                *("--set", "cluster.inline_bytes_max=2000", "--set", "storage.wal_file_bytes=1048576"),
                *("--set", "cluster.grace_ms=60000", "--set", "kafka.partitions_default=2"),
                database=f"postgresql://postgres@127.0.0.1:{self.databases[number].port}/postgres",
                environment=environment,
                module="tests.cluster.broken_serve" if broken else "mainstem.cli",
            )
            self.brokers.append(broker)
            broker.wait_line("ready" if number == 0 else "standby")

    def run(self, seconds: float) -> dict[str, Any]:
        kafka_addresses = [broker.kafka for broker in self.brokers]
        loads = [KafkaLoad(kafka_addresses, f"records-{n}", size) for n, size in enumerate((20, 3_000))]
        amqp = AmqpLoad([broker.amqp for broker in self.brokers], "messages")
        transactions = Transactions(kafka_addresses, "pairs")
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                time.sleep(self.random.uniform(*CALM_S))
                self.disturb()
                self.revive()
        finally:
            amqp.stop()
            for load in loads:
                load.end()
            transactions.stop()
        for load in loads:
            load.stop(120)
        address = self.settled_address()
        for number, load in enumerate(loads):
            check_kafka(load, stored_records(address, f"records-{number}"))
        transactions.check(address)
        check_amqp(amqp, next(b.amqp for b in self.brokers if b.kafka == address), "messages")
        return {
            "faults": dict(self.faults),
            "acknowledged": sum(len(load.acknowledged) for load in loads),
            "confirmed": len(amqp.confirmed),
            "transactions": len(transactions.committed),
        }

    def disturb(self) -> None:
        number = self.random.randrange(2)
        broker, database, objects = self.brokers[number], self.databases[number], self.objects[number]
        kind = self.random.choice(
            ["kill", "kill", "pause", "pause", "stop", "hand over", "cut database", "black database", "lost replies",
             "slow database", "cut objects", "black objects", "slow objects", "lost object replies"]
        )  # fmt: skip
        self.faults[kind] += 1
        pause = self.random.uniform(0.5, 2.5 * LEASE_S)
        match kind:
            case "kill":
                broker.kill()
            case "pause":
                broker.program.signal(signal.SIGSTOP)
                time.sleep(pause)
                broker.program.signal(signal.SIGCONT)
            case "stop":
                broker.program.signal(signal.SIGTERM)
            case "hand over":
                self.store.ask_hand_over(self.shard)
            case "cut database":
                database.cut()
            case "cut objects":
                objects.cut()
            case _:
                proxy = database if kind in ("black database", "lost replies", "slow database") else objects
                proxy.mode = "black" if "black" in kind else "slow" if "slow" in kind else "lose replies"
                time.sleep(pause)
                proxy.mode = "pass"

    def revive(self) -> None:
        for broker in self.brokers:
            if not broker.is_running:
                broker.program.process.communicate()
                broker.start()

    def settled_address(self) -> str:
        """Of a broker, when one owns the shard again."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            self.revive()
            for broker in self.brokers:
                with contextlib.suppress(Exception):
                    stored_records(broker.kafka, "records-0")
                    return broker.kafka
            time.sleep(0.5)
        raise AssertionError("nobody owns the shard within a minute")

    def end(self) -> None:
        for broker in self.brokers:
            if broker.is_running:
                broker.program.signal(signal.SIGCONT)
                broker.kill()
        for proxy in (*self.databases, *self.objects):
            proxy.stop()


def run_round(store: SharedStore, seed: int, seconds: float, broken: str | None) -> dict[str, Any]:
    with TemporaryDirectory() as directory:
        one = Round(store, Path(directory), seed, broken)
        try:
            return {"seed": seed, "clean": True, **one.run(seconds)}
        except Exception:  # noqa: BLE001 - whatever it is, the round is not clean, and the next one has its own seed
            return {"seed": seed, "clean": False, "error": traceback.format_exc()[-2000:], "faults": dict(one.faults)}
        finally:
            one.end()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=None)
    parser.add_argument("--broken", choices=RULES)
    options = parser.parse_args()
    known = []
    if options.results is not None and options.results.exists():
        known = [json.loads(line) for line in options.results.read_text(encoding="utf-8").splitlines()]
    results = list(known)
    with shared_store() as store:
        for seed in range(options.seed, options.seed + options.rounds):
            if any(result["seed"] == seed for result in known):
                continue
            result = run_round(store, seed, options.seconds, options.broken)
            results.append(result)
            print(json.dumps(result), flush=True)
            if options.results is not None:
                with options.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(result) + "\n")
            if options.broken and not result["clean"]:
                return 0
    if options.broken:
        return 1
    clean = sum(result["clean"] for result in results)
    print(f"{clean} of {len(results)} rounds are clean, with {sum(sum(r['faults'].values()) for r in results)} faults")
    return 0 if clean == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
