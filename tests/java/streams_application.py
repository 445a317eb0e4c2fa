"""Processes of a Kafka Streams application (`programs/OrdersByRegion.java`), and what it should come to."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer

from tests.java.distribution import JVM_OPTIONS, KAFKA_VERSION, fetch_jars

PROGRAM = Path(__file__).parent / "programs" / "OrdersByRegion.java"
ARTIFACTS = (("org.apache.kafka", "kafka-streams", KAFKA_VERSION), ("org.slf4j", "slf4j-nop", "1.7.36"))
PATIENCE_S = 120
CUSTOMERS, REGIONS = 40, 7


class Instance:
    """One process."""

    def __init__(self, address: str, application: str, home: Path, port: int, guarantee: str) -> None:
        jars = fetch_jars(f"{KAFKA_VERSION}-streams", ARTIFACTS)
        self.endpoint = f"localhost:{port}"
        arguments = (address, application, str(home / str(port)), guarantee, "2", self.endpoint)
        self._process = subprocess.Popen(
            ["java", *JVM_OPTIONS, "-cp", ":".join(map(str, jars)), str(PROGRAM), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._said: list[str] = []
        self._lines: queue.Queue[str] = queue.Queue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line.strip())
        self._lines.put("")

    def wait_for(self, beginning: str) -> str:
        """The next line that begins like this."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            try:
                line = self._lines.get(timeout=1)
            except queue.Empty:
                continue
            self._said.append(line)
            if line.startswith(beginning):
                return line
            assert not line.startswith(("fault", "state ERROR")), self._said
            assert line or self._process.poll() is None, self._said
        raise AssertionError(f"no {beginning!r} in {self._said}")

    def where_is(self, region: str) -> tuple[str, int]:
        """The endpoint at which the sum of a region can be asked for, and how many others keep a copy."""
        self._write(region)
        _, _, endpoint, copies = self.wait_for(f"at {region} ").split()
        return endpoint, int(copies)

    def end(self) -> None:
        """Leave the group, and wait for that."""
        self._write("end")
        self.wait_for("ended")
        self._finish()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """As if its machine had gone."""
        self._process.kill()
        self._finish()

    def _finish(self) -> None:
        assert self._process.stdin is not None
        self._process.wait(PATIENCE_S)
        self._process.stdin.close()
        self._reading.join()


class Instances:
    """Processes of applications at one broker."""

    def __init__(self, address: str, home: Path) -> None:
        self._address = address
        self._home = home
        self._started: list[Instance] = []

    def start(self, application: str, guarantee: str, run: str = "first") -> Instance:
        """Another process, with a state of its own."""
        instance = Instance(self._address, application, self._home / run, 7001 + len(self._started), guarantee)
        self._started.append(instance)
        return instance

    def kill_all(self) -> None:
        """Those that are left."""
        for instance in self._started:
            instance.kill()


class Orders:
    """What goes in, and what must come out: the count and the sum of each region."""

    def __init__(self, address: str, application: str) -> None:
        self._address = address
        self._application = application
        # Java's partitioner, so that customers meet the orders that the application itself puts in partitions.
        self._producer = Producer({"bootstrap.servers": address, "partitioner": "murmur2_random", "linger.ms": 5})
        self._orders = 0
        self.expected: dict[str, tuple[int, int]] = {}

    def send_customers(self) -> None:
        """Who is from where; before any order."""
        for customer in range(CUSTOMERS):
            self._send("customers", f"c{customer}", _region(customer))
        assert self._producer.flush(PATIENCE_S) == 0

    def send(self, count: int) -> None:
        """Further orders."""
        for order in range(self._orders, self._orders + count):
            customer = order * 7 % CUSTOMERS
            self._send("orders", f"o{order}", f"c{customer}:{order}")
            number, total = self.expected.get(_region(customer), (0, 0))
            self.expected[_region(customer)] = (number + 1, total + order)
        self._orders += count
        assert self._producer.flush(PATIENCE_S) == 0

    def _send(self, topic: str, key: str, value: str) -> None:
        self._producer.produce(f"{self._application}.{topic}", key=key, value=value)

    def await_totals(self, runs: int = 1) -> None:
        """Wait for the result; each region must have counted one by one, none twice, in each run of the application."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._address,
                "group.id": f"{self._application}.check-{runs}-{self._orders}",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe([f"{self._application}.totals"])
        found: dict[str, list[tuple[int, int]]] = {}
        wanted = sum(count for count, _ in self.expected.values()) * runs
        until = time.monotonic() + PATIENCE_S
        while sum(map(len, found.values())) < wanted:
            assert time.monotonic() < until, _last(found)
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                count, total = message.value().decode().split(":")
                found.setdefault(message.key().decode(), []).append((int(count), int(total)))
        consumer.close()
        assert _last(found) == self.expected
        for region, totals in found.items():
            assert [count for count, _ in totals] == [*range(1, self.expected[region][0] + 1)] * runs


def _region(customer: int) -> str:
    return f"r{customer % REGIONS}"


def _last(found: dict[str, list[tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    return {region: totals[-1] for region, totals in found.items()}
