"""`mainstem top`: what a broker does now, drawn again every second."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated, Any

import typer

from mainstem.cli.terminal.broker import Broker, connect
from mainstem.cli.terminal.options import Address, ContextName
from mainstem.cli.terminal.output import moment
from mainstem.cli.terminal.screen import amount, bars, full_screen
from mainstem.cli.terminal.times import parse_length

TOPICS, CONNECTIONS = 10, 8
HISTORY = 60
INTERVAL_S_MIN = 0.1
TITLES = ("PROTOCOL", "CONNECTIONS", "REQUESTS/S", "IN B/S", "OUT B/S")


def top(
    interval: Annotated[str, typer.Option("--interval", metavar="TIME", help="Between two pictures.")] = "1s",
    count: Annotated[
        int | None, typer.Option("--count", "-n", metavar="N", min=1, help="End after this number of pictures.")
    ] = None,
    address: Address = None,
    context: ContextName = None,
) -> None:
    """Show rates, connections, the busiest topics and alarms: full screen until q; in a pipe, one JSON line each."""
    broker = connect(address, context)
    pause_s = max(INTERVAL_S_MIN, parse_length(interval) / 1000)
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        _write_lines(broker, pause_s, 1 if count is None else count)
        return
    first = _look(broker)
    with full_screen() as screen:
        drawn = 0
        while True:
            screen.draw(picture(first if not drawn else _look(broker)))
            drawn += 1
            if drawn == count or screen.key(pause_s) in ("q", "Q"):
                return


def _write_lines(broker: Broker, pause_s: float, count: int) -> None:
    for number in range(count):
        if number:
            time.sleep(pause_s)
        seen = _look(broker)
        live = {name: values[-1] for name, values in seen["live"]["series"].items() if values}
        topics = {name: values[-1] for name, values in seen["live"]["topics"].items() if values}
        shown = {"time_ms": seen["live"]["time_ms"], **live, "topics": topics, "alarms": seen["alarms"]}
        print(json.dumps(shown), flush=True)


def _look(broker: Broker) -> dict[str, Any]:
    return {
        "node": broker.get("/v1/node"),
        "live": broker.get("/v1/live", topics=TOPICS),
        "connections": broker.get("/v1/connections", sort="received", limit=CONNECTIONS)["connections"],
        "alarms": broker.get("/v1/alarms")["alarms"],
    }


def picture(seen: dict[str, Any]) -> list[str]:
    """The lines of one screen."""
    node, live = seen["node"], seen["live"]
    series: dict[str, list[float | None]] = live["series"]
    rate = series.get("records_in", [])
    lines = [
        f"mainstem {node['version']}  {node['condition']}  {moment(live['time_ms'])}  topics {node['topics']:,}  "
        f"groups {node['groups']:,}  alarms {len(seen['alarms'])}   (q ends)",
        "",
        f"records in {amount(_last(rate)):>8}/s  {bars(rate, HISTORY)}",
        "",
        "{:<12}{:>12}{:>12}{:>12}{:>12}".format(*TITLES),
    ]
    for name in sorted({listener["name"] for listener in node["listeners"]}):
        values = [_last(series.get(f"{kind}.{name}", [])) for kind in ("requests", "received_bytes", "sent_bytes")]
        connections = amount(_last(series.get(f"connections.{name}", [])))
        lines.append(f"{name:<12}{connections:>12}" + "".join(f"{amount(value):>12}" for value in values))
    lines += ["", f"{'BUSIEST TOPICS':<40}{'RECORDS/S':>12}"]
    for name, values in live["topics"].items():
        lines.append(f"{_plain(name)[:39]:<40}{amount(_last(values)):>12}  {bars(values, HISTORY)}")
    lines += ["", f"{'BUSIEST CONNECTIONS':<24}{'CLIENT':<24}{'LIBRARY':<24}{'IN B/S':>10}{'OUT B/S':>10}"]
    for one in seen["connections"]:
        lines.append(
            f"{one['id']:<24}{_plain(one['client'])[:23]:<24}{_plain(one['library'])[:23]:<24}"
            f"{amount(one['received_bytes_per_second']):>10}{amount(one['sent_bytes_per_second']):>10}"
        )
    for alarm in seen["alarms"]:
        lines.append(f"! {alarm['severity']} {alarm['rule']} {_plain(alarm['subject'])} {alarm['value']:g}")
    return lines


def _last(values: list[float | None]) -> float | None:
    return values[-1] if values else None


def _plain(text: str) -> str:
    """What clients call themselves must not move the cursor."""
    return "".join(character if character.isprintable() else "?" for character in text)
