"""Names of things, for the completion of a shell: asked of the broker, and silent when it is away."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable

import typer

from mainstem.cli.terminal.broker import Broker
from mainstem.cli.terminal.contexts import choose

TIMEOUT_S = 0.5
NAMES_MAX = 100


def names_of(things: str, field: str = "name") -> Callable[[str], list[str]]:
    """Completes a name of these things, as they are in the path of the API."""

    def complete(incomplete: str) -> list[str]:
        with contextlib.suppress(Exception, typer.Exit), contextlib.redirect_stderr(io.StringIO()):
            broker = Broker(choose(None, None), timeout_s=TIMEOUT_S)
            query = {"limit": NAMES_MAX, "search": incomplete}
            found = [str(one[field]) for one in broker.get(f"/v1/{things}", **query)[things]]
            return [name for name in found if name.startswith(incomplete)]
        return []

    return complete
