"""What a batch run has done already, so that one that was killed goes on with what is left.

A small file beside the checkpoint: the run's id, under which the broker knows what it has published, and the sinks that are done
or begun. It goes when the run has ended well: the next run begins anew.
"""

from __future__ import annotations

import dataclasses
import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from mainstem.pipelines.definition.pipeline import Sink
from mainstem.pipelines.running.context import RunContext

RECORD = "batch-run.json"


class BatchRecord:
    """Of one run."""

    def __init__(self, context: RunContext) -> None:
        self._path = context.directory / RECORD
        self._run_id = f"batch-{uuid.uuid4()}"
        self._done: list[str] = []
        self._begun: list[str] = []
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
            self._run_id, self._done, self._begun = stored["run"], list(stored["done"]), list(stored["begun"])
        except (OSError, ValueError, KeyError, TypeError):
            pass  # the first run, or a file that a crash has torn: nothing was begun under it
        self.context = dataclasses.replace(context, run_id=self._run_id)

    def is_done(self, sink: str) -> bool:
        """Whether a sink was written before the crash."""
        return sink in self._done

    def begin(self, sink: Sink) -> Sink:
        """As it is to be written: what this run has begun itself, and not ended, it may overwrite."""
        if sink.name in self._begun:
            return dataclasses.replace(sink, mode="overwrite") if sink.mode == "error" else sink
        if sink.kind == "parquet" and sink.mode == "error" and self._exists(sink):
            return sink  # refused by Spark; not ours to overwrite next time
        self._begun.append(sink.name)
        self._store()
        return sink

    def finish(self, sink: str) -> None:
        """It is written."""
        self._done.append(sink)
        self._store()

    def close(self) -> None:
        """All are."""
        self._path.unlink(missing_ok=True)

    def counted(self, frame: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
        """With a count of its rows, to be asked when they are written."""
        observation = Observation()
        return frame.observe(observation, F.count(F.lit(1)).alias("rows")), lambda: int(observation.get["rows"])

    def _exists(self, sink: Sink) -> bool:
        path = self.context.path(sink.target)
        return "://" in path or Path(path).exists()

    def _store(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as out:
            json.dump({"run": self._run_id, "done": self._done, "begun": self._begun}, out)
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(self._path)
