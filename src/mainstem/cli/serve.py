"""`mainstem serve`: run a broker."""

from __future__ import annotations

from typing import Annotated

import typer

from mainstem.cli.settings_options import Advertise, Assignments, Config, DataDir, Listen, resolve_options
from mainstem.cli.terminal.exits import fail


def serve(
    data_dir: DataDir = None,
    listen: Listen = None,
    advertise: Advertise = None,
    config: Config = None,
    assignments: Assignments = None,
    pipelines: Annotated[
        bool, typer.Option("--pipelines", help="Run deployed pipelines too; the same as --set pipelines.worker=true.")
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="postgresql://...",
            help="Share the log with other brokers through this database; the same as --set cluster.database=...",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="s3://BUCKET/PREFIX",
            help="Object store of the shared log; the same as --set cluster.store=...",
        ),
    ] = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT.

    Prints one line that begins with "ready" when every listener accepts.
    In a cluster it prints one that begins with "standby" while another broker owns the log.
    """
    for name, value in (("cluster.database", cluster), ("cluster.store", store)):
        if value is not None:
            assignments = [*(assignments or []), f"{name}={value}"]
    if pipelines:
        assignments = [*(assignments or []), "pipelines.worker=true"]
    settings = resolve_options(data_dir, listen, advertise, config, assignments).settings
    # Late, so that a refused setting and the other commands do not wait for the broker to load.
    from mainstem.server.lifecycle import EXIT_FAILED, StartRefused, run
    from mainstem.server.log_lines import configure_logging

    configure_logging(settings.node.log_level)
    try:
        run(settings, announce=lambda line: print(line, flush=True))
    except StartRefused as refused:
        fail(str(refused).splitlines(), EXIT_FAILED)
