"""`mainstem`: the entry point and its commands.

A command is imported when it is used: `--help` and `--version` load neither the broker nor Spark.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from mainstem.cli.terminal.exits import INTERRUPTED

COMPLETION_VARIABLE = "_MAINSTEM_COMPLETE"
"""A shell sets it that wants to complete what was typed."""


class Entry(NamedTuple):
    """A command: where it is, and what it does in one line."""

    module: str
    attribute: str
    help: str


COMMANDS = {
    "serve": Entry("serve", "serve", "Run a broker until SIGTERM or SIGINT."),
    "status": Entry("daily.status", "status", "Show whether a broker is well."),
    "produce": Entry("daily.produce", "produce", "Publish records."),
    "consume": Entry("daily.consume", "consume", "Read records; with -f, go on with what comes."),
    "request": Entry("daily.request", "request", "Publish a record and print the reply to it."),
    "top": Entry("daily.top", "top", "What a broker does now, on the full screen."),
    "trace": Entry("daily.trace", "trace", "Show where a message went."),
    "bench": Entry("daily.bench", "bench", "Put load on a broker over HTTP, Kafka or AMQP, with latencies."),
    "sql": Entry("sql_command", "sql", "Run SQL over topics."),
    "topic": Entry("nouns.topic", "topic_app", "Topics: list, show, create, change, delete."),
    "group": Entry("nouns.group", "group_app", "Groups: list, show, seek, delete."),
    "queue": Entry("nouns.queue", "queue_app", "Queues: list, show, create, pause, rewind, purge, and more."),
    "exchange": Entry("nouns.exchange", "exchange_app", "Exchanges: list, show, create, delete, bind, unbind."),
    "deadletter": Entry("nouns.deadletter", "deadletter_app", "Dead letters: list, show, edit, redrive, delete."),
    "schedule": Entry("nouns.schedule", "schedule_app", "The schedule: list, show, add, move, cancel."),
    "alarm": Entry("nouns.alarm", "alarm_app", "Alarms: list, rules, set, remove."),
    "connection": Entry("nouns.connection", "connection_app", "Connections: list, show, close."),
    "user": Entry("nouns.user", "user_app", "Users: list, show, create, delete, password, and more."),
    "pipeline": Entry("deployment_commands", "pipeline_app", "Pipelines: check, run, deploy, watch."),
    "context": Entry("nouns.context", "context_app", "Brokers by name: list, show, add, use, remove."),
    "cluster": Entry("cluster_commands", "cluster_app", "Brokers that share a log: status, hand over."),
    "storage": Entry("storage_commands", "storage_app", "Stored data: move it into a cluster, and back."),
    "config": Entry("config", "config_app", "Look at the settings of a broker."),
    "tls": Entry("tls_commands", "tls_app", "Certificates for trying TLS."),
    "log": Entry("log_commands", "log_app", "Look at stored data, without a broker."),
    "completion": Entry("completion_command", "completion", "Complete commands in bash, zsh or fish."),
}


class LazyCommands(TyperGroup):
    """Commands that are imported one by one."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import one."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        found = getattr(importlib.import_module(f"mainstem.cli.{entry.module}"), entry.attribute)
        if isinstance(found, typer.Typer):
            command = typer.main.get_command(found)
        else:
            single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
            single.command()(found)
            command = typer.main.get_command(single)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """For --help, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


app = typer.Typer(
    name="mainstem",
    cls=LazyCommands,
    help="One durable log that every message-queue client already speaks to.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"mainstem {version('mainstem')}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """One durable log that every message-queue client already speaks to."""


def main() -> None:
    """Run the command line."""
    if COMPLETION_VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
    try:
        app(prog_name="mainstem")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
