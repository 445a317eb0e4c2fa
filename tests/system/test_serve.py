"""`mainstem serve` as an operator meets it."""

import signal
import socket
import time
from pathlib import Path

import pytest

from tests.support.serving.program import ANY_PORT, PATIENCE_S, get, running

pytestmark = pytest.mark.system

READY_S_MAX = 5
"""About a second on a quiet machine; tests share theirs."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_gets_ready_answers_and_ends_with_0(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path / "data", "--listen", ANY_PORT) as program:
        (address,) = program.wait_ready()["http"]
        assert time.monotonic() - program.started < READY_S_MAX
        assert get(address, "/health")[0] == 200
        assert get(address, "/ready")[0] == 200
        assert "mainstem_ready 1.0" in get(address, "/metrics")[1]
        assert get(address, "/nowhere")[0] == 404
        program.signal(number)
        status, out, err = program.wait_end()
        assert (status, out) == (0, "")
        assert "Traceback" not in err


def test_it_starts_again_on_its_data(tmp_path: Path) -> None:
    for _ in range(2):
        with running(tmp_path / "data", "--listen", ANY_PORT) as program:
            program.wait_ready()
            program.signal(signal.SIGTERM)
            assert program.wait_end()[0] == 0


def test_it_starts_again_after_a_kill(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--listen", ANY_PORT) as program:
        program.wait_ready()
        program.signal(signal.SIGKILL)
        assert program.wait_end()[0] == -signal.SIGKILL
    with running(tmp_path / "data", "--listen", ANY_PORT) as program:
        program.wait_ready()
        program.signal(signal.SIGTERM)
        assert program.wait_end()[0] == 0


def test_it_listens_in_several_places(tmp_path: Path) -> None:
    with running(tmp_path / "data", environment={"MAINSTEM_LISTEN_HTTP": "127.0.0.1:0,127.0.0.1:0"}) as program:
        first, second = program.wait_ready()["http"]
        assert first != second
        assert get(first, "/health")[0] == get(second, "/health")[0] == 200


def test_taken_ports_are_named_and_end_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        taken = [f"http=127.0.0.1:{server.getsockname()[1]}" for server in (one, two)]
        with running(tmp_path / "data", *(word for name in taken for word in ("--listen", name))) as program:
            status, out, err = program.wait_end()
    assert (status, out) == (1, "")
    assert all(name in err for name in taken)
    assert err.count("--listen http=off") == 2
    assert "Traceback" not in err


def test_a_second_broker_on_one_directory_is_refused(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--listen", ANY_PORT) as first:
        (address,) = first.wait_ready()["http"]
        with running(tmp_path / "data", "--listen", ANY_PORT) as second:
            status, out, err = second.wait_end()
        assert (status, out) == (1, "")
        assert str(tmp_path / "data") in err
        assert "Traceback" not in err
        assert get(address, "/health")[0] == 200, "the first one suffered"


def test_unknown_settings_are_refused_by_name(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text("[storage]\nflussh = 'os'\n")
    options = ("--config", str(config), "--listen", "sqs=127.0.0.1:0", "--listen", "htp=127.0.0.1:0")
    with running(tmp_path / "data", *options, environment={"MAINSTEM_DATADIR": "x"}) as program:
        status, out, err = program.wait_end()
    assert (status, out) == (2, "")
    for part in ("'storage.flussh'", "'storage.flush'", "'MAINSTEM_DATADIR'", "'MAINSTEM_DATA_DIR'", "'htp'", "'http'"):
        assert part in err
    assert "unknown listener 'sqs' (flag --listen)" in err
    assert not (tmp_path / "data").exists()


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with running(tmp_path / "file", "--listen", ANY_PORT) as program:
        status, out, err = program.wait_end()
    assert (status, out) == (1, "")
    assert "Traceback" not in err


def test_a_request_in_flight_is_finished_and_told_that_it_is_the_last(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--listen", ANY_PORT) as program:
        (address,) = program.wait_ready()["http"]
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as client:
            client.sendall(b"GET /ready HTTP/1.1\r\n")
            assert get(address, "/health")[0] == 200  # by now the beginning was received
            program.signal(signal.SIGTERM)
            wait_refused(host, int(port))
            client.sendall(b"Host: localhost\r\n\r\n")
            reply = b""
            while part := client.recv(65536):
                reply += part
        assert reply.startswith(b"HTTP/1.1 503 ")
        assert b"connection: close" in reply.lower()
        assert program.wait_end()[0] == 0


def wait_refused(host: str, port: int) -> None:
    """Until the program accepts no more: it is draining."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, port), timeout=PATIENCE_S).close()
        except ConnectionError:
            return
    raise AssertionError("still accepting")
