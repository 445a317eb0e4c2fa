"""The commands as they are typed."""

import json
import re
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from mainstem.cli.app import app
from mainstem.server.settings import known_keys


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in known_keys().values():
        monkeypatch.delenv(key.variable, raising=False)


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, words)
    return result.exit_code, result.stdout, result.stderr


def test_version() -> None:
    assert run("--version") == (0, f"mainstem {version('mainstem')}\n", "")


def test_config_show_names_every_setting_and_its_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSTEM_LOG_LEVEL", "error")
    status, out, _ = run("config", "show", "--listen", "http=127.0.0.1:0")
    assert status == 0
    assert [row.split(" = ")[0] for row in out.splitlines()] == list(known_keys())
    assert 'listen.http = ["127.0.0.1:0"]  # flag --listen\n' in out
    assert 'log_level = "error"  # environment MAINSTEM_LOG_LEVEL\n' in out
    assert "advertise.http = none  # default\n" in out


def test_config_show_as_json() -> None:
    status, out, _ = run("config", "show", "--json", "--set", "limits.connections_max=7")
    assert status == 0
    rows = {row["key"]: (row["value"], row["origin"]) for row in json.loads(out)}
    assert rows["limits.connections_max"] == (7, "flag --set")
    assert rows["listen.http"] == (["127.0.0.1:8282"], "default")


@pytest.mark.parametrize("command", [["serve"], ["config", "show"]])
def test_what_cannot_be_set_ends_with_2_and_without_a_trace(command: list[str]) -> None:
    status, out, err = run(*command, "--set", "limits.connection_max=7", "--listen", "sqs=h:1")
    assert (status, out) == (2, "")
    assert "limits.connections_max" in err
    assert "unknown listener 'sqs'" in err
    assert all(re.match("mainstem: error: ", row) for row in err.splitlines())


def test_an_unknown_option_ends_with_2() -> None:
    assert run("serve", "--datadir", "x")[0] == 2
