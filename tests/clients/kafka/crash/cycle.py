"""Let clients work for a moment, kill their broker, start it again, look; and again."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from tests.clients.kafka.crash.history import (
    TRANSACTION_PARTITIONS,
    Broken,
    Found,
    History,
    check_offsets,
    check_transaction_offsets,
    check_transactions,
    check_values,
)
from tests.clients.kafka.crash.loads import (
    GROUP,
    MEMBERS,
    SHARE_GROUP,
    TRANSACTIONS,
    VALUE_PARTITIONS,
    VALUES,
    GroupLoad,
    IdempotentLoad,
    Load,
    ShareLoad,
    TransactionalLoad,
)
from tests.support.clients.confluent import begin_at_the_start, create
from tests.support.serving.kafka import PATIENCE_S, QUICK_BEATS, QUICK_GROUPS, QUICK_RETURN, Broker, serving

CYCLES_PER_DIRECTORY = 25
"""Everything is read at the end of each: a directory must not grow for ever."""
PRODUCERS = 2
PROGRESS_MIN = 5
"""Answers that every producer must get between two kills, so that each kill meets all of them at work."""
MORE_SECONDS_MAX = 0.25
TWICE_SHARE = 0.15
"""Of the kills: again, as soon as the broker is ready, when its clients are just coming back."""
GRACE_S = 5
"""For clients to end after something has gone wrong: what they say then is of no interest."""

Between = Callable[[int, Broker], None]
"""Called with the number of the cycle between a kill and the start that follows."""


class CrashTest:
    """One directory after the other, one cycle after the other."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        tell: Callable[[str], None] = lambda text: None,
        between: Between = lambda cycle, broker: None,
    ) -> None:
        self._directory = directory
        self._random = Random(seed)
        self._tell = tell
        self._between = between
        self.acknowledged = 0
        self.transactions = 0
        self.offsets = 0
        self.settled = 0

    def run(self, cycles: int) -> None:
        """Raises Broken, or whatever else goes wrong."""
        for era, first in enumerate(range(0, cycles, CYCLES_PER_DIRECTORY)):
            self._run_era(self._directory / f"node-{era}", min(CYCLES_PER_DIRECTORY, cycles - first))

    def _run_era(self, data_dir: Path, cycles: int) -> None:
        history = History()
        with serving(data_dir, *QUICK_GROUPS, *QUICK_BEATS) as broker:
            create(broker, VALUES, VALUE_PARTITIONS)
            create(broker, TRANSACTIONS, TRANSACTION_PARTITIONS)
            begin_at_the_start(broker, SHARE_GROUP)
            with self._at_work(broker, history) as (producers, members):
                for cycle in range(cycles):
                    self._cycle(cycle, broker, history, producers)
                for load in producers:
                    load.finish()
                values = read_all(broker, VALUES, VALUE_PARTITIONS)
                transactions = read_all(broker, TRANSACTIONS, TRANSACTION_PARTITIONS)
                self._wait_given(history, members, values, transactions)
            check_values(history, values)
            check_transactions(history, transactions)
            movers = [load for load in producers if isinstance(load, TransactionalLoad)]
            check_transaction_offsets(
                transactions,
                {b"%d" % number: committed(broker, load.group).get(0, -1) for number, load in enumerate(movers)},
            )
            check_offsets(history.group_offsets, committed(broker, GROUP))
        self.acknowledged += len(history.acknowledged)
        self.transactions += sum(history.commits.values())
        self.offsets += sum(history.group_offsets.values())
        self.settled += len(history.share_settled)

    @contextlib.contextmanager
    def _at_work(self, broker: Broker, history: History) -> Iterator[tuple[list[Load], list[Load]]]:
        lock = threading.Lock()
        producers: list[Load] = [
            *(IdempotentLoad(broker.address, history, number) for number in range(PRODUCERS)),
            *(
                TransactionalLoad(broker.address, history, number, self._random.randrange(1 << 30))
                for number in range(PRODUCERS)
            ),
        ]
        members: list[Load] = [
            *(GroupLoad(broker.address, history, number, lock) for number in range(MEMBERS)),
            ShareLoad(broker.address, history),
        ]
        loads = [*producers, *members]
        for load in loads:
            load.start()
        try:
            yield producers, members
        except BaseException:
            for load in loads:
                load.stop()
            for load in loads:
                load.join(GRACE_S)
            raise
        for load in loads:
            load.finish()

    def _cycle(self, cycle: int, broker: Broker, history: History, producers: list[Load]) -> None:
        began = time.monotonic()
        wait_progress(producers, PROGRESS_MIN)
        producers[0].join(self._random.random() * MORE_SECONDS_MAX)
        broker.kill()
        self._between(cycle, broker)
        broker.start()
        if self._random.random() < TWICE_SHARE:
            broker.kill()
            broker.start()
        # Members may commit more while the broker is asked, never less.
        answered = dict(history.group_offsets)
        check_offsets(answered, committed(broker, GROUP))
        told = f"{len(history.acknowledged)} values, {sum(history.commits.values())} transactions, offsets {answered}"
        told += f", {len(history.share_settled)} settled"
        self._tell(f"cycle {cycle}: {told}, {time.monotonic() - began:.2f} s")

    def _wait_given(self, history: History, members: list[Load], values: Found, transactions: Found) -> None:
        """Until the groups were given all there is, or nothing more comes."""
        wanted_values, wanted_transactions = (
            {value for entries in found.values() for _, value in entries} for found in (values, transactions)
        )
        end = time.monotonic() + PATIENCE_S
        while not (
            wanted_values <= history.group_values
            and wanted_values <= history.share_values
            and wanted_transactions <= history.group_transactions
        ):
            if time.monotonic() > end or any(load.failure for load in members):
                return
            members[0].join(0.05)


def wait_progress(loads: list[Load], count: int) -> None:
    """Until each has got so many more answers."""
    wanted = [load.progress + count for load in loads]
    end = time.monotonic() + PATIENCE_S
    for load, progress in zip(loads, wanted, strict=True):
        while load.progress < progress:
            if load.failure is not None:
                raise Broken(f"{load.name}: {load.failure!r}") from load.failure
            if time.monotonic() > end:
                raise Broken(f"{load.name} is not answered")
            load.join(0.01)


def committed(broker: Broker, group: str) -> dict[int, int]:
    """By partition of the topic of values; those without an offset are left out."""
    asker = Consumer({"bootstrap.servers": broker.address, "group.id": group, **QUICK_RETURN})
    places = [TopicPartition(VALUES, index) for index in range(VALUE_PARTITIONS)]
    end = time.monotonic() + PATIENCE_S
    try:
        while True:
            try:
                found = asker.committed(places, timeout=5)
            except KafkaException as error:
                if time.monotonic() > end:
                    raise Broken(f"group {group}: {error}") from error
            else:
                return {place.partition: place.offset for place in found if place.offset >= 0}
    finally:
        asker.close()


def read_all(broker: Broker, topic: str, partitions: int) -> Found:
    """All that a reader of what is committed is given, from the beginning to the end of each partition."""
    reader = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **QUICK_RETURN,
        }
    )
    reader.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    found: dict[int, list[tuple[int, bytes]]] = {index: [] for index in range(partitions)}
    ended: set[int] = set()
    end = time.monotonic() + PATIENCE_S
    try:
        while len(ended) < partitions:
            if time.monotonic() > end:
                raise Broken(f"{topic}: partitions {ended} were read to their end, the others never")
            for message in reader.consume(1000, 0.1):
                partition, error = message.partition(), message.error()
                assert partition is not None
                if error is None:
                    offset = message.offset()
                    assert offset is not None
                    found[partition].append((offset, message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
                else:
                    raise Broken(f"{topic}: {error}")
    finally:
        reader.close()
    return found
