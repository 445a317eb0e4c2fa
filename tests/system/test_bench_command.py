"""`mainstem bench` over each protocol: what it says was published is there."""

from collections.abc import Iterator

import pytest

from tests.system.commands import Shell, serving

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with serving(tmp_path_factory.mktemp("bench")) as (shell, _):
        shell.run("queue", "create", "load")
        yield shell


def _records(shell: Shell) -> int:
    return int(shell.lines("topic", "list", "--search", "load")[0]["records"])


@pytest.mark.parametrize("protocol", ["http", "kafka", "amqp"])
def test_what_is_counted_is_stored(shell: Shell, protocol: str) -> None:
    before = _records(shell)
    options = ("--duration", "300ms", "--clients", "2", "--batch", "10", "--size", "50")
    (found,) = shell.lines("bench", "load", "-p", protocol, *options)
    assert found["records"] == found["requests"] * 10 > 0
    assert _records(shell) - before == found["records"]
    assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["p99.9_ms"] < 10_000
    assert shell.errors == "", "nobody watches the progress"


@pytest.mark.parametrize("protocol", ["http", "kafka"])
def test_it_reads(shell: Shell, protocol: str) -> None:
    shell.run("produce", "load", "a", "b", "c")
    (found,) = shell.lines("bench", "load", "-p", protocol, "--read", "--duration", "200ms", "--clients", "1")
    assert found["records"] >= 3


def test_a_large_message_is_sent_in_frames(shell: Shell) -> None:
    (found,) = shell.lines(
        "bench", "load", "-p", "amqp", "--duration", "1ms", "--clients", "1", "--batch", "1", "--size", "300000"
    )
    assert found["records"] >= 1


def test_at_a_terminal_progress_is_shown(shell: Shell) -> None:
    status, screen = shell.at_terminal("bench", "load", "--duration", "300ms", "--clients", "1")
    assert status == 0
    assert " records" in screen
    assert "records_per_second" in screen


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("load", "-p", "smoke"), 2, "one of http, kafka, amqp"),
        (("load", "-p", "amqp", "--read"), 2, "to read from http or kafka"),
        (("load", "--batch", "10000", "--size", "100000"), 2, "at most"),
        (("none",), 3, "There is no such topic"),
        (("plain", "-p", "amqp"), 1, "no queue 'plain'"),
    ],
)
def test_what_cannot_be_measured_is_said(shell: Shell, words: tuple[str, ...], status: int, sentence: str) -> None:
    if words[0] == "plain":
        shell.run("topic", "create", "plain")
    assert shell.run("bench", *words, status=status) == ""
    assert sentence in shell.errors
