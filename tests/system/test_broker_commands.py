"""Commands against a running broker: in a pipe, at a terminal, and how they end."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.serving.program import ANY_PORT, PATIENCE_S, running
from tests.system.commands import Shell

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    home = tmp_path_factory.mktemp("commands")
    options = ("--listen", ANY_PORT, "--listen", "kafka=off")
    with running(home / "data", *options) as program:
        yield Shell(program.wait_ready()["http"][0], home)


def test_what_is_consumed_can_be_produced_and_is_the_same(shell: Shell) -> None:
    shell.run("topic", "create", "t", "--partitions", "2")
    shell.run("topic", "create", "copy", "--partitions", "2")
    shell.run("produce", "t", "hello", '{"a":  1}', "-k", "k", "-H", "who=me")
    shell.run("produce", "t", given='{"b": 2}\nplain\n\xe9\n'.encode("latin-1"))
    first = shell.run("consume", "t", "-o", "jsonl")
    assert len(first.splitlines()) == 5
    shell.run("produce", "copy", given=first)
    assert shell.run("consume", "copy") == first
    assert shell.run("consume", "t", "--from", "-1", "-o", "name") == "base64:6Q==\n"
    assert shell.run("consume", "t", "--where", "a = 1", "-o", "name") == '{"a": 1}\n'
    assert len(shell.lines("consume", "t", "--count", "2")) == 2
    assert shell.lines("consume", "t", "--from", "end") == []


def test_a_follower_ends_after_so_many(shell: Shell) -> None:
    shell.run("topic", "create", "followed")
    follower = subprocess.Popen(
        [sys.executable, "-m", "mainstem.cli", "consume", "followed", "-f", "--count", "2", "-o", "name"],
        stdout=subprocess.PIPE,
        env=shell.environment,
    )
    shell.run("produce", "followed", "one", "two", "three")
    out, _ = follower.communicate(timeout=PATIENCE_S)
    assert (follower.returncode, out) == (0, b"one\ntwo\n")


def test_nouns_have_the_same_verbs(shell: Shell) -> None:
    shell.run("topic", "create", "orders.eu", "--config", "retention.ms=5000")
    shell.run("topic", "change", "orders.eu", "--partitions", "3", "--config", "retention.ms=")
    (found,) = shell.lines("topic", "list", "--search", "orders")
    assert (found["name"], found["partitions"]) == ("orders.eu", 3)
    assert shell.run("topic", "list", "--search", "orders", "-o", "name") == "orders.eu\n"
    assert shell.run("topic", "list", "--search", "orders", "-o", "csv").splitlines()[0].startswith("name,kind")
    shell.run("queue", "create", "dead")
    shell.run("queue", "create", "work", "--dead-letters", "dead")
    shell.run("produce", "work", "job")
    (message,) = shell.lines("queue", "messages", "work")
    assert (message["place"], message["value"]) == ("0:0", "job")
    shell.run("queue", "pause", "work")
    assert shell.lines("queue", "show", "work")[0]["paused"] is True
    shell.run("queue", "resume", "work")
    assert "1 messages would be purged" in shell.run("queue", "purge", "work", "--dry-run")
    shell.run("queue", "purge", "work", "--yes")
    shell.run("queue", "rewind", "work", "--to-offset", "0", "--yes")
    assert shell.lines("deadletter", "list", "dead") == []
    waiting = shell.run("schedule", "add", "work", "later", "--in", "2h", "-o", "name").strip()
    moved = shell.run("schedule", "move", waiting, "--in", "3h", "-o", "name").strip()
    assert [one["id"] for one in shell.lines("schedule", "list")] == [moved]
    shell.run("schedule", "cancel", moved, "--dry-run")
    shell.run("schedule", "cancel", moved, "--yes")
    shell.run("alarm", "set", "quiet", "live.records_in", "--below", "1", "--for", "1h", "--critical")
    assert "quiet" in shell.run("alarm", "rules", "-o", "name").split()
    shell.run("alarm", "remove", "quiet", "--yes")
    assert shell.run("alarm", "remove", "quiet", status=3) == ""
    shell.run("alarm", "list")
    assert shell.lines("status")[0]["condition"] == "ready"
    assert shell.run("topic", "show", "work", "--curl") == f"curl -sS -X GET http://{shell.address}/v1/topics/work\n"
    assert "mainstem" in shell.run("completion", "bash")
    assert shell.lines("bench", "work", "--duration", "200ms", "--clients", "1")[0]["requests"] > 0


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("topic", "show", "none"), 3, "There is no such topic"),
        (("consume", "none"), 3, "There is no such topic"),
        (("group", "show", "none"), 3, "There is no such group"),
        (("group", "seek", "none", "--to-end", "--yes"), 3, "There is no such group"),
        (("queue", "show", "none"), 3, "There is no such queue"),
        (("topic", "create", "a b"), 4, "cannot be a topic's"),
        (("consume", "known", "--where", "a >"), 4, "a value is expected"),
        (("topic", "delete", "known"), 2, "needs --yes"),
        (("consume", "known", "--from", "soon"), 2, "must be an offset, a time"),
        (("group", "seek", "g"), 2, "one of --to-start"),
        (("topic", "list", "--address", "127.0.0.1:1"), 5, "does not answer"),
        (("topic", "list", "--address", "nonsense:x"), 2, "is not HOST:PORT"),
        (("topic", "list", "--context", "none"), 2, "there is no context none"),
        (("context", "use", "none"), 3, "there is no context none"),
        (("completion", "csh"), 2, "csh is not one of"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_sentence_and_a_status(
    shell: Shell, words: tuple[str, ...], status: int, sentence: str
) -> None:
    shell.run("topic", "create", "known", status=0 if "known" not in shell.run("topic", "list", "-o", "name") else 4)
    assert shell.run(*words, status=status) == ""
    assert sentence in shell.errors
    assert shell.errors.count("\n") == 1, shell.errors


def test_at_a_terminal_there_are_tables_and_questions(shell: Shell) -> None:
    shell.run("topic", "create", "asked")
    status, screen = shell.at_terminal("topic", "list", "--search", "asked")
    assert (status, screen.split()[:2]) == (0, ["NAME", "KIND"])
    status, screen = shell.at_terminal("topic", "delete", "asked", types="no\n")
    assert status == 4
    assert "nothing was done" in screen
    status, screen = shell.at_terminal("topic", "delete", "asked", types="asked\n")
    assert status == 0
    assert "Topic asked is deleted." in screen
    shell.run("topic", "create", "seen")
    shell.run("produce", "seen", "hello", "-k", "k")
    status, screen = shell.at_terminal("consume", "seen")
    assert status == 0
    assert screen.split()[1:] == ["0:0", "k", "hello"]


def test_contexts_are_kept_and_used(shell: Shell, tmp_path: Path) -> None:
    shell.environment = {**shell.environment, "MAINSTEM_CONTEXTS": str(tmp_path / "c.toml"), "MAINSTEM_ADDRESS": ""}
    shell.run("context", "add", "here", shell.address)
    shell.run("context", "add", "there", "127.0.0.1:1", "--user", "ana")
    assert oct((tmp_path / "c.toml").stat().st_mode)[-3:] == "600"
    shell.run("topic", "list")
    shell.run("topic", "list", "--context", "there", status=5)
    shell.run("context", "use", "there")
    assert [one["current"] for one in shell.lines("context", "list")] == [False, True]
    shell.run("topic", "list", status=5)
    shell.run("context", "remove", "there", status=2)
    shell.run("context", "remove", "there", "--yes")
    shell.run("context", "show", status=3)
    shell.environment["MAINSTEM_ADDRESS"] = shell.address


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_is_quick_and_loads_no_broker(option: str) -> None:
    code = (
        "import sys\nfrom mainstem.cli.app import main\n"
        f"sys.argv = ['mainstem', {option!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "rooms = ('server', 'protocols', 'broker', 'storage', 'coordination', 'pipelines', 'transport')\n"
        "loaded = [n for n in sys.modules if n.startswith('mainstem.') and n.split('.')[1] in rooms]\n"
        "print(loaded, file=sys.stderr)\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ran.stderr == "[]\n"
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5, "0.15 s where nothing else runs"


def test_exchanges_are_made_bound_and_removed(shell: Shell) -> None:
    shell.run("queue", "create", "bound")
    shell.run("exchange", "create", "prices", "--kind", "topic", "--argument", "alternate-exchange=amq.fanout")
    assert shell.lines("exchange", "bind", "prices", "bound", "--key", "a.*")[0]["routing_key"] == "a.*"
    shell.run("exchange", "bind", "prices", "amq.direct", "--to-exchange")
    assert len(shell.lines("exchange", "show", "prices")[0]["bindings"]) == 2
    assert "prices" in shell.run("exchange", "list", "-o", "name").split()
    assert len(shell.lines("exchange", "unbind", "prices", "bound", "--dry-run")) == 1
    shell.run("exchange", "unbind", "prices", "bound", "--key", "b", "--yes", status=3)
    shell.run("exchange", "unbind", "prices", "bound", "--yes")
    assert "would be deleted" in shell.run("exchange", "delete", "prices", "--dry-run")
    shell.run("exchange", "delete", "prices", status=2)
    status, screen = shell.at_terminal("exchange", "delete", "prices", types="prices\n")
    assert (status, "Exchange prices is deleted." in screen) == (0, True)
    shell.run("exchange", "show", "prices", status=3)


def test_a_request_prints_its_reply_or_ends_with_1(shell: Shell) -> None:
    shell.run("topic", "create", "asked.prices")
    shell.run("request", "asked.prices", "ping", "--timeout", "50ms", status=1)
    assert "nobody has answered" in shell.errors
    shell.run("request", "asked.prices", "ping", "--timeout", "2h", status=2)
    asking = shell.start("request", "asked.prices", "ping", "-H", "a=b", "--timeout", "20s")
    request = json.loads(shell.run("consume", "asked.prices", "--from", "1", "-f", "-n", "1", "-o", "jsonl"))
    assert (request["text"], request["headers"]["a"]) == ("ping", "b")
    correlation = f"correlation-id={request['headers']['correlation-id']}"
    shell.run("produce", request["headers"]["reply-to"], "pong", "-H", correlation)
    assert asking.communicate(timeout=PATIENCE_S)[0] == b"pong\n"
    assert asking.returncode == 0


def test_consumers_of_a_topic_are_listed(shell: Shell) -> None:
    shell.run("queue", "create", "read.here")
    shell.run("produce", "read.here", "a")
    (found,) = shell.lines("topic", "consumers", "read.here")
    assert (found["kind"], found["name"], found["lag_messages"]) == ("queue", "read.here", 1)
    status, screen = shell.at_terminal("topic", "consumers", "read.here")
    assert (status, screen.split()[:3]) == (0, ["NAME", "KIND", "MEMBERS"])
    shell.run("topic", "consumers", "none", status=3)


def test_top_draws_a_screen_and_writes_lines_in_a_pipe(shell: Shell) -> None:
    shell.run("topic", "create", "busy")
    seen = shell.lines("top", "--count", "2", "--interval", "100ms")
    assert len(seen) == 2
    assert {"time_ms", "topics", "alarms"} <= seen[0].keys()
    status, screen = shell.at_terminal("top", types="q")
    assert status == 0
    assert "\x1b[?1049h" in screen, "it takes the screen"
    assert screen.rstrip().endswith("\x1b[?1049l"), "and gives it back"
    assert "BUSIEST TOPICS" in screen
    status, screen = shell.at_terminal("top", "--count", "2", "--interval", "100ms")
    assert (status, screen.count("PROTOCOL")) == (0, 2)


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_names(shell: Shell, name: str) -> None:
    assert "_MAINSTEM_COMPLETE" in shell.run("completion", name)
    shell.run("topic", "create", f"completed.{name}")
    typed = {
        "bash": {"COMP_WORDS": "mainstem topic show compl", "COMP_CWORD": "3"},
        "zsh": {"_TYPER_COMPLETE_ARGS": "mainstem topic show compl"},
        "fish": {"_TYPER_COMPLETE_ARGS": "mainstem topic show compl", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[name]
    found = shell.complete(name, **typed)
    assert f"completed.{name}" in found
    away = shell.complete(name, **typed, MAINSTEM_ADDRESS="127.0.0.1:1")
    assert away.strip() in ("", "_files"), away


def test_every_form_of_output_is_everywhere(shell: Shell) -> None:
    shell.run("topic", "create", "formed")
    for words in (("topic", "list", "--search", "formed"), ("topic", "show", "formed"), ("status",)):
        assert json.loads(shell.run(*words, "-o", "json"))
        assert len(shell.run(*words, "-o", "jsonl").splitlines()) == 1
        assert len(shell.run(*words, "-o", "csv").splitlines()) == 2
        assert len(shell.run(*words, "-o", "name").splitlines()) == 1
        assert shell.run(*words, "-o", "table")
