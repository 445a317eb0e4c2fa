"""Pipelines of tests: written to a file, run in the session of the tests."""

import json
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from mainstem.pipelines.definition.files import read_pipeline
from mainstem.pipelines.definition.pipeline import Mode
from mainstem.pipelines.running.progress import BrokenRule, RunProgress
from mainstem.pipelines.running.run import PipelineRun, Watch
from mainstem.pipelines.running.starting import open_context
from mainstem.sdk.client import Client
from mainstem.wire.record_batch import Record
from tests.clients.kafka.serving import PATIENCE_S, QUICK_RETURN
from tests.system.stage_client import Served, committed_records


def send_json(served: Served, topic: str, rows: Iterable[Any], key: str | None = None) -> None:
    producer = Producer({"bootstrap.servers": served.kafka, **QUICK_RETURN})
    for row in rows:
        value = row if isinstance(row, bytes) else json.dumps(row).encode()
        name = str(row[key]).encode() if key else None
        producer.produce(topic, value, name, on_delivery=_check)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


def _check(error: object, message: object) -> None:
    assert error is None, error


def records(served: Served, topic: str) -> list[Record]:
    with Client(served.kafka) as client:
        return [record for _, record in committed_records(client, topic)]


def rows(served: Served, topic: str) -> list[Any]:
    return [json.loads(record.value or b"null") for record in records(served, topic)]


@dataclass
class Pipelines:
    """Runs definitions against one broker."""

    served: Served
    directory: Path
    broken: list[BrokenRule] = field(default_factory=list)

    def write(self, text: str, name: str = "p.yml") -> Path:
        path = self.directory / name
        path.write_text(textwrap.dedent(text))
        return path

    def open(self, path: Path, mode: Mode | None = None) -> PipelineRun:
        context = open_context(
            read_pipeline(path, mode), home=self.directory, address=self.served.kafka, data_dir=str(self.directory)
        )
        return PipelineRun(context, Watch(on_broken=self.broken.append))

    def run(self, text: str, mode: Mode | None = None) -> RunProgress:
        run = self.open(self.write(text), mode)
        run.execute()
        return run.progress
