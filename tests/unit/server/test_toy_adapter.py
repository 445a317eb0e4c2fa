"""A protocol that is one folder and one registration: settings, listener and limits follow from that."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mainstem.broker.catalog.topics import DEFAULT_NAMESPACE
from mainstem.broker.queues import QueueProperties
from mainstem.server import settings as server_settings
from mainstem.server.lifecycle import Server
from mainstem.server.registry import REGISTERED, Registration, Services
from mainstem.server.settings_resolution import resolve
from mainstem.server.settings_sources import Flags
from mainstem.transport.session import OpenSession
from tests.unit.server.toy_adapter import NAME, ToyAdapter, ToySettings

PATIENCE_S = 20


def connect(services: Services, settings: ToySettings) -> OpenSession:
    return ToyAdapter(settings, services.broker).open_session


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As an entry of server/registry.py would."""
    monkeypatch.setitem(REGISTERED, NAME, Registration(NAME, (7,), ToySettings, connect))
    monkeypatch.setitem(server_settings.SECTIONS, NAME, ToySettings)
    server_settings.known_keys.cache_clear()
    yield
    server_settings.known_keys.cache_clear()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def hear(self) -> str:
        return (await self._reader.readline()).decode().rstrip("\n")

    async def ask(self, line: str) -> str:
        self.writer.write(line.encode() + b"\n")
        return await self.hear()


class Toy:
    def __init__(self, server: Server, address: str) -> None:
        self.server = server
        self._host, _, self._port = address.rpartition(":")
        self._clients: list[Client] = []

    async def client(self) -> Client:
        self._clients.append(Client(*await asyncio.open_connection(self._host, int(self._port))))
        return self._clients[-1]

    async def close(self) -> None:
        for client in self._clients:
            client.writer.close()
            with contextlib.suppress(ConnectionError):
                await client.writer.wait_closed()


@contextlib.asynccontextmanager
async def toy(directory: Path, *assignments: str) -> AsyncIterator[Toy]:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    off = {f"MAINSTEM_LISTEN_{name.upper().replace('-', '_')}": "off" for name in REGISTERED if name != NAME}
    flags = Flags(listen=["toy=127.0.0.1:0"], advertise=[], assignments=[f"data_dir={directory}", *assignments])
    server = Server(resolve(flags, off).settings, ready.set_result)
    async with asyncio.timeout(PATIENCE_S):
        task = asyncio.create_task(server.serve())
        await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        found = re.search(r"toy=(\S+)", await ready)
        assert found is not None
        assert server._broker is not None
        await server._broker.queues.declare(DEFAULT_NAMESPACE, "q", QueueProperties(durable=True))
        running = Toy(server, found[1])
        try:
            yield running
        finally:
            await running.close()
            server.stop()
            assert await task == 0


@pytest.mark.usefixtures("registered")
def test_publish_subscribe_settle(tmp_path: Path) -> None:
    async def main() -> None:
        async with toy(tmp_path) as running:
            publisher, consumer = await running.client(), await running.client()
            for number in range(3):
                assert await publisher.ask(f"PUB q hello {number}") == "OK"
            assert await consumer.ask("SUB q 2") == "OK"
            assert [await consumer.hear(), await consumer.hear()] == ["MSG 1 hello 0", "MSG 2 hello 1"]
            consumer.writer.write(b"ACK 1\n")
            assert {await consumer.hear(), await consumer.hear()} == {"OK", "MSG 3 hello 2"}
            consumer.writer.close()
            other = await running.client()
            assert await other.ask("SUB q 9") == "OK"
            assert [await other.hear(), await other.hear()] == ["MSG 1 hello 1", "MSG 2 hello 2"]
            assert await other.ask("ACK 1") == "OK"
            assert await other.ask("ACK 2") == "OK"
        async with toy(tmp_path) as running:
            late = await running.client()
            assert await late.ask("SUB q 9") == "OK"
            assert await late.ask("PUB q last") == "OK"
            assert await late.hear() == "MSG 1 last", "what was settled is settled in the next run, too"

    asyncio.run(main())


@pytest.mark.usefixtures("registered")
def test_a_will_is_published_when_the_connection_ends_and_not_after_a_goodbye(tmp_path: Path) -> None:
    async def main() -> None:
        async with toy(tmp_path) as running:
            heir = await running.client()
            assert await heir.ask("SUB q 9") == "OK"
            polite = await running.client()
            assert await polite.ask("WILL q never") == "OK"
            assert await polite.ask("QUIT") == "BYE"
            lost = await running.client()
            assert await lost.ask("WILL q farewell") == "OK"
            lost.writer.transport.abort()
            assert await heir.hear() == "MSG 1 farewell"

    asyncio.run(main())


@pytest.mark.usefixtures("registered")
def test_its_settings_are_known_by_name_and_its_faults_end_one_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with toy(tmp_path, "toy.line_bytes_max=50") as running:
            other = await running.client()
            for line in ("x" * 51, "what", "PUB nowhere x", "ACK 1", "SUB q many"):
                client = await running.client()
                assert (await client.ask(line)).startswith("ERR ")
                assert await client.hear() == "", "closed"
            assert await other.ask("PUB q fine") == "OK"

    asyncio.run(main())
