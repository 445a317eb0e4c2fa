"""A Kafka client without sockets, over a broker in memory."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.protocols.kafka.adapter import KafkaAdapter
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.server.request_meters import RequestMeter, RequestMeters
from mainstem.wire.kafka import ApiKey, decode_response, encode_request
from mainstem.wire.record_batch import Record, encode_batch
from tests.support.clients.session_client import SessionClient
from tests.support.worlds.brokers import with_broker


class Operations:
    def __init__(self) -> None:
        self.meters = RequestMeters()

    def advertised(self) -> dict[str, list[str]]:
        return {"kafka": ["broker.example:9092"]}

    def brokers(self, protocol: str) -> dict[int, str]:
        return {1: self.advertised()[protocol][0]}

    def data_directory(self) -> str:
        return "/"

    def storage(self) -> dict[str, float]:
        return {"commit_groups": 7.0}

    def request_meter(self, protocol: str, operation: str, untimed: int) -> RequestMeter:
        return self.meters.meter(protocol, operation, untimed)


class Client(SessionClient):
    """One connection."""

    def __init__(self, adapter: KafkaAdapter, client_id: str = "unit", peer: str = "") -> None:
        super().__init__(adapter.open_session, peer)
        self._client_id = client_id
        self._correlation_id = 0

    async def ask(self, key: ApiKey, version: int, **body: Any) -> Any:
        """Send a request and wait for its response."""
        self.send(key, version, **body)
        correlation_id, response = decode_response(key, version, await self.receive())
        assert correlation_id == self._correlation_id
        return response

    def send(self, key: ApiKey, version: int, **body: Any) -> None:
        """Send a request."""
        self._correlation_id += 1
        request = encode_request(key, version, body, correlation_id=self._correlation_id, client_id=self._client_id)
        self.send_bytes(len(request).to_bytes(4, "big") + request)

    async def receive(self) -> bytes:
        """The next response, without its size."""
        while len(self.output) < 4 or len(self.output) < 4 + int.from_bytes(self.output[:4], "big"):
            assert not self.session.finished, "closed"
            await self.wait_woken()
        size = int.from_bytes(self.output[:4], "big")
        response = bytes(self.output[4 : 4 + size])
        del self.output[: 4 + size]
        return response

    async def wait_closed(self) -> None:
        while not self.session.finished:
            await self.wait_woken()

    # What most tests need

    async def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        wish = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
        }
        (answer,) = (await self.ask(ApiKey.CREATE_TOPICS, 7, topics=[wish])).topics
        assert answer.error_code == 0, answer.error_message

    async def produce(self, topic: str, records: bytes | bytearray | None, version: int = 9, **options: Any) -> Any:
        """The answer for partition 0."""
        partition = {"index": options.pop("partition", 0), "records": records}
        data = [{"name": topic, "partition_data": [partition]}]
        response = await self.ask(ApiKey.PRODUCE, version, **({"acks": -1, "topic_data": data} | options))
        return response.responses[0].partition_responses[0]

    async def fetch(self, topic: str, offset: int, version: int = 12, **options: Any) -> Any:
        """The answer for partition 0."""
        partition = {
            "partition": 0,
            "fetch_offset": offset,
            "partition_max_bytes": options.pop("partition_max", 1 << 20),
        }
        body = {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": topic, "partitions": [partition]}]}
        response = await self.ask(ApiKey.FETCH, version, **(body | options))
        return response.responses[0].partitions[0]


Connect = Callable[[], Client]


def with_adapter(test: Callable[..., Awaitable[None]] | None = None, **settings: Any) -> Callable[..., Any]:
    """An asynchronous test that is given something to connect with, and its broker if it asks for that."""
    if test is None:
        return functools.partial(with_adapter, **settings)

    takes_broker = "broker" in inspect.signature(test).parameters

    async def run(broker: Broker) -> None:
        adapter = KafkaAdapter(KafkaSettings(**settings), broker, Operations())
        await test(lambda: Client(adapter), *([broker] if takes_broker else []))

    run.__name__ = test.__name__
    return with_broker(run)


def batch(*values: bytes | None, key: bytes | None = b"k", time_ms: int = 1_000, **options: Any) -> bytearray:
    return encode_batch([Record(i, time_ms + i, key, value) for i, value in enumerate(values)], **options)
