"""RabbitMQ's own command, where it is installed: the one in Python, of version 3."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.management.both import Both
from tests.clients.management.conftest import both
from tests.support.serving.program import PATIENCE_S

__all__ = ["both"]

RABBITMQADMIN = shutil.which("rabbitmqadmin")
pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(RABBITMQADMIN is None, reason="rabbitmqadmin is not installed"),
]
Run = Callable[..., str]


@pytest.fixture
def run(both: Both) -> Run:
    host, _, port = both.management.rpartition(":")

    def run(*words: str, fails: bool = False) -> str:
        command = [str(RABBITMQADMIN), "-H", host, "-P", port, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_declare_publish_get_delete(run: Run, tmp_path: Path) -> None:
    run("declare", "vhost", "name=shop")
    run("declare", "permission", "vhost=shop", "user=guest", "configure=.*", "write=.*", "read=.*")
    run("declare", "user", "name=ann", "password=secret", "tags=monitoring")
    run("-V", "shop", "declare", "queue", "name=orders", "queue_type=quorum", "durable=true")
    assert "inequivalent arg" in run("-V", "shop", "declare", "queue", "name=orders", "durable=false", fails=True)
    run("-V", "shop", "declare", "exchange", "name=events", "type=topic")
    run("-V", "shop", "declare", "binding", "source=events", "destination=orders", "routing_key=order.#")
    run(
        "-V",
        "shop",
        "declare",
        "policy",
        "name=short",
        "pattern=^o",
        'definition={"max-length": 10}',
        "apply-to=queues",
    )
    publish = ("-V", "shop", "publish", "exchange=events")
    assert run(*publish, "routing_key=order.new", "payload=one").strip() == "Message published"
    assert "NOT routed" in run(*publish, "routing_key=other", "payload=two")
    assert "one" in run("-V", "shop", "get", "queue=orders", "ackmode=ack_requeue_false")
    assert run("-f", "tsv", "-V", "shop", "list", "queues", "name", "messages", "policy").splitlines()[1:] == [
        "orders\t0\tshort"
    ]
    assert "4.2" in run("show", "overview")
    for thing in ("users", "vhosts", "nodes", "exchanges", "bindings", "permissions", "policies", "connections"):
        run("list", thing)
    kept = tmp_path / "definitions.json"
    run("-V", "shop", "export", str(kept))
    run("-V", "shop", "delete", "queue", "name=orders")
    run("-V", "shop", "import", str(kept))
    run("-V", "shop", "purge", "queue", "name=orders")
    run("-V", "shop", "delete", "exchange", "name=events")
    assert "Not found" in run("-V", "shop", "delete", "exchange", "name=events", fails=True)
    run("delete", "vhost", "name=shop")
    run("delete", "user", "name=ann")
