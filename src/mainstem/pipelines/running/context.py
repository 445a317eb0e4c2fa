"""What the parts of one run share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from mainstem.pipelines.definition.pipeline import Mode, Pipeline


@dataclass(frozen=True)
class RunContext:
    """One run of one pipeline."""

    session: SparkSession
    pipeline: Pipeline
    address: str
    """Of the broker's Kafka listener."""
    home: Path
    """What relative paths of data are relative to."""
    code: Path
    """Where the Python files are that the definition names."""
    directory: Path
    """Of this pipeline, on this machine: what is kept between runs."""
    checkpoint: str
    """Below which each sink has its own, by its name."""
    run_id: str = ""
    """The same when a batch run is begun again after a crash: what it has written already is known by it."""

    @property
    def mode(self) -> Mode:
        """How long it runs."""
        return self.pipeline.mode

    @property
    def is_stream(self) -> bool:
        """Whether sinks are queries."""
        return self.mode is not Mode.BATCH

    def group(self, sink: str) -> str:
        """The group under which the query of a sink is seen."""
        return f"{self.pipeline.name}.{sink}"

    def checkpoint_of(self, sink: str) -> str:
        """Where the query of a sink keeps its position."""
        return f"{self.checkpoint}/{sink}"

    def path(self, text: str) -> str:
        """A path or URI as Spark takes it."""
        return text if "://" in text or text.startswith("file:") else str(self.home / text)

    def broker_options(self) -> dict[str, str]:
        """For source and sink."""
        return {"address": self.address}

    def sink_options(self) -> dict[str, str]:
        """For the sink, which commits by HTTP."""
        http = self.pipeline.settings.http_address
        return self.broker_options() | ({"httpAddress": http} if http else {})
