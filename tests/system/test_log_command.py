"""`mainstem log` as an operator types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.serving.program import ANY_PORT, PATIENCE_S, running
from tests.support.storage.inspected_directory import LARGE, PLAIN, InspectedDirectory

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> InspectedDirectory:
    return InspectedDirectory(tmp_path_factory.mktemp("inspected") / "data").build()


def command(*words: str | Path) -> list[str]:
    return [str(Path(sys.executable).parent / "mainstem"), "log", *map(str, words)]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")}


def run(*words: str | Path) -> tuple[int, str, str]:
    ended = subprocess.run(command(*words), capture_output=True, timeout=PATIENCE_S, env=environment(), text=True)
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stdout, ended.stderr


def test_a_clean_directory(directory: InspectedDirectory) -> None:
    status, out, err = run("verify", "--data-dir", directory.root)
    assert (status, err) == (0, "")
    assert out.endswith(": all whole\n")
    status, out, _ = run("verify", "--data-dir", directory.root, "--json")
    (summary,) = map(json.loads, out.splitlines())
    assert summary["found"] == {"damage": 0, "unsupported": 0, "note": 0}


def test_damage_is_named_and_ends_with_1(directory: InspectedDirectory) -> None:
    run_file = min((directory.root / "runs").iterdir())
    content = run_file.read_bytes()
    try:
        run_file.write_bytes(content[:1000] + bytes([content[1000] ^ 1]) + content[1001:])
        status, out, _ = run("verify", "--data-dir", directory.root, "--json")
        damage, summary = map(json.loads, out.splitlines())
        assert status == 1
        assert (damage["severity"], damage["file"]) == ("damage", str(run_file))
        assert 512 <= damage["position"] <= 1000
        assert len(damage["logs"]) == 1
        assert summary["found"]["damage"] == 1
        status, out, _ = run("dump", "--data-dir", directory.root)
        assert status == 1
        assert f"! {run_file} at " in out
    finally:
        run_file.write_bytes(content)


def test_every_record_of_a_log(directory: InspectedDirectory) -> None:
    status, out, err = run(
        "dump", "--data-dir", directory.root, "--records", "--json", "--log", str(PLAIN), "--from", "31"
    )
    assert (status, err) == (0, "")
    records = [row for row in map(json.loads, out.splitlines()) if row["kind"] == "record"]
    written = directory.remaining(PLAIN)
    assert [row["offset"] for row in records] == sorted(written)
    for row in records:
        record = written[row["offset"]]
        assert record.key is not None
        assert record.value is not None
        assert (row["timestamp_ms"], row["key"].encode(), row["value"].encode()) == record[1:4]


def test_one_file_for_people(directory: InspectedDirectory) -> None:
    state = min((directory.root / "state").iterdir())
    status, out, _ = run("dump", state)
    assert status == 0
    assert out.startswith(f"{state}: state, ")
    status, out, _ = run("dump", "--records", "--width", "10", "--log", str(LARGE), "--data-dir", directory.root)
    assert status == 0
    assert out.count("... (70000 bytes)") == 3


def test_sizes(directory: InspectedDirectory) -> None:
    status, out, _ = run("stat", "--data-dir", directory.root, "--top", "2", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [row["log"] == LARGE for row in rows if row["kind"] == "log"] == [True, False]
    assert {"files", "scope", "log"} == {row["kind"] for row in rows}
    assert run("stat", "--data-dir", directory.root)[1].startswith("files ")


def test_a_reader_that_has_seen_enough_ends_it_quietly(directory: InspectedDirectory) -> None:
    with subprocess.Popen(
        command("dump", "--records", "--json", "--data-dir", directory.root),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE_S) == 141


def test_what_is_no_data_directory_ends_with_2(tmp_path: Path) -> None:
    for words, path in ((["verify"], tmp_path / "missing"), (["dump"], tmp_path), (["stat"], tmp_path)):
        status, out, err = run(*words, "--data-dir", path)
        assert (status, out) == (2, "")
        assert str(path) in err
    assert list(tmp_path.iterdir()) == []
    assert run("dump", tmp_path / "missing.wal")[0] == 2
    assert run("verify", "--data-dir", tmp_path, "--wal-dir", tmp_path / "missing")[0] == 2


def test_other_directories_and_the_config_of_the_broker(directory: InspectedDirectory, tmp_path: Path) -> None:
    """The parts elsewhere, named by options or in a file."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "identity").write_bytes((directory.root / "identity").read_bytes())
    (root / "state").symlink_to(directory.root / "state")
    wal, runs = directory.root / "wal", directory.root / "runs"
    status, out, err = run("verify", "--data-dir", root, "--wal-dir", wal, "--run-dir", runs)
    assert (status, err) == (0, ""), out
    config = tmp_path / "mainstem.toml"
    config.write_text(f'data_dir = "{root}"\n[storage]\nwal_directory = "{wal}"\nrun_directories = ["{runs}"]\n')
    assert run("verify", "--config", config) == (status, out, err)


def test_beside_a_running_broker(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "--listen", ANY_PORT) as program:
        program.wait_ready()
        for words in (["verify"], ["stat"], ["dump"]):
            status, _, err = run(*words, "--data-dir", data)
            assert status == 0
            assert err.startswith(f"mainstem: note: a broker (process {program.process.pid}) is using {data}")
    assert run("verify", "--data-dir", data)[2] == ""
