"""`mainstem pipeline deploy` and what follows: pipelines that are kept running, through the broker's HTTP listener."""

from __future__ import annotations

import datetime
import logging
import sys
import time
from pathlib import Path
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlencode

import typer

from mainstem.cli.pipeline_commands import EXIT_FAILED, File, check_spark, pipeline_app, read_definition
from mainstem.cli.settings_options import EXIT_REFUSED
from mainstem.cli.terminal.asking import confirm
from mainstem.cli.terminal.contexts import choose
from mainstem.cli.terminal.exits import fail
from mainstem.cli.terminal.options import DryRun, Output, Yes
from mainstem.cli.terminal.output import Form, write_list, write_one
from mainstem.model.errors import MainstemError
from mainstem.sdk.http_api import ask, path_of

__all__ = ["pipeline_app"]

PAGE = 1_000
FOLLOW_S = 1.0
ROOM_DEFAULT = 20

Http: TypeAlias = Annotated[
    str | None,
    typer.Option("--address", "--http", metavar="HOST:PORT", help="The broker's HTTP listener.", show_default=False),
]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="The name of a pipeline.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", hidden=True)]


@pipeline_app.command()
def deploy(file: File, http: Http = None) -> None:
    """Give a pipeline to the broker, which keeps it running; one of its name goes on as this one."""
    found = read_definition(file)
    path = Path(file)
    files = {}
    for name in found.python_files():
        try:
            files[name] = (path.parent / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            fail([f"{name} cannot be read: {error}"], EXIT_REFUSED)
    wish = {"definition": path.read_text(encoding="utf-8"), "file": path.name, "files": files}
    answer = _ask(http, "PUT", path_of("v1", "pipelines", found.name), wish)
    print(f"Pipeline {found.name} is deployed, revision {answer['revision']}: {answer['state']}.")


@pipeline_app.command("list")
def list_pipelines(
    http: Http = None,
    everything: Annotated[bool, typer.Option("--all", help="The broker's own pipelines too.")] = False,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Show what is deployed, and how it is getting on."""
    query: dict[str, Any] = {"limit": PAGE} | ({"all": "true"} if everything else {})
    found: list[dict[str, Any]] = []
    following: str | None = f"/v1/pipelines?{urlencode(query)}"
    while following:
        page = _ask(http, "GET", following)
        found += page["pipelines"]
        following = page["next"]
    if as_json or output is not None:
        write_list(found, ("name", "state", "revision", "restarts", "error"), Form.JSON if as_json else output)
        return
    for one in found:
        print(_line(one))


@pipeline_app.command()
def status(name: Name, http: Http = None, as_json: Json = False, output: Output = None) -> None:
    """Show one pipeline: its state, restarts, last error and progress."""
    found = _ask(http, "GET", path_of("v1", "pipelines", name))
    if as_json or output is not None:
        write_one(found, Form.JSON if as_json else output)
        return
    print(_line(found))
    for label, value in (
        ("deployed", _moment(found["deployed_ms"])),
        ("state since", _moment(found["changed_ms"])),
        ("worker", found["worker"] or "none"),
        ("restarts", found["restarts"]),
        ("error", found["error"] or "none"),
        ("last progress", _moment(found["progress_ms"])),
    ):
        print(f"  {label:<14} {value}")
    for sink in found["sinks"]:
        print(
            f"  sink {sink['sink']}: {sink['rows_in']:,} rows in, {sink['rows_out']:,} out, batch {sink['batch']} "
            f"in {sink['batch_ms'] / 1000:.1f} s, lag {sink['lag']:,}, state {sink['state_rows']:,} rows"
        )
    for rule, rows in found["broken"].items():
        print(f"  rule {rule}: {rows:,} rows broke it")


@pipeline_app.command()
def logs(
    name: Name,
    http: Http = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
) -> None:
    """Print the newest of what a pipeline's driver has written."""
    position = 0
    while True:
        found = _ask(http, "GET", f"{path_of('v1', 'pipelines', name, 'log')}?after={position}")
        sys.stdout.write(found["text"])
        sys.stdout.flush()
        position = found["end"]
        if not follow:
            return
        time.sleep(FOLLOW_S)


@pipeline_app.command()
def pause(name: Name, http: Http = None) -> None:
    """End a pipeline's driver after its micro-batch, until it is resumed."""
    _wish(http, name, "pause")


@pipeline_app.command()
def resume(name: Name, http: Http = None) -> None:
    """Run a pipeline again, from where it was."""
    _wish(http, name, "resume")


@pipeline_app.command()
def stop(name: Name, http: Http = None) -> None:
    """End a pipeline's driver after its micro-batch, until it is resumed or deployed again."""
    _wish(http, name, "stop")


@pipeline_app.command()
def remove(name: Name, yes: Yes = False, dry_run: DryRun = False, http: Http = None) -> None:
    """End a pipeline and forget it, with its checkpoints; what it wrote stays."""
    _ask(http, "GET", path_of("v1", "pipelines", name))
    if dry_run:
        print(f"Pipeline {name} would be removed, with its checkpoints.")
        return
    confirm(f"Pipeline {name} will be removed, with its checkpoints", name, yes=yes)
    _ask(http, "DELETE", path_of("v1", "pipelines", name))
    print(f"Pipeline {name} is removed.")


@pipeline_app.command()
def worker(
    http: Http = None,
    data_dir: Annotated[
        str, typer.Option("--data-dir", metavar="DIR", help="Where checkpoints and logs are kept, below pipelines/.")
    ] = "mainstem-data",
    room: Annotated[
        int, typer.Option("--room", metavar="N", min=1, max=1000, help="How many pipelines it runs at most.")
    ] = ROOM_DEFAULT,
    supervised: Annotated[
        bool, typer.Option("--supervised", help="End when standard input does; used by `serve --pipelines`.")
    ] = False,
) -> None:
    """Keep deployed pipelines running, each in a driver of its own, until SIGTERM or SIGINT."""
    check_spark()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    from mainstem.pipelines.worker.supervisor import Supervisor
    from mainstem.pipelines.worker.workplace import Workplace

    workplace = Workplace(Path(data_dir).expanduser())
    try:
        with workplace.held():
            Supervisor(workplace, choose(http, None).address, room=room, is_supervised=supervised).run()
    except MainstemError as error:
        fail(str(error).splitlines(), EXIT_FAILED)


def _wish(http: str | None, name: str, wish: str) -> None:
    found = _ask(http, "POST", path_of("v1", "pipelines", name, wish))
    print(f"Pipeline {name}: {found['state']}.")


def _ask(http: str | None, method: str, path: str, content: dict[str, Any] | None = None) -> Any:
    try:
        return ask(choose(http, None).address, method, path, content)
    except MainstemError as error:
        fail([str(error)], EXIT_FAILED)


def _line(found: dict[str, Any]) -> str:
    lag = sum(sink["lag"] for sink in found["sinks"])
    rate = sum(sink["rows_in_per_s"] for sink in found["sinks"])
    text = f"{found['name']}  {found['state']}  revision {found['revision']}"
    if found["origin"] != "deployed":
        text += f"  ({found['origin']})"
    if found["sinks"]:
        text += f"  lag {lag:,}  {rate:,.0f} rows/s in"
    return f"{text}  {found['error']}" if found["error"] else text


def _moment(ms: int) -> str:
    if not ms:
        return "never"
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).isoformat(timespec="seconds")
