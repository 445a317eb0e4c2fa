"""A broker under load from Kafka clients, and all that must hold after kills."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.clients.kafka.crash.history import (
    TRANSACTION_PARTITIONS,
    Found,
    KafkaHistory,
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
    ShareLoad,
    TransactionalLoad,
)
from tests.support.clients.confluent import begin_at_the_start, create, read_all
from tests.support.crashing.broker_victim import BrokerVictim
from tests.support.crashing.load import Load, at_work
from tests.support.crashing.promises import Broken
from tests.support.serving.kafka import PATIENCE_S, QUICK_BEATS, QUICK_GROUPS, QUICK_RETURN, Broker, serving

PRODUCERS = 2


class KafkaVictim(BrokerVictim):
    """Idempotent and transactional producers, a consumer group and a share group."""

    def __init__(self, broker: Broker, chance: Random) -> None:
        history, lock = KafkaHistory(), threading.Lock()
        self._history = history
        self._address = broker.address
        self._movers = [
            TransactionalLoad(broker.address, history, number, chance.randrange(1 << 30)) for number in range(PRODUCERS)
        ]
        self._producers: list[Load] = [
            *(IdempotentLoad(broker.address, history, number) for number in range(PRODUCERS)),
            *self._movers,
        ]
        self._members: list[Load] = [
            *(GroupLoad(broker.address, history, number, lock) for number in range(MEMBERS)),
            ShareLoad(broker.address, history),
        ]
        self.loads = [*self._producers, *self._members]
        super().__init__(broker, self._producers)

    def check_running(self) -> str:
        history = self._history
        # Members may commit more while the broker is asked, never less.
        answered = dict(history.group_offsets)
        check_offsets(answered, committed(self._address, GROUP))
        return (
            f"{len(history.acknowledged)} values, {sum(history.commits.values())} transactions, offsets {answered}, "
            f"{len(history.share_settled)} settled"
        )

    def verify(self) -> Mapping[str, int]:
        history = self._history
        for load in self._producers:
            load.finish()
        values = read_all(self._address, VALUES, VALUE_PARTITIONS)
        transactions = read_all(self._address, TRANSACTIONS, TRANSACTION_PARTITIONS)
        self._wait_given(values, transactions)
        for load in self._members:
            load.finish()
        check_values(history, values)
        check_transactions(history, transactions)
        moved = {b"%d" % number: self._moved(load.group) for number, load in enumerate(self._movers)}
        check_transaction_offsets(transactions, moved)
        check_offsets(history.group_offsets, committed(self._address, GROUP))
        return {
            "acknowledged": len(history.acknowledged),
            "transactions": sum(history.commits.values()),
            "offsets": sum(history.group_offsets.values()),
            "settled": len(history.share_settled),
        }

    def _moved(self, group: str) -> int:
        return committed(self._address, group).get(0, -1)

    def _wait_given(self, values: Found, transactions: Found) -> None:
        """Until the groups were given everything, or nothing more comes."""
        history, members = self._history, self._members
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


@contextlib.contextmanager
def kafka_at_work(data_dir: Path, chance: Random) -> Iterator[KafkaVictim]:
    """A broker on an empty directory, and its clients."""
    with serving(data_dir, *QUICK_GROUPS, *QUICK_BEATS) as broker:
        create(broker, VALUES, VALUE_PARTITIONS)
        create(broker, TRANSACTIONS, TRANSACTION_PARTITIONS)
        begin_at_the_start(broker, SHARE_GROUP)
        victim = KafkaVictim(broker, chance)
        with at_work(victim.loads):
            yield victim


def committed(address: str, group: str) -> dict[int, int]:
    """By partition of the topic of values; those without an offset are left out."""
    asker = Consumer({"bootstrap.servers": address, "group.id": group, **QUICK_RETURN})
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
