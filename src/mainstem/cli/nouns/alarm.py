"""`mainstem alarm`: what is not as it should be, and the rules that say so."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from mainstem.cli.terminal.asking import confirm
from mainstem.cli.terminal.broker import connect, path_of
from mainstem.cli.terminal.exits import FAILED, NOT_FOUND, WRONG_USE, fail
from mainstem.cli.terminal.options import Address, ContextName, Curl, DryRun, Output, Yes
from mainstem.cli.terminal.output import write_list, write_one
from mainstem.cli.terminal.times import parse_length

alarm_app = typer.Typer(help="Alarms: list, rules, set, remove.", no_args_is_help=True)

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="The name of a rule.")]


@alarm_app.callback()
def alarm() -> None:
    """Alarms: list, rules, set, remove."""


@alarm_app.command("list")
def list_alarms(
    fail_on_any: Annotated[bool, typer.Option("--fail-on-any", help="End with 1 where there is one.")] = False,
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Show alarms that are raised, the critical first."""
    found = connect(address, context, curl=curl).get("/v1/alarms")["alarms"]
    write_list(found, ("rule", "subject", "severity", "measure", "value", "since_ms"), output, name="rule")
    if fail_on_any and found:
        raise typer.Exit(FAILED)


@alarm_app.command()
def rules(address: Address = None, context: ContextName = None, output: Output = None, curl: Curl = False) -> None:
    """Show all rules."""
    found = connect(address, context, curl=curl).get("/v1/alarms")["rules"]
    rows = [{"name": name, **rule} for name, rule in sorted(found.items())]
    write_list(rows, ("name", "measure", "above", "below", "for_s", "severity", "subject"), output)


@alarm_app.command("set")
def set_rule(
    name: Name,
    measure: Annotated[
        str, typer.Argument(metavar="MEASURE", help="As group_lag_seconds, dead_letters, live.records_in.")
    ],
    above: Annotated[float | None, typer.Option("--above", metavar="N", help="Raise it above this.")] = None,
    below: Annotated[float | None, typer.Option("--below", metavar="N", help="Raise it below this.")] = None,
    lasting: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="When it is so for this time, as 60s.")
    ] = None,
    critical: Annotated[bool, typer.Option("--critical", help="Not a warning, but critical.")] = False,
    subject: Annotated[
        str, typer.Option("--subject", metavar="NAME", help="Only of this group, queue or pipeline.")
    ] = "",
    address: Address = None,
    context: ContextName = None,
    output: Output = None,
    curl: Curl = False,
) -> None:
    """Set a rule, in place of one of its name."""
    if (above is None) is (below is None):
        fail(["either --above or --below"], WRONG_USE)
    rule: dict[str, Any] = {"measure": measure, "above": above, "below": below, "subject": subject}
    rule["severity"] = "critical" if critical else "warning"
    rule["for_s"] = 0 if lasting is None else parse_length(lasting) / 1000
    found = connect(address, context, curl=curl).ask("PUT", path_of("v1", "alarms", "rules", name), rule)
    write_one({"name": name, **found}, output)


@alarm_app.command()
def remove(
    name: Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    address: Address = None,
    context: ContextName = None,
    curl: Curl = False,
) -> None:
    """Switch a rule off; a default stays off until it is set again."""
    broker = connect(address, context, curl=curl)
    if not curl:
        if name not in broker.get("/v1/alarms")["rules"]:
            fail([f"there is no rule {name}."], NOT_FOUND)
        if dry_run:
            print(f"Rule {name} would be switched off.")
            return
        confirm(f"Rule {name} will be switched off", name, yes=yes)
    broker.ask("DELETE", path_of("v1", "alarms", "rules", name))
    print(f"Rule {name} is off.")
