"""Runs the query until nothing is left, however often it is killed, and counts what became of every number."""

import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Producer

from mainstem.sdk.client import Client
from mainstem.wire.kafka import ApiKey
from tests.spark.crash.job import TOPIC
from tests.spark.crash.run import PATIENCE_S, STARTS_MAX, CrashRun
from tests.spark.queue_mode.crash.job import NAME
from tests.support.clients.committed import committed_values
from tests.support.clients.confluent import create
from tests.support.serving.queue_broker import QueueBroker

DEAD = "dlq.work"


class QueueCrashRun(CrashRun):
    """One checkpoint, one queue or topic, one broker; all of them outlive their processes."""

    JOB = "tests.spark.queue_mode.crash.job"
    served: QueueBroker

    def __init__(self, directory: Path, source: str = "queue") -> None:
        super().__init__(directory)
        self.source = source
        self.sent = 0
        if source == "queue":
            self.served.declare(DEAD)
            self.served.declare(NAME, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD})
        else:
            create(self.served, f"{NAME}.in", 2)
            create(self.served, DEAD)
            self._configure(2, DEAD, {"errors.deadletterqueue.group.enable": "true"})
            letters = {"errors.deadletterqueue.topic.name": DEAD, "errors.deadletterqueue.copy.record.enable": "true"}
            self._configure(32, NAME, {**letters, "share.delivery.count.limit": "10"})

    def serve(self, data_dir: Path, module: str) -> QueueBroker:
        return QueueBroker(data_dir, module=module)

    def _configure(self, kind: int, name: str, wanted: dict[str, str]) -> None:
        configs = [{"name": key, "config_operation": 0, "value": value} for key, value in wanted.items()]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        with Client(self.served.kafka) as client:
            body = {"resources": [resource], "validate_only": False}
            (answer,) = client.anywhere().request(ApiKey.INCREMENTAL_ALTER_CONFIGS, body).responses
            assert not answer.error_code, answer.error_message

    def send(self, count: int) -> None:
        numbers = [b"%d" % number for number in range(self.sent, self.sent + count)]
        if self.source == "queue":
            self.served.publish(NAME, numbers)
        else:
            producer = Producer({"bootstrap.servers": self.served.kafka})
            for at, number in enumerate(numbers):
                producer.produce(f"{NAME}.in", number, partition=at % 2)
            assert producer.flush(PATIENCE_S) == 0
        self.sent += count

    def start_query(self):
        return self.start(self.source)

    def finish(self, last_batch: object = None) -> None:
        """Start the query as often as it takes until nothing is left: what a killed one had acquired is free a little later."""
        for _ in range(STARTS_MAX):
            if self._wait(self.start_query()):
                self.driver_kills += 1
            elif self.left() == 0:
                return
        raise AssertionError(f"not finished after {STARTS_MAX} starts\n{self.log()}")

    def strike(self, target: str, seconds: float) -> None:
        """Start the query, and kill somebody so long after it has begun to acquire, whatever is done then."""
        begun, process = self.passed("acquired"), self.start_query()
        deadline = time.monotonic() + PATIENCE_S
        while self.passed("acquired") == begun and process.poll() is None:
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)
        time.sleep(seconds)
        if target == "driver" and process.poll() is None:
            self.kill_driver(process)
            return
        if target == "broker":
            self.served.program.process.kill()
        if self._wait(process):
            self.driver_kills += 1

    def left(self) -> int:
        """Numbers that are not settled. Asked again while the broker is away."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                if self.source == "queue":
                    return sum(self.served.counts(NAME))
                return int(self.served.get(f"/v1/groups/{NAME}")["lag_messages"])
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def faults(self, last_batch: object = None) -> list[str]:
        """What is wrong, in a few words each; nothing, if each number came out once or died once, and none is left."""
        with Client(self.served.kafka) as client:
            out = Counter(int(value) for value in committed_values(client, TOPIC))
            dead = Counter(int(value) for value in committed_values(client, DEAD))
        faults: list[str] = []
        for number in range(self.sent):
            expected = (0, 1) if number % 7 == 0 else (1, 0)
            if (out[number], dead[number]) != expected:
                faults.append(f"{number} came out {out[number]} times and died {dead[number]} times")
        faults += [f"{number} was never sent" for number in {*out, *dead} if number >= self.sent]
        if self.left():
            faults.append(f"{self.left()} are left")
        held = [one for one in self.served.conditions(NAME) if one in ("leased", "pinned")]
        return [*faults, *(f"an acquisition is {condition}" for condition in held)]

    def passed(self, point: str) -> int:
        """How often the source has come to one of its points."""
        counter = Path(f"{self._plan}.{point}")
        return int(counter.read_text()) if counter.exists() else 0
