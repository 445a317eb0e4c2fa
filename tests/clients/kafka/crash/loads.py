"""Real clients that go on for as long as they may, whatever happens to their broker, and note what they are told."""

from __future__ import annotations

import itertools
import threading
from random import Random

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, ShareConsumer, TopicPartition

from tests.clients.kafka.crash.history import TRANSACTION_PARTITIONS, KafkaHistory
from tests.support.crashing.load import Load
from tests.support.crashing.promises import Broken
from tests.support.serving.kafka import PATIENCE_S, QUICK_RETURN

VALUES = "values"
VALUE_PARTITIONS = 4
TRANSACTIONS = "transactions"
GROUP = "readers"
SHARE_GROUP = "sharers"
QUICK_RETRY = {"retry.backoff.ms": 10, "retry.backoff.max.ms": 100}
BURST = 10
PAUSE_S = 0.005
ABORT_SHARE = 0.25
MEMBERS = 2
REBALANCE_CODES = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError._NO_OFFSET,
    KafkaError._STATE,
    KafkaError._WAIT_COORD,
}


class ClientLoad(Load):
    """A client of librdkafka."""

    def __init__(self, address: str, history: KafkaHistory, name: str) -> None:
        super().__init__(name)
        self._address = address
        self._history = history


class IdempotentLoad(ClientLoad):
    """A producer that never stops, and repeats what it got no answer for, as librdkafka does by itself."""

    def __init__(self, address: str, history: KafkaHistory, number: int) -> None:
        super().__init__(address, history, f"idempotent producer {number}")
        self._number = number
        self._refused: list[KafkaError] = []

    def work(self) -> None:
        settings = {"enable.idempotence": True, "linger.ms": 1, "message.timeout.ms": 120_000}
        producer = Producer({"bootstrap.servers": self._address, **settings, **QUICK_RETRY, **QUICK_RETURN})
        sent = 0
        while self.is_wanted and not self._refused:
            for _ in range(BURST):
                value = b"%d-%d" % (self._number, sent)
                producer.produce(VALUES, value, partition=sent % VALUE_PARTITIONS, on_delivery=self._note)
                sent += 1
            producer.poll(PAUSE_S)
        if producer.flush(PATIENCE_S) or self._refused:
            raise Broken(f"{sent} sent, {self.progress} acknowledged, refused: {self._refused[:3]}")

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused.append(error)
            return
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert value is not None
        assert partition is not None
        assert offset is not None
        self._history.acknowledged[value] = (partition, offset)
        self.progress += 1


class TransactionalLoad(ClientLoad):
    """One transaction after the other over several partitions, each with the offset of a group; some are aborted."""

    def __init__(self, address: str, history: KafkaHistory, number: int, seed: int) -> None:
        super().__init__(address, history, f"transactional producer {number}")
        self.group = f"source-{number}"
        self._number = number
        self._random = Random(seed)

    def work(self) -> None:
        member = Consumer({"bootstrap.servers": self._address, "group.id": self.group, **QUICK_RETURN})
        group = member.consumer_group_metadata()
        producer = self._begin()
        for number in itertools.count():
            if not self.is_wanted:
                break
            name = b"%d-%d" % (self._number, number)
            to_commit = self._random.random() >= ABORT_SHARE
            if not to_commit:
                self._history.aborts.add(name)
            try:
                producer.begin_transaction()
                for partition in range(TRANSACTION_PARTITIONS):
                    producer.produce(TRANSACTIONS, name, partition=partition)
                producer.send_offsets_to_transaction([TopicPartition(VALUES, 0, number)], group, PATIENCE_S)
                if to_commit:
                    self._history.commits[name] = False
                    producer.commit_transaction(PATIENCE_S)
                    self._history.commits[name] = True
                else:
                    producer.flush(PATIENCE_S)
                    producer.abort_transaction(PATIENCE_S)
                self.progress += 1
            except KafkaException:
                # Unknown whether it is committed. Another producer of the same id ends what this one left open.
                producer = self._begin()
        member.close()

    def _begin(self) -> Producer:
        settings = {"transactional.id": f"mover-{self._number}", "linger.ms": 1}
        producer = Producer({"bootstrap.servers": self._address, **settings, **QUICK_RETRY, **QUICK_RETURN})
        producer.init_transactions(PATIENCE_S)
        return producer


class GroupLoad(ClientLoad):
    """A member of a group: commits behind what it was given, and takes an offset for committed when it is told so."""

    def __init__(self, address: str, history: KafkaHistory, number: int, lock: threading.Lock) -> None:
        super().__init__(address, history, f"member {number}")
        self._lock = lock
        """Of the history's group fields: several members write them."""

    def work(self) -> None:
        settings = {
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            # Long: who was away for longer joins anew, and after every kill the group waits as long again for who he was.
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": 50,
            "topic.metadata.refresh.interval.ms": 1_000,
        }
        consumer = Consumer({"bootstrap.servers": self._address, **settings, **QUICK_RETURN})
        consumer.subscribe([VALUES, TRANSACTIONS])
        try:
            while self.is_wanted:
                messages = [message for message in consumer.consume(500, 0.05) if message.error() is None]
                if messages:
                    self._take(messages)
                    self._commit(consumer)
        finally:
            consumer.close()

    def _take(self, messages: list[Message]) -> None:
        with self._lock:
            for message in messages:
                given = self._history.group_values if message.topic() == VALUES else self._history.group_transactions
                given.add(message.value() or b"")
        self.progress += len(messages)

    def _commit(self, consumer: Consumer) -> None:
        """Until it is answered; an offset of which nothing was heard may be committed or not."""
        try:
            answered = consumer.commit(asynchronous=False)
        except KafkaException as error:
            if not (error.args[0].retriable() or error.args[0].code() in REBALANCE_CODES):
                raise
            return
        with self._lock:
            for place in answered or []:
                if place.topic == VALUES and place.error is None and place.offset >= 0:
                    furthest = self._history.group_offsets.get(place.partition, -1)
                    self._history.group_offsets[place.partition] = max(furthest, place.offset)


class ShareLoad(ClientLoad):
    """The one member of a share group: acknowledges what it was given, and notes what it is given in spite of that."""

    def __init__(self, address: str, history: KafkaHistory) -> None:
        super().__init__(address, history, "share member")

    def work(self) -> None:
        consumer = ShareConsumer({"bootstrap.servers": self._address, "group.id": SHARE_GROUP, **QUICK_RETURN})
        consumer.subscribe([VALUES])
        try:
            while self.is_wanted:
                given: dict[int, set[bytes]] = {}
                for message in consumer.poll(0.1):
                    if message.error() is None:
                        given.setdefault(message.partition(), set()).add(message.value() or b"")
                if given:
                    self._settle(consumer, given)
        finally:
            consumer.close()

    def _settle(self, consumer: ShareConsumer, given: dict[int, set[bytes]]) -> None:
        """What is not answered for may come again."""
        for values in given.values():
            self._history.share_repeated |= values & self._history.share_settled
            self._history.share_values |= values
            self.progress += len(values)
        try:
            answers = consumer.commit_sync(PATIENCE_S)
        except KafkaException:
            return
        for place, error in answers.items():
            if error is None:
                self._history.share_settled |= given.get(place.partition, set())
