"""A queue over a topic whose Kafka producers send batches that are small as sent and large once opened."""

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.dead_letters.browsing import Where, take
from mainstem.broker.queues import Queue, QueueProperties
from mainstem.storage.contract import Append, Commit, Committed
from mainstem.wire.errors import DecompressedTooLarge
from mainstem.wire.messages.compressed_batches import decode_compressed
from mainstem.wire.messages.stored_messages import decode_messages
from mainstem.wire.record_batch import Record, encode_batch
from mainstem.wire.record_batch.survey import APART, AT_ONCE
from tests.support.worlds.brokers import with_broker
from tests.unit.loop_turns import TURN_S_MAX, turns_measured


def compressed(values: list[bytes], codec: int = 4) -> memoryview:
    return memoryview(
        encode_batch([Record(i, 1000 + i, b"k", value) for i, value in enumerate(values)], compression=codec)
    )


async def publish(broker: Broker, queue: Queue, *batches: memoryview) -> None:
    for batch in batches:
        (outcome,) = await broker.publish([Commit((Append(queue.lanes[0].log, bytearray(batch)),))])
        assert isinstance(outcome, Committed)


async def borrowed(broker: Broker) -> Queue:
    await broker.topics.ensure(NewTopic("t", 1, {"max.message.bytes": "50000000"}))
    queue = await broker.queues.declare("default", "t", QueueProperties())
    queue.open()
    return queue


@with_broker
async def test_a_large_batch_is_opened_beside_the_loop_and_in_order(broker: Broker) -> None:
    queue = await borrowed(broker)
    sent = [[b"first"], [bytes(60 << 20)], [b"behind"], [bytes(60 << 20), b"last"]]
    batches = [compressed(values) for values in sent]
    with turns_measured() as turns:
        await publish(broker, queue, *batches)
        found = []
        while len(found) < 5:
            message = await take(queue)
            assert message is not None
            found.append(message)
    assert [message.offset for message in found] == list(range(5))
    assert [len(message.value) for message in found] == [5, 60 << 20, 6, 60 << 20, 4]
    assert turns.longest_s < TURN_S_MAX


@with_broker
async def test_many_batches_of_one_read_do_not_add_up_on_the_loop(broker: Broker) -> None:
    queue = await borrowed(broker)
    batch = compressed([bytes(AT_ONCE.bytes_max // 2)])
    with turns_measured() as turns:
        await publish(broker, queue, *[batch] * 100)
        found = [await take(queue) for _ in range(100)]
    assert [message and message.offset for message in found] == list(range(100))
    assert turns.longest_s < TURN_S_MAX


@with_broker
async def test_letters_are_found_in_large_batches(broker: Broker) -> None:
    queue = await borrowed(broker)
    batches = [compressed([bytes(60 << 20), b"x"]) for _ in range(3)]
    with turns_measured() as turns:
        await publish(broker, queue, *batches)
        page = await broker.letters.browse(queue, Where(), 10)
    assert [found.message.offset for found in page.found] == list(range(6))
    assert turns.longest_s < TURN_S_MAX


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_pieces_come_to_the_same_as_the_whole(codec: int) -> None:
    values = [b"v" * (number % 700) for number in range(9000)] + [bytes(1 << 20), b"end"]
    batch = compressed(values, codec)
    lane = object()
    whole = decode_messages(batch, lane)  # type: ignore[arg-type]
    found, size = decode_compressed(batch, lane, APART.bytes_max)  # type: ignore[arg-type]
    assert size > 1 << 20, "it is decoded in pieces"
    assert [(m.offset, m.timestamp_ms, m.key, m.value) for m in found] == [
        (m.offset, m.timestamp_ms, m.key, m.value) for m in whole
    ]
    with pytest.raises(DecompressedTooLarge):
        decode_compressed(batch, lane, size - 1)  # type: ignore[arg-type]
