"""Transactions, and a broker that is killed."""

import threading
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.support.clients.confluent import create
from tests.support.clients.transactional import producer, read, send
from tests.support.serving.kafka import PATIENCE_S, QUICK_GROUPS, QUICK_RETURN, serving

pytestmark = [pytest.mark.conformance, pytest.mark.slow]


def test_an_open_transaction_goes_on_after_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path / "data", *QUICK_GROUPS) as broker:
        create(broker, "t", 2)
        sender = producer(broker, "tx")
        for number in range(2):
            sender.begin_transaction()
            send(sender, "t", [b"%d-a" % number], 0)
            broker.kill()
            broker.start()
            assert len(read(broker, "t", 2)) == 3 * number, "open, and yet it is read"
            send(sender, "t", [b"%d-b" % number], 0)
            send(sender, "t", [b"%d-c" % number], 1)
            sender.commit_transaction(PATIENCE_S)
            broker.kill()
            broker.start()
            expected = {b"%d-%s" % (n, letter) for n in range(number + 1) for letter in (b"a", b"b", b"c")}
            received = read(broker, "t", 2)
            assert set(received) == expected
            assert len(received) == len(expected)


def test_a_transaction_that_nobody_ends_is_aborted_after_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path / "data", *QUICK_GROUPS) as broker:
        create(broker, "t")
        kept, lost = producer(broker, "kept"), producer(broker, "lost", **{"transaction.timeout.ms": 2_000})
        lost.begin_transaction()
        send(lost, "t", [b"lost"])
        kept.begin_transaction()
        send(kept, "t", [b"kept"])
        kept.commit_transaction(PATIENCE_S)
        broker.kill()
        broker.start()
        reader = Consumer(
            {
                "bootstrap.servers": broker.address,
                "group.id": "unused",
                "isolation.level": "read_committed",
                **QUICK_RETURN,
            }
        )
        reader.assign([TopicPartition("t", 0, 0)])
        message = reader.poll(PATIENCE_S)
        reader.close()
        assert message is not None
        assert message.value() == b"kept"
        with pytest.raises(KafkaException):
            lost.commit_transaction(PATIENCE_S)
        assert read(broker, "t") == [b"kept"]


def test_kills_in_the_midst_tear_nothing(tmp_path: Path) -> None:
    """A transaction is in all of its partitions or in none, once; what was answered is there; offsets go along."""
    with serving(tmp_path / "data", *QUICK_GROUPS) as broker:
        create(broker, "t", 3)
        sender = producer(broker, "tx")
        member = Consumer({"bootstrap.servers": broker.address, "group.id": "g", **QUICK_RETURN})
        group = member.consumer_group_metadata()
        outcomes: dict[bytes, bool | None] = {}
        for number in range(60):
            name = b"%d" % number
            sender.begin_transaction()
            for partition in range(3):
                sender.produce("t", name, partition=partition)
            sender.send_offsets_to_transaction([TopicPartition("t", 0, number)], group, PATIENCE_S)
            restart = threading.Thread(target=lambda: (broker.kill(), broker.start()))
            if number % 12 == 5:
                restart.start()
            try:
                if number % 4:
                    sender.commit_transaction(PATIENCE_S)
                    outcomes[name] = True
                else:
                    sender.abort_transaction(PATIENCE_S)
                    outcomes[name] = False
            except KafkaException:
                outcomes[name] = None
            if number % 12 == 5:
                restart.join()
            if outcomes[name] is None:
                sender = producer(broker, "tx")
        received = Counter(read(broker, "t", 3))
        assert set(received.values()) == {3}, "torn, or written twice"
        assert {name for name, kept in outcomes.items() if kept} <= set(received)
        assert not {name for name, kept in outcomes.items() if kept is False} & set(received)
        (place,) = member.committed([TopicPartition("t", 0)], PATIENCE_S)
        member.close()
        assert place.offset == max(int(name) for name in received)
