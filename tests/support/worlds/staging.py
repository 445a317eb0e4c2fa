"""Tasks of a query, as the tests of stages play them."""

from collections.abc import Iterable, Sequence

from mainstem.broker.broker import Broker
from mainstem.broker.staging.stages import Published, SinkKey, StageKey
from mainstem.model.errors import MainstemError
from mainstem.wire.record_batch import Record, batches_in, decode_records, encode_batch

QUERY = "3f0c7f9e-query"


def staged_batch(position: int, values: Sequence[bytes], key: bytes | None = None, compression: int = 0) -> bytearray:
    records = [Record(position + delta, 1_000 + delta, key, value) for delta, value in enumerate(values)]
    return encode_batch(records, base_offset=position, compression=compression)


class Task:
    """One attempt of one task."""

    def __init__(
        self, broker: Broker, batch: int, task: int = 0, attempt: str = "0", sink: str = "", query: str = QUERY
    ) -> None:
        self.broker = broker
        self.key = StageKey(query, sink, batch, task, attempt)
        self.position = 0

    async def write(self, topic: str, partition: int, *values: bytes, key: bytes | None = None) -> None:
        await self.send(topic, partition, staged_batch(self.position, values, key))
        self.position += 1 + len(values)

    async def send(self, topic: str, partition: int, batch: bytearray, *, is_later: bool = False) -> None:
        """As the Kafka adapter does it. Raises what the broker refuses."""
        stages = self.broker.stages
        destination = stages.destination(self.key.topic_name(topic, is_later=is_later))
        staged = stages.add_batch(destination, partition, memoryview(batch))
        answer = self.broker.publish([staged.commit])
        answer.on_done(lambda done: stages.note_results([(0, staged)], done))
        (result,) = await answer
        if isinstance(result, MainstemError):
            raise result


async def publish(broker: Broker, batch: int, *tasks: Task, sink: str = "", query: str = QUERY) -> Published:
    ends = {task.key: task.position for task in tasks}
    return await broker.stages.publish(SinkKey(query, sink), batch, ends, lasting=True)


async def values_in(broker: Broker, topic: str, partition: int = 0) -> list[bytes]:
    """What a reader of committed records sees, in order."""
    log = broker.topics.get(topic).logs[partition]
    found: list[bytes] = []
    offset = 0
    while True:
        read = await broker.read(log, offset, 1 << 20)
        for batch in _split(read.batches):
            found += _committed(batch, read.stable, [(a.producer, a.first, a.last) for a in read.aborted])
        if read.next_offset == offset or read.next_offset >= read.end:
            return found
        offset = read.next_offset


def _split(buffers: Iterable[object]) -> Iterable[bytes]:
    for buffer in buffers:
        view = memoryview(buffer)  # type: ignore[arg-type]
        for position, size in batches_in(view):
            yield bytes(view[position : position + size])


def _committed(batch: bytes, stable: int, aborted: list[tuple[int, int, int]]) -> list[bytes]:
    base = int.from_bytes(batch[:8], "big")
    attributes, producer = batch[22], int.from_bytes(batch[43:51], "big", signed=True)
    gone = attributes & 0x10 and any(who == producer and first <= base <= last for who, first, last in aborted)
    if attributes & 0x20 or base >= stable or gone:
        return []
    return [record.value or b"" for record in decode_records(batch)]
