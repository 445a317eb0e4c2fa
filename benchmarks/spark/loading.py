"""Fills topics as fast as the broker takes it: batches made once, sent raw."""

from __future__ import annotations

import random
import string

from confluent_kafka.admin import AdminClient, NewTopic

from mainstem.sdk.client import Client
from mainstem.sdk.operations import TopicPartition, produce
from mainstem.wire.record_batch import encode_batch

RECORDS_PER_BATCH = 8_000
VALUE_BYTES = 100
LETTERS = (string.ascii_letters + string.digits).encode()
DIFFERENT_BATCHES = 8
FIRST_TIME_MS = 1_700_000_000_000


def fill(address: str, topic: str, records: int, *, partitions: int = 4, compression: int = 0) -> None:
    """Keys of 8 bytes and values of 100; retention does not touch their old times."""
    admin = AdminClient({"bootstrap.servers": address})
    for done in admin.create_topics([NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})]).values():
        done.result(30)
    batches = [_batch(seed, compression) for seed in range(DIFFERENT_BATCHES)]
    with Client(address) as client:
        for number in range(records // RECORDS_PER_BATCH):
            at = TopicPartition(topic, number % partitions)
            produce(client.leader(at), at, batches[number % DIFFERENT_BATCHES])


def _batch(seed: int, compression: int) -> bytearray:
    chance = random.Random(seed)
    records = [
        (
            index,
            FIRST_TIME_MS + index,
            b"%08d" % chance.randrange(10**8),
            b"order %08d " % index + bytes(chance.choices(LETTERS, k=VALUE_BYTES - 15)),
            (),
        )
        for index in range(RECORDS_PER_BATCH)
    ]
    return encode_batch(records, compression=compression)
