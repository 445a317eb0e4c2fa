"""`mainstem cluster`: who owns the log that several brokers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from mainstem.cli.settings_options import EXIT_REFUSED, Assignments, Config, resolve_options
from mainstem.cli.terminal.exits import FAILED, fail
from mainstem.cli.terminal.options import Output
from mainstem.cli.terminal.output import write_list

if TYPE_CHECKING:
    from mainstem.storage.shared.settings import ClusterSettings

cluster_app = typer.Typer(help="Brokers that share a log: status, hand over.", no_args_is_help=True)

Database: TypeAlias = Annotated[
    str | None, typer.Option("--cluster", metavar="postgresql://...", help="The cluster's database.")
]


@cluster_app.callback()
def cluster() -> None:
    """Brokers that share a log: status, hand over."""


@cluster_app.command()
def status(
    database: Database = None, config: Config = None, assignments: Assignments = None, output: Output = None
) -> None:
    """Show each shard: who owns it, who stands by, how much is not merged yet."""
    settings = _settings(database, config, assignments)
    from mainstem.server.cluster.inspection import NotAnswered, describe

    try:
        rows = describe(settings)
    except NotAnswered as error:
        fail([str(error)], FAILED)
    columns = ("shard", "term", "owner", "lease_left_ms", "standbys", "unmerged_groups", "files")
    write_list(rows, columns, output, name="shard")


@cluster_app.command("hand-over")
def hand_over(
    database: Database = None,
    config: Config = None,
    assignments: Assignments = None,
    timeout_s: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait for it.")] = 30.0,
) -> None:
    """Have the owner finish what is in flight and let a standby have the shard; end when that one serves."""
    settings = _settings(database, config, assignments)
    from mainstem.server.cluster.inspection import NotAnswered, hand_over

    try:
        owner, seconds = hand_over(settings, timeout_s)
    except NotAnswered as error:
        fail([str(error)], FAILED)
    print(f"{owner} owns shard {settings.shard} after {seconds:.1f} s")


def _settings(database: str | None, config: str | None, assignments: list[str] | None) -> ClusterSettings:
    given = list(assignments or [])
    if database is not None:
        # What these commands ask for is in the database alone.
        given += [f"cluster.database={database}", "cluster.store=s3://none"]
    settings = resolve_options(None, None, None, config, given).settings.cluster
    if not settings.is_on:
        fail(["name the cluster's database: --cluster postgresql://..."], EXIT_REFUSED)
    try:
        import psycopg  # noqa: F401
    except ModuleNotFoundError as error:
        fail([f"a cluster needs the package {error.name}: pip install 'mainstem[cluster]'"], FAILED)
    return settings
