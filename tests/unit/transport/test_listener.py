"""Listener and connection over real sockets, on each event loop we run on, in clear text and over TLS."""

import asyncio
import contextlib
import gc
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import uvloop

from mainstem.model.endpoints import Endpoints
from mainstem.transport.address import Address
from mainstem.transport.listener import PLAIN, Listener, ListenerLimits, PortTaken
from mainstem.transport.receive_buffer import CHUNK_BYTES, ChunkPool
from mainstem.transport.session import Wake
from mainstem.transport.turns import TURN_SECONDS
from tests.unit.transport.echo_session import ANSWER_LATER, BREAK, FINISH, FLOOD, FLOOD_BYTES, EchoSession
from tests.unit.transport.tls_peer import client_context, security

LOOPBACK = Address("127.0.0.1", 0)
ENDING, END_SECONDS = 60, TURN_SECONDS / 2
"""Connections that end at once, and what the end of each takes."""
PATIENCE_S = 10
"""Nothing here takes this long; a test that hangs should say so."""


class Way:
    """How the present test speaks."""

    is_tls = False


_way = Way()


class Host:
    """A listener and the sessions it opened."""

    def __init__(self, **limits: int) -> None:
        self.sessions: list[EchoSession] = []
        self.log: list[str] = []
        chosen = {"connections_max": 100, "idle_timeout_ms": 60_000, "write_buffer_bytes_max": 1 << 16, **limits}
        self.listener = Listener(
            "echo+tls" if _way.is_tls else "echo",
            LOOPBACK,
            self._open,
            ListenerLimits(**chosen),
            ChunkPool(),
            security=security() if _way.is_tls else PLAIN,
            protocol="echo",
        )

    def _open(self, wake: Wake, endpoints: Endpoints) -> EchoSession:
        self.sessions.append(EchoSession(wake, endpoints, self.log))
        return self.sessions[-1]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if _way.is_tls:
            return await asyncio.open_connection(*self.listener.address, ssl=client_context(), limit=1 << 22)
        return await asyncio.open_connection(*self.listener.address, limit=1 << 22)


@contextlib.asynccontextmanager
async def hosting(**limits: int) -> AsyncIterator[Host]:
    host = Host(**limits)
    host.listener.bind()
    await host.listener.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield host
    finally:
        host.listener.close()


Run = Callable[[Callable[[], Awaitable[None]]], None]


CLEAR = ["uvloop", "asyncio"]


@pytest.fixture(params=[*CLEAR, "uvloop, TLS", "asyncio, TLS"])
def run(request: pytest.FixtureRequest) -> Run:
    loop, _, encryption = request.param.partition(", ")
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    _way.is_tls = bool(encryption)

    def run_it(test: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            await test()

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())
        gc.collect()

    return run_it


async def until(condition: Callable[[], bool]) -> None:
    """Turn the loop until it is so; the test's patience bounds it."""
    while not condition():  # noqa: ASYNC110 - what is awaited here has no event of its own
        await asyncio.sleep(0)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


def test_lines_come_back_in_order(run: Run) -> None:
    async def test() -> None:
        async with hosting() as host:
            reader, writer = await host.connect()
            lines = [b"%d " % index + b"x" * (index * 37 % 5000) + b"\n" for index in range(500)]
            writer.writelines(lines)
            assert [await reader.readline() for _ in lines] == lines
            await closed(writer)
            await until(lambda: host.listener.connections == 0)
            size = sum(map(len, lines))
            traffic = host.listener.traffic
            assert (traffic.accepted, traffic.received_bytes, traffic.sent_bytes) == (1, size, size)
            assert host.log[-1] == "closed"

    run(test)


def test_an_answer_may_come_later_and_input_waits_meanwhile(run: Run) -> None:
    async def test() -> None:
        async with hosting() as host:
            reader, writer = await host.connect()
            writer.write(ANSWER_LATER + b"after\n")
            await until(lambda: bool(host.sessions) and host.sessions[0].busy)
            host.sessions[0].answer()
            assert await reader.readline() == b"now\n"
            assert await reader.readline() == b"after\n"
            await closed(writer)

    run(test)


def test_a_line_longer_than_a_chunk_arrives(run: Run) -> None:
    async def test() -> None:
        async with hosting(write_buffer_bytes_max=1 << 30) as host:
            reader, writer = await host.connect()
            line = b"y" * (2 * CHUNK_BYTES) + b"\n"
            writer.write(line)
            assert await reader.readexactly(len(line)) == line
            await closed(writer)

    run(test)


@pytest.mark.parametrize("run", CLEAR, indirect=True)
def test_a_peer_that_does_not_read_is_not_read_from(run: Run) -> None:
    async def test() -> None:
        async with hosting() as host:
            loop = asyncio.get_running_loop()
            client = socket.create_connection(host.listener.address)
            client.setblocking(False)
            asked = 400
            await loop.sock_sendall(client, FLOOD * asked)
            await until(lambda: "paused" in host.log)
            # What was written before the peer stopped is bounded: by the kernel's buffers and ours, not by what was asked.
            assert host.listener.traffic.sent_bytes < asked * FLOOD_BYTES / 4
            left = asked * FLOOD_BYTES
            while left:
                left -= len(await loop.sock_recv(client, 1 << 20))
            assert "resumed" in host.log
            client.close()
            await until(lambda: host.listener.connections == 0)

    run(test)


def test_one_connection_too_many_is_closed(run: Run) -> None:
    async def test() -> None:
        async with hosting(connections_max=1) as host:
            reader, writer = await host.connect()
            writer.write(b"a\n")
            assert await reader.readline() == b"a\n"
            with contextlib.suppress(ConnectionError):  # Over TLS the handshake fails.
                refused_reader, refused_writer = await host.connect()
                assert await refused_reader.read() == b""
                await closed(refused_writer)
            assert host.listener.traffic.refused == 1
            await closed(writer)
            await until(lambda: host.listener.connections == 0)
            reader, writer = await host.connect()
            writer.write(b"b\n")
            assert await reader.readline() == b"b\n"
            await closed(writer)

    run(test)


def test_an_idle_connection_is_reclaimed(run: Run) -> None:
    async def test() -> None:
        async with hosting(idle_timeout_ms=40) as host:
            reader, writer = await host.connect()
            assert await reader.read() == b""
            assert host.listener.traffic.reclaimed == 1
            assert "time" in host.log
            await closed(writer)

    run(test)


def test_a_connection_that_is_owed_an_answer_is_not_idle(run: Run) -> None:
    async def test() -> None:
        async with hosting(idle_timeout_ms=20) as host:
            reader, writer = await host.connect()
            writer.write(ANSWER_LATER)
            await until(lambda: host.listener.beat > 20)
            host.sessions[0].answer()
            assert await reader.readline() == b"now\n"
            assert host.listener.traffic.reclaimed == 0
            await closed(writer)

    run(test)


@pytest.mark.parametrize("run", CLEAR, indirect=True)
def test_a_peer_that_never_reads_is_cut_in_the_end(run: Run) -> None:
    async def test() -> None:
        async with hosting(idle_timeout_ms=40) as host:
            client = socket.create_connection(host.listener.address)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_sendall(client, FLOOD * 20)
            await until(lambda: host.listener.traffic.reclaimed == 1)
            await until(lambda: host.listener.connections == 0)
            client.close()

    run(test)


def test_the_last_words_arrive_although_the_peer_still_sends(run: Run) -> None:
    async def test() -> None:
        async with hosting() as host:
            reader, writer = await host.connect()
            writer.write(FINISH + b"z" * (4 << 20))
            assert await reader.readline() == FINISH
            assert await reader.read() == b""
            await closed(writer)
            await until(lambda: host.listener.connections == 0)

    run(test)


def test_a_peer_that_stays_after_the_last_words_is_left_behind(run: Run) -> None:
    async def test() -> None:
        async with hosting(idle_timeout_ms=40) as host:
            reader, writer = await host.connect()
            writer.write(FINISH)
            assert await reader.read() == FINISH
            await until(lambda: host.listener.connections == 0)
            await closed(writer)

    run(test)


@pytest.mark.parametrize("run", CLEAR, indirect=True)
def test_a_half_closed_peer_is_answered(run: Run) -> None:
    async def test() -> None:
        async with hosting() as host:
            reader, writer = await host.connect()
            writer.write(b"a\nb\n")
            writer.write_eof()
            assert await reader.read() == b"a\nb\n"
            await closed(writer)
            await until(lambda: "closed" in host.log)
            assert host.log.count("input ended") == 1

    run(test)


def test_a_bug_in_a_session_costs_its_connection_only(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with hosting() as host:
            reader, writer = await host.connect()
            other_reader, other_writer = await host.connect()
            writer.write(BREAK)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            other_writer.write(b"a\n")
            assert await other_reader.readline() == b"a\n"
            assert host.listener.traffic.failed == 1
            await closed(writer)
            await closed(other_writer)

    run(test)
    assert "a bug" in caplog.text


def test_draining_lets_go_of_the_idle_and_waits_for_the_busy(run: Run) -> None:
    async def test() -> None:
        async with hosting() as host:
            idle_reader, idle_writer = await host.connect()
            busy_reader, busy_writer = await host.connect()
            busy_writer.write(ANSWER_LATER)
            await until(lambda: any(session.busy for session in host.sessions))
            busy = next(session for session in host.sessions if session.busy)
            host.listener.drain()
            draining = asyncio.create_task(host.listener.wait_drained(PATIENCE_S * 1000))
            assert await idle_reader.read() == b""
            assert not draining.done()
            busy.answer()
            assert await busy_reader.readline() == b"now\n"
            await closed(busy_writer)
            assert await draining == 0
            with pytest.raises(OSError):
                await host.connect()
            await closed(idle_writer)

    run(test)


def test_draining_has_an_end(run: Run) -> None:
    async def test() -> None:
        async with hosting() as host:
            reader, writer = await host.connect()
            writer.write(ANSWER_LATER)
            await until(lambda: bool(host.sessions) and host.sessions[0].busy)
            host.listener.drain()
            assert await host.listener.wait_drained(1) == 1
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            await closed(writer)

    run(test)


@pytest.mark.parametrize("run", CLEAR, indirect=True)
def test_a_taken_port_is_named(run: Run) -> None:
    async def test() -> None:
        async with hosting() as host:
            limits = ListenerLimits(connections_max=1, idle_timeout_ms=1000, write_buffer_bytes_max=1)
            second = Listener("again", host.listener.address, EchoSession, limits, ChunkPool())
            with pytest.raises(PortTaken) as caught:
                second.bind()
            assert (caught.value.name, caught.value.address) == ("again", host.listener.address)

    run(test)


@pytest.mark.parametrize("run", CLEAR, indirect=True)
def test_two_that_bound_one_port_do_not_both_listen(run: Run) -> None:
    """With SO_REUSEADDR the kernel lets two sockets bind that do not listen yet."""

    async def test() -> None:
        limits = ListenerLimits(connections_max=1, idle_timeout_ms=1000, write_buffer_bytes_max=1)
        first = Listener("first", LOOPBACK, EchoSession, limits, ChunkPool())
        first.bind()
        second = Listener("second", first.address, EchoSession, limits, ChunkPool())
        second.bind()
        await first.start()
        with pytest.raises(PortTaken):
            await second.start()
        first.close()
        second.close()

    run(test)


def test_many_connections_that_end_at_once_take_turns(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = 0
    ended: Counter[int] = Counter()

    def busy_end(session: EchoSession) -> None:
        time.sleep(END_SECONDS)
        ended[turn] += 1

    async def test() -> None:
        nonlocal turn
        monkeypatch.setattr(EchoSession, "closed", busy_end)
        async with hosting() as host:
            writers = [(await host.connect())[1] for _ in range(ENDING)]
            await until(lambda: host.listener.connections == ENDING)
            for writer in writers:
                writer.transport.abort()
            while host.listener.connections:
                turn += 1
                await asyncio.sleep(0)
        assert ended.total() == ENDING
        assert max(ended.values()) <= TURN_SECONDS / END_SECONDS + 1

    run(test)


def test_a_session_that_fails_at_its_end_keeps_no_other_from_its_own(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing_end(session: EchoSession) -> None:
        time.sleep(TURN_SECONDS)
        raise RuntimeError("a bug")

    async def test() -> None:
        monkeypatch.setattr(EchoSession, "closed", failing_end)
        async with hosting() as host:
            writers = [(await host.connect())[1] for _ in range(5)]
            await until(lambda: host.listener.connections == 5)
            for writer in writers:
                writer.transport.abort()
            await until(lambda: host.listener.connections == 0)
            assert host.listener.traffic.failed == 5
        assert "a session failed at its end" in caplog.text

    run(test)


def test_a_session_is_told_where_both_ends_are(run: Run) -> None:
    async def test() -> None:
        async with hosting() as host:
            _, writer = await host.connect()
            await until(lambda: bool(host.sessions))
            (peer, peer_port), (own, port) = (writer.get_extra_info(name) for name in ("sockname", "peername"))
            endpoints = host.sessions[0].endpoints
            assert endpoints == Endpoints(peer, peer_port, own, port, host.listener.name, is_encrypted=_way.is_tls)
            assert str(endpoints) == f"127.0.0.1:{peer_port} -> 127.0.0.1:{port}"
            writer.close()

    run(test)


def test_a_connection_is_known_by_its_traffic_and_ends_when_it_is_told(run: Run) -> None:
    async def test() -> None:
        async with hosting(idle_timeout_ms=200) as host:
            reader, writer = await host.connect()
            writer.write(b"hello\n")
            assert await reader.readline() == b"hello\n"
            (connection,) = host.listener.open_connections()
            assert (connection.received_bytes, connection.sent_bytes) == (6, 6)
            assert connection.id.startswith("echo-")
            assert connection.endpoints.peer == "{}:{}".format(*writer.get_extra_info("sockname"))
            assert connection.peer is None, "this protocol does not say"
            writer.write(ANSWER_LATER)
            await until(lambda: host.sessions[0].busy)
            host.listener.end(connection)
            assert await reader.read() == b"", "cut, because what is in flight did not finish"
            assert host.listener.open_connections() == []
            await closed(writer)

    run(test)
