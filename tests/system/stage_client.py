"""A broker that keeps its ports over restarts, and a reader of committed records: for tests of stages and of Spark."""

from pathlib import Path

from mainstem.sdk.client import Client
from mainstem.sdk.operations import EARLIEST, LATEST, TopicPartition, fetch
from mainstem.wire.record_batch import CONTROL, TRANSACTIONAL, Record, batches_in, decode_records, read_header
from tests.system.ports import lasting_port
from tests.system.program import Program

ROOT = Path(__file__).parents[2]


class Served:
    """`mainstem serve` with Kafka and HTTP."""

    def __init__(self, data_dir: Path, *options: str, module: str = "mainstem.cli") -> None:
        self._data_dir = data_dir
        self._options = options
        self._module = module
        self._ports = [lasting_port() for _ in range(2)]
        self.kafka, self.http = (f"127.0.0.1:{port}" for port in self._ports)
        self.start()

    def start(self) -> None:
        listen = ("--listen", f"kafka={self.kafka}", "--listen", f"http={self.http}")
        environment = {"PYTHONPATH": str(ROOT)}  # for a module of the tests
        self.program = Program(self._data_dir, *listen, *self._options, environment=environment, module=self._module)
        self.program.wait_ready()

    def kill(self) -> None:
        self.program.process.kill()
        self.program.process.communicate()

    def restart(self) -> None:
        self.kill()
        self.start()


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
