"""Options that most commands have."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from mainstem.cli.terminal.output import Form

Address: TypeAlias = Annotated[
    str | None, typer.Option("--address", metavar="HOST:PORT", help="The broker's HTTP listener.", show_default=False)
]
OldAddress: TypeAlias = Annotated[str | None, typer.Option("--http", hidden=True)]
ContextName: TypeAlias = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="A broker by its name: see `mainstem context`.")
]
Output: TypeAlias = Annotated[
    Form | None,
    typer.Option(
        "--output", "-o", help="How to write. Default: a table at a terminal, else jsonl.", show_default=False
    ),
]
Curl: TypeAlias = Annotated[bool, typer.Option("--curl", help="Print the request, and send nothing.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
Namespace: TypeAlias = Annotated[str, typer.Option("--namespace", metavar="NAME", help="Where it is.")]
Search: TypeAlias = Annotated[str, typer.Option("--search", metavar="TEXT", help="Only names that contain this.")]
Limit: TypeAlias = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="At most this many.")]
DEFAULT_NAMESPACE = "default"
