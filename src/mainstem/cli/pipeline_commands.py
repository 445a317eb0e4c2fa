"""`mainstem pipeline`: check, run and deploy pipelines."""

from __future__ import annotations

import dataclasses
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from mainstem.cli.settings_options import EXIT_REFUSED
from mainstem.cli.terminal.exits import fail
from mainstem.model.errors import MainstemError

if TYPE_CHECKING:
    from mainstem.pipelines.definition.pipeline import Pipeline

EXIT_FAILED = 1

pipeline_app = typer.Typer(help="Check, run and deploy pipelines on Spark.", no_args_is_help=True)

File: TypeAlias = Annotated[str, typer.Argument(metavar="FILE", help="The definition, in YAML or Python.")]
Address: TypeAlias = Annotated[
    str | None, typer.Option("--address", metavar="HOST:PORT", help="The broker's Kafka listener.")
]
PipelinesDir: TypeAlias = Annotated[
    str | None, typer.Option("--data-dir", metavar="DIR", help="Where checkpoints are kept, below pipelines/NAME.")
]
Master: TypeAlias = Annotated[str | None, typer.Option("--master", metavar="URL", help="Where Spark runs.")]


@pipeline_app.callback()
def pipeline() -> None:
    """Check, run and deploy pipelines on Spark."""


@pipeline_app.command()
def validate(
    file: File,
    address: Address = None,
    no_plan: Annotated[
        bool, typer.Option("--no-plan", help="With --address: look for the topics, and leave Spark out.")
    ] = False,
) -> None:
    """Check a definition; with --address its topics and, by Spark, its SQL too."""
    found = read_definition(file)
    if address is not None:
        from mainstem.pipelines.definition.broker_check import check_topics

        try:
            check_topics(found, address)
            if not no_plan:
                _check_plan(found, address)
        except MainstemError as error:
            fail(str(error).splitlines(), EXIT_REFUSED)
    parts = (("sources", found.sources), ("steps", found.steps), ("expectations", found.expectations))
    counts = ", ".join(f"{len(named)} {what}" for what, named in (*parts, ("sinks", found.sinks)) if named)
    print(f"{file}: pipeline {found.name}, {found.mode.value}: {counts}.")


@pipeline_app.command()
def run(
    file: File,
    mode: Annotated[
        str | None,
        typer.Option("--mode", metavar="MODE", help="continuous, available-now or batch, before the file's."),
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="With mode batch: where it begins.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="With mode batch: where it ends.")] = None,
    master: Master = None,
    address: Address = None,
    data_dir: PipelinesDir = None,
) -> None:
    """Run a pipeline until it has done all, or Ctrl-C ends it after the micro-batch under way."""
    found = _with_range(read_definition(file, mode), begin, end)
    check_spark()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("mainstem").setLevel(logging.INFO)
    from mainstem.pipelines.running.foreground import run_here

    try:
        home = Path(file).absolute().parent
        status = run_here(found, home=home, address=address, master=master, data_dir=data_dir)
    except MainstemError as error:
        fail(str(error).splitlines(), EXIT_FAILED)
    raise typer.Exit(status)


def _with_range(found: Pipeline, begin: str | None, end: str | None) -> Pipeline:
    from mainstem.pipelines.definition.pipeline import Mode
    from mainstem.pipelines.errors import InvalidOption
    from mainstem.pipelines.source.starting_point import parse_offsets

    settings = found.settings
    for option, value in (("--from", begin), ("--to", end)):
        if value is None:
            continue
        if found.mode is not Mode.BATCH:
            fail([f"{option} has a meaning in mode batch alone"], EXIT_REFUSED)
        try:
            parse_offsets(option, value, False)
        except InvalidOption as refusal:
            fail([str(refusal)], EXIT_REFUSED)
    settings = dataclasses.replace(settings, begin=begin or settings.begin, end=end or settings.end)
    return dataclasses.replace(found, settings=settings)


def read_definition(file: str, mode: str | None = None) -> Pipeline:
    """The definition, or the end of the program."""
    try:
        from mainstem.pipelines.definition.files import read_pipeline
        from mainstem.pipelines.definition.pipeline import Mode
    except ImportError:
        fail(["pipelines need more than is installed: pip install 'mainstem[spark]'"], EXIT_FAILED)
    modes = [known.value for known in Mode]
    if mode is not None and mode not in modes:
        fail([f"--mode is {mode!r}; it can be {', '.join(modes)}"], EXIT_REFUSED)
    try:
        return read_pipeline(Path(file), None if mode is None else Mode(mode))
    except MainstemError as error:
        fail(str(error).splitlines(), EXIT_REFUSED)


def _check_plan(found: Pipeline, address: str) -> None:
    check_spark()
    import tempfile

    from mainstem.pipelines.running.run import PipelineRun
    from mainstem.pipelines.running.starting import open_context

    home = Path(found.file).absolute().parent
    with tempfile.TemporaryDirectory(prefix="mainstem-validate-") as nowhere:
        context = open_context(found, home=home, address=address, data_dir=nowhere)
        try:
            PipelineRun(context).check()
        finally:
            context.session.stop()


def check_spark() -> None:
    """Spark is installed, or the program ends."""
    import importlib.util

    if importlib.util.find_spec("pyspark") is None:
        fail(["Spark is not installed: pip install 'mainstem[spark]'"], EXIT_FAILED)
