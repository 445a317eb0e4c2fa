"""What a reader of committed records is given, over the blocking client of the SDK."""

from mainstem.sdk.client import Client
from mainstem.sdk.operations import EARLIEST, LATEST, TopicPartition, fetch
from mainstem.wire.record_batch import CONTROL, TRANSACTIONAL, Record, batches_in, decode_records, read_header


def committed_records(client: Client, topic: str) -> list[tuple[int, Record]]:
    """What a reader of committed records sees, partition by partition."""
    return [
        (partition, record)
        for partition in range(client.partition_counts([topic])[topic])
        for record in _committed(client, TopicPartition(topic, partition))
    ]


def committed_values(client: Client, topic: str) -> list[bytes]:
    return [record.value or b"" for _, record in committed_records(client, topic)]


def _committed(client: Client, at: TopicPartition) -> list[Record]:
    offset, end = client.offsets({at: EARLIEST})[at], client.offsets({at: LATEST})[at]
    records: list[Record] = []
    while offset < end:
        fetched = client.retrying(lambda here=offset: fetch(client.leader(at), at, here))
        waiting, aborted = sorted(fetched.aborted, key=lambda found: found[1]), set()
        for position, size in batches_in(fetched.batches):
            batch = fetched.batches[position : position + size]
            header = read_header(batch)
            offset = header.base_offset + header.last_offset_delta + 1
            while waiting and waiting[0][1] <= header.base_offset:
                aborted.add(waiting.pop(0)[0])
            if header.attributes & CONTROL:
                aborted.discard(header.producer_id)
            elif not (header.attributes & TRANSACTIONAL and header.producer_id in aborted):
                records += decode_records(batch)
    return records
