"""Pipelines of tests: written to a file, run in the session of the tests."""

import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from mainstem.pipelines.definition.files import read_pipeline
from mainstem.pipelines.definition.pipeline import Mode
from mainstem.pipelines.running.progress import BrokenRule, RunProgress
from mainstem.pipelines.running.run import PipelineRun, Watch
from mainstem.pipelines.running.starting import open_context
from tests.support.serving.served import Served


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
