"""Celery, with real workers and a real beat."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chain, chord, group
from kombu import pools

from tests.clients.amqp.serving import Broker, depth

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60
pytestmark = [
    pytest.mark.conformance,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Farm:
    """One application: a queue of its own, its workers, and the client's side of it."""

    def __init__(self, broker: Broker, directory: Path, **options: str) -> None:
        self.queue = f"celery-{uuid.uuid4().hex[:8]}"
        self.notes = directory / f"{self.queue}.notes"
        self.notes.touch()
        self.environment = {
            **os.environ,
            "CELERY_BROKER": broker.url,
            "CELERY_QUEUE": self.queue,
            "CELERY_NOTES": str(self.notes),
            "PYTHONPATH": str(ROOT),
            **options,
        }
        self._directory = directory
        self._children: list[subprocess.Popen[bytes]] = []
        self.worker = ""
        """The one that was started last, as it calls itself."""
        self.app = Celery(
            "tests",
            broker=broker.url,
            backend=self.environment.get("CELERY_BACKEND", "rpc://"),
            set_as_current=False,
        )
        is_quorum = options.get("CELERY_QUORUM") == "1"
        self.app.conf.update(
            task_default_queue=self.queue,
            task_default_exchange=self.queue,
            task_default_exchange_type="topic" if is_quorum else "direct",
            task_default_routing_key=self.queue,
            task_default_queue_type="quorum" if is_quorum else "classic",
            task_create_missing_queues=True,
            broker_native_delayed_delivery_queue_type="quorum",
            broker_transport_options={"confirm_publish": True},
        )
        if options.get("CELERY_PRIORITIES") == "1":
            self.app.conf.task_queue_max_priority = 10

    def run(self, *arguments: str) -> subprocess.Popen[bytes]:
        path = self._directory / f"{self.queue}.{len(self._children)}.log"
        with path.open("wb") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "tests.clients.amqp.celery_tasks", *arguments],
                env=self.environment,
                cwd=self._directory,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._children.append(child)
        return child

    def work(self, *options: str) -> subprocess.Popen[bytes]:
        self.worker = f"{uuid.uuid4().hex[:6]}@test"
        worker = self.run("worker", "--loglevel=INFO", "--concurrency=2", f"--hostname={self.worker}", *options)
        self.wait(lambda: bool(self.app.control.ping([self.worker], timeout=1)), worker)
        return worker

    def wait(self, condition: Callable[[], bool], child: subprocess.Popen[bytes] | None = None) -> None:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            if condition():
                return
            assert child is None or child.poll() is None, self._logs()
            time.sleep(0.05)
        raise AssertionError(f"it never became so\n{self._logs()}")

    def lines(self) -> list[str]:
        return [line.partition(" ")[2] for line in self.notes.read_text().splitlines()]

    def send(self, name: str, *arguments: Any, **options: Any) -> Any:
        return self.app.send_task(f"tests.{name}", arguments, **options)

    def signature(self, name: str, *arguments: Any) -> Any:
        return self.app.signature(f"tests.{name}", args=arguments)

    def close(self) -> None:
        for child in self._children:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        for child in self._children:
            try:
                child.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.app.close()
        # It leaves sockets to the collector, which would complain of them in some later test. Applications with the same
        # broker share their pool: a closed one must be forgotten, too.
        pools.reset()
        del self.app
        gc.collect()

    def _logs(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in self._directory.glob(f"{self.queue}.*.log"))


@contextlib.contextmanager
def farm(broker: Broker, directory: Path, **options: str) -> Iterator[Farm]:
    made = Farm(broker, directory, **options)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def plain(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    """Classic queues, results by messages, one worker."""
    with farm(broker, tmp_path_factory.mktemp("celery")) as made:
        made.work("-E")
        yield made


def test_results_groups_and_chains(plain: Farm) -> None:
    assert plain.send("add", 2, 3).get(timeout=PATIENCE_S) == 5
    together = group(plain.signature("add", n, n) for n in range(10)).apply_async()
    assert together.get(timeout=PATIENCE_S) == [2 * n for n in range(10)]
    assert chain(plain.signature("add", 1, 1), plain.signature("add", 5)).apply_async().get(timeout=PATIENCE_S) == 7


def test_a_countdown_and_an_eta_are_kept(plain: Farm) -> None:
    started = time.time()
    result = plain.send("note", "counted down", countdown=1.5)
    assert result.get(timeout=PATIENCE_S) == "counted down"
    assert time.time() - started >= 1.5


def test_retries(plain: Farm) -> None:
    assert plain.send("flaky", 2).get(timeout=PATIENCE_S) == 2
    with pytest.raises(ValueError, match="not yet"):
        plain.send("flaky", 9).get(timeout=PATIENCE_S)


def test_remote_control(plain: Farm) -> None:
    worker = plain.worker

    def inspect() -> Any:
        return plain.app.control.inspect([worker], timeout=2)

    assert plain.app.control.ping([worker], timeout=5) == [{worker: {"ok": "pong"}}]
    assert inspect().active_queues()[worker][0]["name"] == plain.queue
    assert "tests.add" in inspect().registered()[worker]
    told = plain.app.control.rate_limit("tests.add", "100/s", destination=[worker], reply=True, timeout=5)
    assert told[0][worker]["ok"]
    waiting = plain.send("note", "never", countdown=30)
    plain.wait(lambda: bool(inspect().scheduled()[worker]))
    waiting.revoke()
    plain.wait(lambda: waiting.id in inspect().revoked()[worker])


def test_events(plain: Farm) -> None:
    seen: list[str] = []

    def take(event: dict[str, Any]) -> None:
        seen.append(event["type"])

    with plain.app.connection() as connection:
        receiver = plain.app.events.Receiver(connection, handlers={"*": take})
        with receiver.consumer_context(wakeup=True) as (listening, _, _):
            plain.send("add", 1, 1)
            for _ in range(PATIENCE_S):
                with contextlib.suppress(TimeoutError):
                    listening.drain_events(timeout=1)
                if "task-succeeded" in seen:
                    break
    assert {"task-received", "task-started", "task-succeeded"} <= set(seen)


def test_a_chord_joins_its_parts(broker: Broker, tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    with farm(broker, tmp_path, CELERY_BACKEND=f"file://{results}") as made:
        made.work()
        parts = group(made.signature("add", n, n) for n in range(10))
        joined = chord(parts)(made.signature("total"))
        assert joined.get(timeout=PATIENCE_S) == 90


def test_beat_sends_what_is_due(broker: Broker, tmp_path: Path) -> None:
    with farm(broker, tmp_path) as made:
        made.work()
        made.run("beat", "--loglevel=INFO", f"--schedule={tmp_path / 'beat'}", "--max-interval=1")
        made.wait(lambda: made.lines().count("tick") >= 3)


def test_urgent_tasks_first(broker: Broker, tmp_path: Path) -> None:
    with farm(broker, tmp_path, CELERY_PRIORITIES="1") as made:
        with broker.channel() as channel:
            channel.exchange_declare(made.queue, "direct", durable=True)
            channel.queue_declare(made.queue, durable=True, arguments={"x-max-priority": 10})
            channel.queue_bind(made.queue, made.queue, made.queue)
        for priority in (1, 9, 5):
            made.send("note", f"priority {priority}", priority=priority)
        made.work("--pool=solo", "--concurrency=1")
        made.wait(lambda: len(made.lines()) == 3)
        assert made.lines() == ["priority 9", "priority 5", "priority 1"]


def test_a_task_whose_worker_is_killed_runs_again(broker: Broker, tmp_path: Path) -> None:
    with farm(broker, tmp_path) as made:
        first = made.work("--pool=solo")
        made.send("slow", "long", 3)
        made.wait(lambda: made.lines() == ["begin long"])
        with broker.channel() as channel:
            assert depth(channel, made.queue) == 0
        first.kill()
        first.wait()
        made.work("--pool=solo")
        made.wait(lambda: made.lines() == ["begin long", "begin long", "end long"])


def test_native_delayed_delivery_with_quorum_queues(broker: Broker, tmp_path: Path) -> None:
    with farm(broker, tmp_path, CELERY_QUORUM="1") as made:
        made.work()
        with broker.channel() as channel:
            channel.exchange_declare("celery_delayed_delivery", passive=True)
        assert made.send("add", 1, 1).get(timeout=PATIENCE_S) == 2
        started = time.time()
        assert made.send("note", "delayed", countdown=3).get(timeout=PATIENCE_S) == "delayed"
        # The native way rounds to whole seconds, downwards.
        assert time.time() - started >= 2
