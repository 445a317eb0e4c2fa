"""A server from start to end, in this process, over a storage that keeps nothing."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from mainstem.model.errors import DirectoryLocked, EngineFailed, StorageFull
from mainstem.server.lifecycle import Server, StartRefused
from mainstem.server.registry import REGISTERED
from mainstem.server.settings_resolution import resolve
from mainstem.server.settings_sources import Flags
from mainstem.transport.address import Address
from tests.unit.server.fake_storage import FakeStorage

PATIENCE_S = 10
OTHERS_OFF = {f"MAINSTEM_LISTEN_{name.upper().replace('-', '_')}": "off" for name in REGISTERED if name != "http"}


class Running:
    """A server that is ready."""

    def __init__(self, storage: FakeStorage, listen: list[str], advertise: list[str], assignments: list[str]) -> None:
        self.storage = storage
        self.ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        flags = Flags(listen=listen, advertise=advertise, assignments=assignments)
        self.server = Server(resolve(flags, OTHERS_OFF).settings, self.ready.set_result, storage)
        self.task = asyncio.create_task(self.server.serve())

    def addresses(self) -> list[Address]:
        return [Address.parse(text) for text in re.findall(r"http=(\S+)", self.ready.result())]

    async def get(self, path: str, address: Address | None = None) -> tuple[int, str]:
        reader, writer = await asyncio.open_connection(*(address or self.addresses()[0]))
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return await read_reply(reader, writer)


async def read_reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, str]:
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return int(head.split()[1]), body.decode()


@contextlib.asynccontextmanager
async def serving(
    storage: FakeStorage | None = None,
    listen: tuple[str, ...] = ("http=127.0.0.1:0",),
    advertise: tuple[str, ...] = (),
    assignments: tuple[str, ...] = (),
) -> AsyncIterator[Running]:
    async with asyncio.timeout(PATIENCE_S):
        running = Running(storage or FakeStorage(), list(listen), list(advertise), list(assignments))
        await asyncio.wait([running.task, running.ready], return_when=asyncio.FIRST_COMPLETED)
        if running.task.done():
            running.ready.cancel()
            running.task.result()
        try:
            yield running
        finally:
            running.server.stop()
            running.server.stop()
            await running.task


OPEN = ("http.anybody_from_anywhere=true", "security.without_tls=true")


def runs(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """An asynchronous test."""

    def run() -> None:
        async def main() -> None:
            await test()

        asyncio.run(main())

    run.__name__ = test.__name__
    return run


@runs
async def test_the_ready_line_names_every_address() -> None:
    async with serving(listen=("http=127.0.0.1:0", "http=127.0.0.1:0")) as running:
        line = running.ready.result()
        assert re.fullmatch(r"ready http=127\.0\.0\.1:\d+ http=127\.0\.0\.1:\d+", line)
        for address in running.addresses():
            assert (await running.get("/health", address))[0] == 200


@runs
async def test_what_protocols_share_has_its_rules_though_their_port_is_off() -> None:
    settings = (
        "kafka.offsets_retention_ms=1234",
        "kafka.dead_letter_topic_prefix=gone.",
        "kafka.consumer_group_session_timeout_ms=7000",
    )
    async with serving(assignments=settings) as running:
        broker = running.server._broker
        assert broker is not None
        assert broker.groups._rules.offsets_retention_ms == 1234
        assert broker.groups._expiry is not None, "offsets of groups expire"
        assert broker.dead_letters._topics.rules.prefix == "gone."
        assert broker.group_configs.options()["consumer.session.timeout.ms"].default == "7000"
        assert broker.dialects.get("amqp") is not None


@runs
async def test_stopping_drains_closes_storage_and_exits_0() -> None:
    async with serving() as running:
        running.server.stop()
        assert await running.task == 0
        assert running.storage.engine.closed
        with pytest.raises(OSError):
            await running.get("/health")


@runs
async def test_a_request_that_has_begun_is_finished_and_told_of_the_end() -> None:
    async with serving() as running:
        reader, writer = await asyncio.open_connection(*running.addresses()[0])
        writer.write(b"GET /ready HTTP/1.1\r\nHo")
        assert (await running.get("/ready"))[0] == 200  # the half request was received before this one
        running.server.stop()
        writer.write(b"st: localhost\r\n\r\n")
        status, body = await read_reply(reader, writer)
        assert status == 503
        assert "draining" in body
        assert await running.task == 0


@runs
async def test_stopping_twice_waits_for_nobody() -> None:
    async with serving(assignments=("limits.drain_timeout_ms=600000",)) as running:
        reader, writer = await asyncio.open_connection(*running.addresses()[0])
        writer.write(b"GET /ready HTTP/1.1\r\nHo")
        await running.get("/ready")
        running.server.stop()
        running.server.stop()
        assert await running.task == 0
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()


@runs
async def test_a_failed_engine_ends_the_server_at_once() -> None:
    async with serving() as running:
        running.storage.engine.fail(EngineFailed("sync failed"))
        assert await running.task == 1
        assert not running.storage.engine.closed, "nothing may be written after a failed sync"


@runs
async def test_an_engine_that_fails_while_draining_ends_the_wait() -> None:
    async with serving(assignments=("limits.drain_timeout_ms=600000",)) as running:
        _, writer = await asyncio.open_connection(*running.addresses()[0])
        writer.write(b"GET /ready HTTP/1.1\r\nHo")
        await running.get("/ready")
        running.server.stop()
        await asyncio.sleep(0)
        running.storage.engine.fail(EngineFailed("sync failed"))
        assert await running.task == 1
        writer.close()


@runs
async def test_an_engine_that_cannot_close_is_a_failure() -> None:
    storage = FakeStorage()
    storage.engine.close_error = EngineFailed("sync failed")
    async with serving(storage) as running:
        running.server.stop()
        assert await running.task == 1


@runs
async def test_maintenance_goes_on_after_an_error() -> None:
    for error in (StorageFull("no space"), OSError(5, "input/output error"), RuntimeError("a bug")):
        storage = FakeStorage()
        storage.engine.maintenance_error = error
        async with serving(storage, assignments=("maintenance_interval_ms=1",)):
            while storage.engine.maintained < 3:  # noqa: ASYNC110
                await asyncio.sleep(0)


@runs
async def test_a_locked_directory_refuses_the_start() -> None:
    with pytest.raises(StartRefused, match="another broker"):
        async with serving(FakeStorage(DirectoryLocked("another broker uses it"))):
            pass


@runs
async def test_a_directory_that_cannot_be_used_refuses_the_start() -> None:
    with pytest.raises(StartRefused, match="cannot use the data directory"):
        async with serving(FakeStorage(PermissionError(13, "denied"))):
            pass


@runs
async def test_every_taken_port_is_named_and_storage_is_not_opened() -> None:
    async with serving(listen=("http=127.0.0.1:0", "http=127.0.0.1:0")) as running:
        first, second = running.addresses()
        storage = FakeStorage()
        with pytest.raises(StartRefused) as caught:
            async with serving(storage, listen=(f"http={first}", f"http={second}")):
                pass
        lines = str(caught.value).splitlines()
        assert [str(first) in lines[0], str(second) in lines[1]] == [True, True]
        assert all("--listen http=off" in line for line in lines)
        assert storage.settings is None


@runs
async def test_an_address_that_is_not_ours_refuses_the_start() -> None:
    with pytest.raises(StartRefused, match=r"cannot listen on http=192\.0\.2\.1:1"):
        async with serving(listen=("http=192.0.2.1:1",), assignments=OPEN):
            pass


@runs
async def test_metrics_have_process_listeners_and_engine() -> None:
    async with serving() as running:
        status, text = await running.get("/metrics")
        assert status == 200
        address = running.addresses()[0]
        assert f'mainstem_connections_accepted_total{{address="{address}",listener="http"}} 1.0' in text
        assert "mainstem_engine_commits_total 3.0" in text
        assert "mainstem_engine_cache_bytes 5.0" in text
        assert "process_resident_memory_bytes" in text
        assert "mainstem_ready 1.0" in text


@runs
async def test_what_is_advertised_is_never_a_wildcard() -> None:
    async with serving(listen=("http=0.0.0.0:0",), assignments=OPEN) as running:
        address = Address("127.0.0.1", running.addresses()[0].port)
        _, body = await running.get("/ready", address)
        assert "0.0.0.0" not in body
        assert str(address.port) in body


@runs
async def test_what_is_set_is_advertised() -> None:
    async with serving(advertise=("http=broker.example:80",)) as running:
        assert "broker.example:80" in (await running.get("/ready"))[1]
