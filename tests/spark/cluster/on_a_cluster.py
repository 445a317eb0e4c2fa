"""The same job on one machine and on a cluster whose workers do not have mainstem."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.spark.cluster.daemons import cluster, run_job
from tests.support.clients.confluent import create, send_records
from tests.support.serving.program import running

pytestmark = pytest.mark.slow


class Address(NamedTuple):
    """All that is asked of a broker here."""

    address: str


def test_a_cluster_gives_what_one_machine_gives(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("open sesame")
    guard = ("--set", "kafka.user=me", "--set", f"kafka.password_file={tmp_path / 'password'}")
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "me",
        "sasl.password": "open sesame",
    }
    credentials = {"MAINSTEM_CLIENT_USER": "me", "MAINSTEM_CLIENT_PASSWORD": "open sesame"}
    listen = ("--listen", "kafka=127.0.0.1:0", "--listen", "http=127.0.0.1:0")
    with running(tmp_path / "data", *listen, *guard) as program, cluster(tmp_path / "cluster") as master:
        broker = Address(program.wait_ready()["kafka"][0])
        for topic in ("source", "target-local", "target-cluster"):
            create(broker, topic, 2, login=login)
        for partition in range(2):
            records = [(b"%d-%d" % (partition, n), b"value %d" % n, [("n", b"%d" % n)]) for n in range(1_000)]
            send_records(broker, "source", records, partition, **login)
        results = {}
        for where in ("local[2]", master):
            ran = run_job(where, broker.address, str(tmp_path / "job"), environment=credentials)
            assert ran.returncode == 0, ran.stderr
            results[where] = json.loads(ran.stdout.splitlines()[-1])
            assert "open sesame" not in results[where]["plan"] + ran.stderr
    # each once, though one task was run after it had failed, and one, which would take an hour, twice at the same time
    assert len(results[master]["rows"]) == 2_000
    assert results[master]["rows"] == results["local[2]"]["rows"]
    assert results[master]["executors"] == 2
