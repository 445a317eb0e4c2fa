"""`mainstem log`: look at stored data without a broker, and beside a running one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
import typer

from mainstem.cli.settings_options import EXIT_REFUSED, Assignments, Config, DataDir, resolve_options
from mainstem.cli.terminal.exits import fail

if TYPE_CHECKING:
    from mainstem.server.inspection import Directories

EXIT_DAMAGE = 1
EXIT_BROKEN_PIPE = 141
"""As a shell reports a program that was ended by SIGPIPE."""
TEXT_WIDTH = 80

log_app = typer.Typer(help="Look at stored data. Nothing is changed, no lock is taken.", no_args_is_help=True)

WalDir: TypeAlias = Annotated[
    str | None,
    typer.Option("--wal-dir", metavar="DIR", help="Where the write-ahead log is, if not in the data directory."),
]
RunDirs: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--run-dir", metavar="DIR", help="Where runs are, if not in the data directory; repeatable."),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


@log_app.callback()
def log() -> None:
    """Look at stored data. Nothing is changed, no lock is taken."""


@log_app.command()
def dump(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="Files to print whole; without any, all live data.")
    ] = None,
    records: Annotated[bool, typer.Option("--records", help="Print records, not only batches.")] = False,
    log_id: Annotated[int | None, typer.Option("--log", metavar="ID", min=0, help="Only this log.")] = None,
    from_offset: Annotated[
        int | None, typer.Option("--from", metavar="OFFSET", min=0, help="Only offsets from here on.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=0, help="Stop after N records, batches or items of state.")
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(
            "--width",
            metavar="N",
            min=1,
            help=f"Cut keys and values after N characters. Default: {TEXT_WIDTH}; with --json they are whole.",
        ),
    ] = None,
    as_json: Json = False,
    data_dir: DataDir = None,
    wal_dir: WalDir = None,
    run_dirs: RunDirs = None,
    config: Config = None,
    assignments: Assignments = None,
) -> None:
    """Print what is stored: files, groups, batches, records, state."""
    from mainstem.server import inspection

    selection = inspection.Selection(
        records=records,
        log=log_id,
        from_offset=from_offset,
        limit=limit,
        width=TEXT_WIDTH if width is None and not as_json else width,
    )
    for file in files or ():
        if not os.path.isfile(file):  # noqa: PTH113 - a word to people, before anything is read
            fail([f"there is no file {file}"], EXIT_REFUSED)
    source = files or _directories(data_dir, wal_dir, run_dirs, config, assignments)
    with _quiet_pipe():
        found = inspection.dump(source, print, selection=selection, as_json=as_json)
    _end(found)


@log_app.command()
def verify(
    as_json: Json = False,
    data_dir: DataDir = None,
    wal_dir: WalDir = None,
    run_dirs: RunDirs = None,
    config: Config = None,
    assignments: Assignments = None,
) -> None:
    """Check every checksum, and that nothing is missing. Status 1 when something is."""
    from mainstem.server import inspection

    directories = _directories(data_dir, wal_dir, run_dirs, config, assignments)
    with _quiet_pipe():
        found = inspection.verify_directory(directories, print, as_json=as_json)
    _end(found)


@log_app.command()
def stat(
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=0, help="Only the N largest logs; 0 for all of them.")
    ] = 20,
    as_json: Json = False,
    data_dir: DataDir = None,
    wal_dir: WalDir = None,
    run_dirs: RunDirs = None,
    config: Config = None,
    assignments: Assignments = None,
) -> None:
    """Print how much is stored: files, logs, state."""
    from mainstem.server import inspection

    directories = _directories(data_dir, wal_dir, run_dirs, config, assignments)
    with _quiet_pipe():
        found = inspection.print_statistics(directories, print, as_json=as_json, top=top)
    _end(found)


def _directories(
    data_dir: str | None,
    wal_dir: str | None,
    run_dirs: list[str] | None,
    config: str | None,
    assignments: list[str] | None,
) -> Directories:
    """What the settings in force name, with a word of warning while a broker is at work there."""
    from mainstem.server import inspection

    settings = resolve_options(data_dir, None, None, config, assignments).settings.storage
    if wal_dir is not None:
        settings = msgspec.structs.replace(settings, wal_directory=wal_dir)
    if run_dirs:
        settings = msgspec.structs.replace(settings, run_directories=tuple(run_dirs))
    try:
        directories = inspection.find_directories(settings)
    except inspection.NoDataDirectory as missing:
        fail([str(missing)], EXIT_REFUSED)
    warning = inspection.describe_broker(directories)
    if warning is not None:
        print(f"mainstem: note: {warning}", file=sys.stderr)
    return directories


@contextmanager
def _quiet_pipe() -> Iterator[None]:
    """A reader of the output may stop at any time."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still in the buffer would be written, and fail, once more at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(EXIT_BROKEN_PIPE) from None


def _end(found: str) -> None:
    if found != "clean":
        raise typer.Exit(EXIT_DAMAGE)
