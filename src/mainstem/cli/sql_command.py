"""`mainstem sql`: ask topics, and the broker, by SQL."""

from __future__ import annotations

import importlib.util
import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from mainstem.cli.settings_options import EXIT_REFUSED
from mainstem.cli.terminal.exits import fail

if TYPE_CHECKING:
    from mainstem.pipelines.sql.shell import Shell

EXIT_FAILED = 1
EXIT_BROKEN_PIPE = 141
ADDRESS = "127.0.0.1:9092"


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def sql(
    statement: Annotated[
        str | None, typer.Argument(metavar="[STATEMENT]", help="What to run; without it, a shell.")
    ] = None,
    address: Annotated[
        str, typer.Option("--address", metavar="HOST:PORT", help="The broker's Kafka listener.")
    ] = ADDRESS,
    http_address: Annotated[
        str | None,
        typer.Option("--http-address", metavar="HOST:PORT", help="Its HTTP listener, if not as the broker tells it."),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How rows are written.")] = Format.TABLE,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=0, help="Most rows. Default: all; of a table, the first 1,000."),
    ] = None,
    schemas: Annotated[
        list[str] | None,
        typer.Option("--schema", metavar="TOPIC=DDL", help="The columns of a topic's JSON; repeatable."),
    ] = None,
    remote: Annotated[
        str | None, typer.Option("--remote", metavar="sc://HOST:PORT", help="Run on a Spark Connect server.")
    ] = None,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="Run on a cluster. Default: this machine.")
    ] = None,
) -> None:
    """Run SQL over topics, or, without a statement, a shell.

    Every topic is a table; groups, dead letters, the schedule and more are tables in the schema "mainstem".
    """
    given: dict[str, str] = {}
    for text in schemas or ():
        topic, separator, ddl = text.partition("=")
        if not separator or not topic.strip() or not ddl.strip():
            fail([f"--schema {text}: must be TOPIC=DDL, as orders='id BIGINT, name STRING'"], EXIT_REFUSED)
        given[topic.strip()] = ddl.strip()
    if remote is not None and master is not None:
        fail(["either --remote or --master"], EXIT_REFUSED)
    if importlib.util.find_spec("pyspark") is None:
        fail(["Spark is not installed: pip install 'mainstem[spark]'"], EXIT_FAILED)
    # Late, so that other commands do not wait for Spark to load.
    from mainstem.model.errors import MainstemError
    from mainstem.pipelines.sql.session import SqlSession
    from mainstem.pipelines.sql.shell import Shell as SqlShell
    from mainstem.pipelines.sql.shell import plain_sentence, terminal_reader
    from mainstem.pipelines.sql.starting import start_spark

    try:
        spark = start_spark(remote, master)
    except (MainstemError, ImportError, OSError) as error:
        fail([str(error)], EXIT_FAILED)
    except Exception as error:  # noqa: BLE001 - of Spark's errors no base is common
        fail([plain_sentence(error)], EXIT_FAILED)
    session = SqlSession(spark, address, http_address=http_address, schemas=given)
    shell = SqlShell(session, out=sys.stdout, form=form.value, limit=limit)
    try:
        if statement is None:
            shell.run(terminal_reader())
        else:
            _run_all(shell, statement)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(EXIT_BROKEN_PIPE) from None
    finally:
        spark.stop()


def _run_all(shell: Shell, text: str) -> None:
    """Statement by statement, to the first that fails."""
    from mainstem.pipelines.sql.statements import split_statements, words_of

    statements, rest = split_statements(text)
    for statement in [*statements, *([rest] if words_of(rest) else [])]:
        if not shell.execute(statement):
            raise typer.Exit(EXIT_FAILED)
