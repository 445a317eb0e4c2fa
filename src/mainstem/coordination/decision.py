"""What a pure `decide` method answers: changes of logs and of state, to commit together."""

from __future__ import annotations

from typing import NamedTuple

from mainstem.storage.contract import LogChange, Mutation


class Decision(NamedTuple):
    """One commit's worth of changes. `replay` applies the state once the commit is durable."""

    logs: list[LogChange]
    state: list[Mutation]
