"""`mainstem tls init`: files that a broker and a client can use at once."""

import json
import ssl
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.support.serving.program import running


def init(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mainstem.cli", "tls", "init", str(directory), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_its_files_serve_a_broker_and_a_client(tmp_path: Path) -> None:
    directory = tmp_path / "certificates"
    made = init(directory, "--host", "broker.example", "--user", "ana")
    assert made.returncode == 0, made.stderr
    paths = sorted(directory.iterdir())
    files = [f"{name}.{end}" for name in ("ca", "server", "client") for end in ("crt", "key")]
    assert made.stdout.split() == [str(directory / file) for file in files]
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    named = {"certificate_file": "server.crt", "key_file": "server.key", "client_ca_file": "ca.crt"}
    options = [word for name, file in named.items() for word in ("--set", f"tls.{name}={directory / file}")]
    options += ["--listen", "http+tls=127.0.0.1:0", "--set", "tls.client_certificates=required"]
    with running(tmp_path / "data", *options) as program:
        port = program.wait_ready()["http+tls"][0].rpartition(":")[2]
        context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
        context.load_cert_chain(directory / "client.crt", directory / "client.key")
        with urllib.request.urlopen(f"https://localhost:{port}/ready", timeout=30, context=context) as reply:
            assert json.load(reply)["status"] == "ready"


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    (tmp_path / "server.key").write_text("precious")
    refused = init(tmp_path)
    assert refused.returncode == 1
    assert "has files of server already" in refused.stderr
    assert (tmp_path / "server.key").read_text() == "precious"
