"""Messages over HTTP with the real program: the session of the documentation, followers, and a broker that is killed."""

import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.serving.program import ANY_PORT, PATIENCE_S, Program, get, post, running

pytestmark = pytest.mark.system

PAGE = (Path(__file__).parents[2] / "docs" / "protocols" / "http.md").read_text(encoding="utf-8")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with running(tmp_path / "data", "--listen", ANY_PORT, "--listen", "kafka=off") as program:
        yield program.wait_ready()["http"][0]


def session_of(page: str) -> list[tuple[str, str]]:
    """The commands of the section, each with what it answers."""
    section = page.partition("## A session\n")[2].partition("\n## ")[0]
    steps: list[tuple[str, str]] = []
    for line in section.splitlines():
        text = line[4:]
        if text.startswith("$ "):
            steps.append((text[2:], ""))
        elif steps and not steps[-1][1] and steps[-1][0].endswith("\\"):
            steps[-1] = (steps[-1][0][:-1] + text, "")
        elif text:
            steps[-1] = (steps[-1][0], steps[-1][1] + text + "\n")
    return steps


def test_the_session_of_the_page_goes_as_it_says(address: str, tmp_path: Path) -> None:
    steps = session_of(PAGE)
    assert len(steps) > 10
    script = ""
    for number, (command, _) in enumerate(steps):
        command = command.replace("localhost:8282", address).replace("/tmp/", f"{tmp_path}/")
        script += f"{{ {command}\n}} > {tmp_path}/out{number}\n"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=PATIENCE_S)
    assert ran.returncode == 0, ran.stderr
    for number, (command, wanted) in enumerate(steps):
        pattern = re.escape(wanted.strip()).replace(re.escape("..."), ".*")
        found = (tmp_path / f"out{number}").read_text().strip()
        assert re.match(pattern, found, re.DOTALL), f"{command}\nanswered {found}\ninstead of {wanted}"


def read_until(peer: socket.socket, wanted: bytes, seen: bytes) -> bytes:
    while wanted not in seen:
        data = peer.recv(1 << 16)
        assert data, seen
        seen += data
    return seen


def test_a_follower_gets_all_that_comes_and_ends_with_the_broker(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--listen", ANY_PORT, "--listen", "kafka=off") as program:
        address = program.wait_ready()["http"][0]
        post(address, "/v1/topics", {"name": "t"})
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as follower:
            follower.sendall(b"GET /v1/topics/t/follow?where=value.n%20%3E%201 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            seen = read_until(follower, b"follows", b"")
            post(address, "/v1/topics/t/records", {"records": [{"value": {"n": n}} for n in range(1, 4)]})
            seen = read_until(follower, b'{"n": 3}', seen)
            assert b"id: 0:2\n" in seen
            assert b"id: 0:3\n" in seen
            assert b'"n": 1' not in seen
            program.signal(signal.SIGTERM)
            while data := follower.recv(1 << 16):
                seen += data
            assert seen.endswith(b"0\r\n\r\n"), "the content ends as HTTP ends it"
        assert program.wait_end()[0] == 0


def test_a_killed_broker_gives_again_what_was_not_settled(tmp_path: Path) -> None:
    data = tmp_path / "data"
    options = ("--listen", ANY_PORT, "--listen", "kafka=off")
    first = Program(data, *options)
    address = first.wait_ready()["http"][0]
    post(address, "/v1/queues", {"name": "q"})
    post(address, "/v1/topics/q/records", {"records": [{"value": n} for n in range(10)]})
    taken = post(address, "/v1/queues/q/receive", {"max": 6, "wait_ms": 5_000})["messages"]
    settled = [message["receipt"] for message in taken[:3]]
    assert post(address, "/v1/queues/q/settle", {"accept": settled})["done"] == 3
    first.signal(signal.SIGKILL)
    first.wait_end()
    with running(data, *options) as second:
        address = second.wait_ready()["http"][0]
        again = []
        while len(again) < 7:
            messages = post(address, "/v1/queues/q/receive", {"max": 10, "wait_ms": 5_000})["messages"]
            assert messages, "some were lost"
            again += [message["value"] for message in messages]
        assert sorted(again) == [3, 4, 5, 6, 7, 8, 9]
        late = post(address, "/v1/queues/q/settle", {"accept": [taken[5]["receipt"]]})
        assert late == {"done": 0, "unknown": [taken[5]["receipt"]]}, "a receipt of an earlier run"


def test_a_killed_broker_publishes_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    options = ("--listen", ANY_PORT, "--listen", "kafka=off")
    content, key = {"records": [{"value": 1}, {"value": 2}]}, {"Idempotency-Key": "k"}
    first = Program(data, *options)
    address = first.wait_ready()["http"][0]
    post(address, "/v1/topics", {"name": "t"})
    assert post(address, "/v1/topics/t/records", content, key)["repeated"] is False
    first.signal(signal.SIGKILL)
    first.wait_end()
    with running(data, *options) as second:
        address = second.wait_ready()["http"][0]
        assert post(address, "/v1/topics/t/records", content, key)["repeated"] is True
        _, text = get(address, "/v1/topics/t/records")
        assert len(json.loads(text)["records"]) == 2
