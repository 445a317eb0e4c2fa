"""`mainstem status`: is all well, in one screen."""

from __future__ import annotations

import typer

from mainstem.cli.terminal.broker import connect
from mainstem.cli.terminal.exits import FAILED
from mainstem.cli.terminal.options import Address, ContextName, Curl, Output
from mainstem.cli.terminal.output import write_one


def status(address: Address = None, context: ContextName = None, output: Output = None, curl: Curl = False) -> None:
    """Show the broker: version, condition, rate, disk, alarms, listeners. Ends with 1 where it is not ready."""
    broker = connect(address, context, curl=curl)
    node = broker.get("/v1/node")
    alarms = broker.get("/v1/alarms")["alarms"]
    rates = broker.get("/v1/live", topics=1)["series"].get("records_in") or [None]
    shown = {
        "condition": node["condition"],
        "version": node["version"],
        "cluster_id": node["cluster_id"],
        "topics": node["topics"],
        "groups": node["groups"],
        "connections": sum(one["connections"] for one in node["listeners"]),
        "records_in_per_second": rates[-1],
        "free_bytes": node["storage"].get("disk_free_bytes"),
        "alarms": alarms,
        "listeners": node["listeners"],
    }
    write_one(shown, output, name="condition")
    if node["condition"] != "ready":
        raise typer.Exit(FAILED)
