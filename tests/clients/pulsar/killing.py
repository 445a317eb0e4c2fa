"""One producer and one consumer through kills of the broker: nothing that was acknowledged is lost, nothing is there twice."""

import random
import threading
import time
from pathlib import Path

import pulsar
from pulsar import ConsumerType, InitialPosition, MessageId

from tests.clients.pulsar.admin_client import ask
from tests.support.serving.pulsar import serving

PATIENCE_MS, EMPTY_MS = 60_000, 1_500
ROUND_S = (0.05, 0.4)
PAUSE_S = 0.002


def run(data_dir: Path, kills: int, seed: int = 1) -> int:
    """Answers how many messages went through."""
    chance = random.Random(seed)
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    with serving(data_dir) as broker:
        client = pulsar.Client(broker.url, operation_timeout_seconds=60, logger=quiet)
        producer = client.create_producer(
            "t",
            producer_name="p",
            batching_enabled=True,
            batching_max_publish_delay_ms=3,
            send_timeout_millis=0,
            block_if_queue_full=True,
        )
        policy = "admin/v2/persistent/public/default/t/deduplicationEnabled"
        assert ask(broker, "POST", policy, body=True) is None
        consumer = client.subscribe(
            "t", "s", consumer_type=ConsumerType.Shared, initial_position=InitialPosition.Earliest
        )
        stopping = threading.Event()
        received: set[bytes] = set()
        sent: list[int] = []
        refused: list[object] = []

        def publish() -> None:
            number = 0
            while not stopping.is_set():
                number += 1
                producer.send_async(
                    b"%d" % number, lambda result, _: result == pulsar.Result.Ok or refused.append(result)
                )
                sent.append(number)
                time.sleep(PAUSE_S)
            producer.flush()

        def consume() -> None:
            while not stopping.is_set() or len(received) < len(sent):
                try:
                    one = consumer.receive(100)
                except pulsar.Timeout:
                    continue
                received.add(one.data())
                consumer.acknowledge(one)

        threads = [threading.Thread(target=publish), threading.Thread(target=consume)]
        for thread in threads:
            thread.start()
        for _ in range(kills):
            time.sleep(chance.uniform(*ROUND_S))
            broker.restart()
        stopping.set()
        for thread in threads:
            thread.join(PATIENCE_MS / 1_000)
            assert not thread.is_alive()
        assert not refused
        reader = client.create_reader("t", MessageId.earliest)
        found = [reader.read_next(PATIENCE_MS).data() for _ in sent]
        assert found == [b"%d" % number for number in sent]
        assert not reader.has_message_available()
        consumer.close()
        broker.restart()
        again = client.subscribe("t", "s", consumer_type=ConsumerType.Shared)
        try:
            raise AssertionError(f"{again.receive(EMPTY_MS).data()!r} comes again")
        except pulsar.Timeout:
            pass
        client.close()
        return len(sent)
