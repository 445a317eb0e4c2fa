"""Stages of the real program, written and published by the client, while the program is killed."""

import random
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from mainstem.model.staging import SinkKey, StageKey
from mainstem.sdk.client import Client
from mainstem.sdk.stages import (
    StagedBatch,
    StageEnd,
    StageRefused,
    StageWriter,
    abort_stages,
    commit_stages,
    http_address,
)
from mainstem.wire.record_batch import Record, encode_batch
from tests.support.clients.committed import committed_values
from tests.support.serving.served import Served

pytestmark = [pytest.mark.system, pytest.mark.slow]

PATIENCE_S = 30.0
SINK = SinkKey("query", "sink")


@pytest.fixture
def served(tmp_path: Path):
    broker = Served(tmp_path / "data")
    try:
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def client(served: Served):
    with Client(served.kafka, timeout_s=PATIENCE_S) as client:
        client.cluster(["t"], create=True)
        yield client


class Task:
    """One attempt of a task, as a Spark executor would run it."""

    def __init__(self, client: Client, batch: int, task: int = 0) -> None:
        self.key = StageKey(*SINK, batch, task, uuid.uuid4().hex)
        self._writer = StageWriter(client, self.key, timeout_s=PATIENCE_S)
        self.position = 0

    def write(self, *values: bytes) -> None:
        now_ms = time.time_ns() // 1_000_000  # or retention would take them before they are counted
        records = [Record(self.position + delta, now_ms, None, value) for delta, value in enumerate(values)]
        batch = encode_batch(records, base_offset=self.position)
        self.position += 1 + len(values)
        self._writer.write([StagedBatch("t", 0, batch)])

    def end(self) -> StageEnd:
        self._writer.flush()
        return StageEnd(self.key.task, self.key.attempt, self.position)


def commit(client: Client, batch: int, *ends: StageEnd) -> bool:
    return commit_stages(http_address(client), SINK, batch, ends, lasting=True, timeout_s=PATIENCE_S)


def committed(client: Client) -> list[bytes]:
    return committed_values(client, "t")


def test_what_was_staged_is_published_once(client: Client) -> None:
    task = Task(client, 0)
    task.write(b"a", b"b")
    task.write(b"c")
    end = task.end()
    assert committed(client) == []
    assert commit(client, 0, end)
    assert not commit(client, 0, end)
    with pytest.raises(StageRefused) as refused:
        commit(client, 1, end)
    assert refused.value.problem == "unknown-stage"
    assert committed(client) == [b"a", b"b", b"c"]
    again = Task(client, 1)
    again.write(b"x")
    end = again.end()
    abort_stages(http_address(client), SINK, 1, is_final=False, timeout_s=PATIENCE_S)
    with pytest.raises(StageRefused):
        commit(client, 1, end)
    assert committed(client) == [b"a", b"b", b"c"]


def test_a_broker_that_is_killed_while_tasks_write_is_waited_for(served: Served, client: Client) -> None:
    task = Task(client, 0)
    expected = [b"%d" % number for number in range(200)]
    for number, value in enumerate(expected):
        task.write(value)
        if number in (50, 51, 120):
            served.restart()
    assert commit(client, 0, task.end())
    assert committed(client) == expected


def test_what_was_staged_survives_a_kill_and_so_does_the_number(served: Served, client: Client) -> None:
    task = Task(client, 0)
    task.write(b"a")
    end = task.end()
    served.restart()
    assert commit(client, 0, end)
    served.restart()
    assert not commit(client, 0, end)
    assert committed(client) == [b"a"]


def test_a_large_batch_is_seen_whole_or_not_at_all_whenever_the_broker_is_killed(
    served: Served, client: Client
) -> None:
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    size, batches = 1 << 19, 40
    expected: list[bytes] = []
    for batch in range(3):
        values = [b"%d-%d:" % (batch, number) + b"x" * size for number in range(batches)]
        task = Task(client, batch)
        for value in values:
            task.write(value)
        end = task.end()
        outcome: list[bool] = []
        thread = threading.Thread(target=_keep(outcome, lambda e=end, b=batch: commit(client, b, e)))
        thread.start()
        thread.join(chance.uniform(0.005, 0.15))
        served.restart()
        thread.join(PATIENCE_S)
        assert outcome in ([True], [False]), f"seed {seed}"
        expected += values
        with Client(served.kafka, timeout_s=PATIENCE_S) as reader:
            assert [value[:8] for value in committed(reader)] == [value[:8] for value in expected], f"seed {seed}"


def _keep(outcomes: list[bool], ask: Callable[[], bool]) -> Callable[[], None]:
    return lambda: outcomes.append(ask())


def test_what_nobody_publishes_is_gone_after_its_time(tmp_path: Path) -> None:
    served = Served(tmp_path / "data", "--set", "stages.expiry_ms=100")
    try:
        with Client(served.kafka, timeout_s=PATIENCE_S) as client:
            client.cluster(["t"], create=True)
            task = Task(client, 0)
            task.write(b"a")
            task._writer.flush()

            def is_gone() -> bool:
                with pytest.raises(StageRefused) as refused:  # one position more than there is: never published
                    commit(client, 0, StageEnd(0, task.key.attempt, task.position + 1))
                return refused.value.problem == "unknown-stage"

            for _ in range(1_000):
                if is_gone():
                    break
            else:
                raise AssertionError("still there")
    finally:
        served.kill()
