"""From a definition to a run: the session, the place where things are kept, and a lock on it."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from mainstem.pipelines.definition.pipeline import Pipeline
from mainstem.pipelines.errors import PipelineError
from mainstem.pipelines.options import ADDRESS_DEFAULT
from mainstem.pipelines.running.context import RunContext
from mainstem.pipelines.session.session import DATA_DIR_DEFAULT, DATA_DIR_VARIABLE, checkpoint_root, start_session

IDLE_SETTINGS = {
    # A query without rows says so seldom, and is not looked at in between.
    "spark.sql.streaming.noDataProgressEventInterval": "10000",
    "spark.sql.streaming.stopTimeout": "30000",
    # its bar would be written into the log, and through the view of a terminal
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
}
LOCK = "running.lock"


class PipelineBusy(PipelineError):
    """Somebody runs it already, here."""


def pipeline_directory(name: str, data_dir: str | None) -> Path:
    """Where a pipeline keeps what it needs between runs."""
    root = Path(data_dir or os.environ.get(DATA_DIR_VARIABLE) or DATA_DIR_DEFAULT)
    return root.absolute() / "pipelines" / name


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Two runs of one pipeline would share its checkpoints. The lock goes with the process. Raises PipelineBusy."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PipelineBusy(
                f"The pipeline runs already, with its data in {directory}: stop that run first."
            ) from None
        yield


def open_context(
    pipeline: Pipeline,
    *,
    home: Path,
    code: Path | None = None,
    address: str | None = None,
    master: str | None = None,
    data_dir: str | None = None,
) -> RunContext:
    """Starts Spark, or takes the session that runs. Raises kinds of MainstemError."""
    # Its lines are stacks of Java's in JSON, of what is told in a sentence anyway.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    settings = pipeline.settings
    chosen = master or settings.master or settings.spark.get("spark.master")
    is_local = (chosen or os.environ.get("MASTER") or "local").startswith("local")
    directory = pipeline_directory(pipeline.name, data_dir)
    where = checkpoint_root(pipeline.name, is_local=is_local, data_dir=data_dir, checkpoint=settings.checkpoint)
    if where is None:
        raise PipelineError(
            f"{pipeline.file}: on a cluster a pipeline needs `settings.checkpoint`, a URI that every worker reaches."
        )
    if settings.checkpoint is not None and "://" not in where:
        where = str(home / where)
    session = start_session(
        pipeline.name,
        master=chosen,
        data_dir=data_dir,
        checkpoint=where,
        settings={**IDLE_SETTINGS, **settings.spark},
        ui=False,
    )
    return RunContext(
        session=session,
        pipeline=pipeline,
        address=address or settings.address or ADDRESS_DEFAULT,
        home=home.absolute(),
        code=(code or home).absolute(),
        directory=directory,
        checkpoint=where,
    )
