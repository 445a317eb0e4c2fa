"""What cannot be a cluster is refused with a sentence; what an operator asks is answered."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.serving.program import Program, running
from tests.support.serving.shared_store import READER_KEYS, ClusterBroker, SharedStore, shared_store

LISTEN = ("--listen", "http=127.0.0.1:0", "--listen", "kafka=127.0.0.1:0", "--listen", "amqp=127.0.0.1:0")


@pytest.fixture(scope="module")
def store() -> Iterator[SharedStore]:
    with shared_store() as store:
        yield store


def refusal(store: SharedStore, data_dir: Path, *options: str, **environment: str) -> str:
    """What a broker that does not start says."""
    program = Program(data_dir, *(options or store.options), *LISTEN, environment=store.environment | environment)
    status, out, err = program.wait_end()
    assert status in (1, 2), out
    assert "Traceback" not in err
    return err


def asked(store: SharedStore, *command: str) -> tuple[int, str]:
    words = [sys.executable, "-m", "mainstem.cli", "cluster", *command, "--cluster", store.database]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_what_cannot_be_is_refused_with_a_sentence(store: SharedStore, tmp_path: Path) -> None:
    half = refusal(store, tmp_path / "a", "--cluster", store.database)
    assert "needs both" in half
    assert "must be s3://" in refusal(store, tmp_path / "a", "--cluster", store.database, "--store", "/tmp")
    away = refusal(store, tmp_path / "a", "--cluster", "postgresql://127.0.0.1:1/x", "--store", store.address)
    assert "PostgreSQL: " in away
    no_rights = refusal(store, tmp_path / "a", **READER_KEYS)
    assert "cannot be used" in no_rights
    assert "403" in no_rights or "AccessDenied" in no_rights or "Access Denied" in no_rights


def test_a_log_that_stands_alone_is_left_alone(store: SharedStore, tmp_path: Path) -> None:
    with running(tmp_path / "alone", *LISTEN) as program:
        program.wait_ready()
    assert "holds the log of a broker that stands alone" in refusal(store, tmp_path / "alone")
    assert (tmp_path / "alone" / "identity").exists()


def test_copies_of_a_shared_log_are_no_log(store: SharedStore, tmp_path: Path) -> None:
    ClusterBroker(store, tmp_path / "copies", "--set", "cluster.shard=copied").stop_when_ready()
    assert "holds copies of a shared log" in refusal(store, tmp_path / "copies", "--set", "log_level=info")


def test_a_broker_that_stands_alone_loads_nothing_of_a_cluster() -> None:
    look = "import mainstem.server.lifecycle, sys; print(sorted({'psycopg', 'obstore'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


def test_tables_of_a_newer_program_are_refused(store: SharedStore, tmp_path: Path) -> None:
    ClusterBroker(store, tmp_path / "first", "--set", "cluster.shard=newer").stop_when_ready()
    with psycopg.connect(store.database, autocommit=True) as connection:
        connection.execute("update mainstem.about set version = version + 1")
        try:
            assert "this program knows versions up to" in refusal(store, tmp_path / "second")
        finally:
            connection.execute("update mainstem.about set version = version - 1")


def test_an_operator_sees_the_cluster_and_moves_it(store: SharedStore, tmp_path: Path) -> None:
    shard = ("--set", "cluster.shard=moved")
    first = ClusterBroker(store, tmp_path / "first", *shard)
    first.wait_line("ready")
    assert asked(store, "hand-over", *shard) == (1, "mainstem: error: no other broker of shard moved stands by\n")
    second = ClusterBroker(store, tmp_path / "second", *shard)
    second.wait_line("standby")

    def status() -> dict[str, object]:
        code, text = asked(store, "status", "-o", "jsonl")
        assert code == 0, text
        return next(row for row in map(json.loads, text.splitlines()) if row["shard"] == "moved")

    before = status()
    assert before["addresses"]["kafka"] == first.kafka  # type: ignore[index]
    code, text = asked(store, "hand-over", *shard)
    assert code == 0, text
    second.wait_line("ready")
    first.wait_line("standby")
    after = status()
    assert (after["term"], after["owner"], after["standbys"]) == (2, before["standbys"][0], [before["owner"]])  # type: ignore[index]
    for broker in (first, second):
        broker.stop()
