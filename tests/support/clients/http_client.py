"""A client of another make, over the pure session: what it says, and what it understands."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import h11

from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.log import Append, Commit, Committed
from mainstem.protocols.http.adapter import HttpAdapter
from mainstem.protocols.http.session import HttpSettings
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.record_batch import Record, encode_batch
from tests.support.clients.fixed_operations import FixedOperations
from tests.support.clients.session_driver import Driver
from tests.support.worlds.brokers import with_engine

NOW_MS = 1_700_000_000_000


class Reply:
    def __init__(self, response: h11.Response, body: bytes) -> None:
        self.status = response.status_code
        self.headers = {name.decode(): value.decode() for name, value in response.headers}
        self.body = body

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> str:
        """The last part of its type."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json()["status"] == self.status
        return self.json()["type"].removeprefix("urn:mainstem:problem:")


def read_replies(data: bytes, methods: list[str]) -> list[Reply]:
    """What a client of another make understands."""
    replies = []
    client = h11.Connection(h11.CLIENT)
    client.receive_data(data)
    for method in methods:
        client.send(h11.Request(method=method, target="/", headers=[("host", "a")]))
        client.send(h11.EndOfMessage())
        response = client.next_event()
        while isinstance(response, h11.InformationalResponse):
            response = client.next_event()
        assert isinstance(response, h11.Response)
        body = b""
        while isinstance(event := client.next_event(), h11.Data):
            body += bytes(event.data)
        assert isinstance(event, h11.EndOfMessage)
        replies.append(Reply(response, body))
        if client.their_state is h11.DONE:
            client.start_next_cycle()
    return replies


def request_bytes(
    path: str, *headers: str, method: str = "GET", version: str = "1.1", body: bytes = b"", host: str = "localhost"
) -> bytes:
    head = [f"{method} {path} HTTP/{version}", f"Host: {host}", *headers]
    if body:
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*head, "", ""]).encode() + body


class SteadyClock(LoopClock):
    """Its wall clock stands still, until a test moves it."""

    passed_ms = 0

    def now_ms(self) -> int:
        return NOW_MS + self.passed_ms


class Client:
    """Asks an adapter over a broker in memory, one request at a time."""

    def __init__(self, broker: Broker, operations: FixedOperations | None = None) -> None:
        self.broker = broker
        self._later: list[asyncio.Task[None]] = []
        self.operations = operations or FixedOperations()
        self._adapter = HttpAdapter(HttpSettings(), broker, self.operations, self._spawn)
        self.routes = self._adapter.routes

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        # A task: what the broker's own clock starts after the last request ends with the loop.
        self._later.append(asyncio.get_running_loop().create_task(work))

    async def ask(self, method: str, path: str, content: Any = None, *headers: str, host: str = "localhost") -> Reply:
        if content is not None and not headers:
            headers = ("Content-Type: application/json",)
        body = content if isinstance(content, bytes) else b"" if content is None else json.dumps(content).encode()
        driver = Driver(self._adapter.open_session)
        driver.feed(request_bytes(path, *headers, method=method, body=body, host=host))
        while self._later:
            await self._later.pop()
        driver.pump()
        (reply,) = read_replies(bytes(driver.output), [method])
        return reply

    async def get(self, path: str) -> Any:
        reply = await self.ask("GET", path)
        assert reply.status == 200, reply.body
        return reply.json()

    async def create(self, name: str, partitions: int = 1, **config: Any) -> None:
        content = {
            "name": name,
            "partitions": partitions,
            "config": {key.replace("_", "."): value for key, value in config.items()},
        }
        reply = await self.ask("POST", "/v1/topics", content)
        assert reply.status == 201, reply.body

    async def publish(self, topic: str, *timestamps: int, partition: int = 0, **attributes: Any) -> None:
        """One batch, a record for each timestamp."""
        records = [Record(offset, timestamp, b"k", b"v") for offset, timestamp in enumerate(timestamps)]
        await self.publish_batch(topic, encode_batch(records, **attributes), partition)

    async def publish_batch(self, topic: str, batch: bytearray, partition: int = 0) -> None:
        log = self.broker.topics.get(topic).logs[partition]
        (result,) = await self.broker.publish([Commit((Append(log, batch),))])
        assert isinstance(result, Committed), result


def with_client(test: Callable[[Client], Awaitable[None]]) -> Callable[[], None]:
    """An asynchronous test that is given a client."""

    async def run(engine: MemoryEngine) -> None:
        await test(Client(await Broker.open(engine, SteadyClock())))

    run.__name__ = test.__name__
    return with_engine(run)
