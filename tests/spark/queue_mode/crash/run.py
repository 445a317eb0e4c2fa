"""Runs the query until nothing is left, however often it is killed, and counts what became of every number."""

import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Producer

from mainstem.sdk.client import Client
from mainstem.wire.kafka import ApiKey
from tests.spark.queue_mode.crash.job import NAME
from tests.support.clients.committed import committed_values
from tests.support.clients.confluent import create
from tests.support.crashing.spark.run import PATIENCE_S, KilledQuery
from tests.support.crashing.spark.session import TOPIC
from tests.support.serving.queue_broker import QueueBroker

DEAD = "dlq.work"


class QueueCrashRun(KilledQuery):
    """One checkpoint, one queue or topic, one broker; all of them outlive their processes."""

    served: QueueBroker

    def __init__(self, directory: Path, source: str = "queue") -> None:
        super().__init__(directory, "tests.spark.queue_mode.crash.job", QueueBroker(directory / "data"))
        with Client(self.served.kafka) as client:
            client.cluster([TOPIC], create=True)
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

    def finish(self) -> None:
        """Start the query as often as it takes until nothing is left: what a killed one had acquired is free a little later."""
        self.live_until_done(self.source, lambda: self.left() == 0)

    def strike(self, target: str, seconds: float) -> None:
        """Start the query, and kill the target `seconds` after the query has begun to acquire."""
        begun, process = self.passed("acquired"), self.start(self.source)
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
        self.wait(process)

    def left(self) -> int:
        """Numbers that are not settled."""
        if self.source == "queue":
            return int(self.ask_until(lambda: sum(self.served.counts(NAME))))
        return int(self.ask(f"/v1/groups/{NAME}")["lag_messages"])

    def faults(self) -> list[str]:
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
