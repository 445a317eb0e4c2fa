"""What one part of the broker adds to a commit that another part makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from mainstem.model.errors import MainstemError
from mainstem.storage.contract import Append, LogChange, Mutation


class SealedAddition(NamedTuple):
    """What is to be in the commit."""

    appends: Sequence[Append] = ()
    state: Sequence[Mutation] = ()
    changes: Sequence[LogChange] = ()


class CommitAddition(Protocol):
    """Something that happens with the rest of a commit or not at all."""

    def seal(self) -> SealedAddition:
        """Called once, when the commit is made; nothing more is added then."""

    def resolved(self, outcome: Sequence[int] | MainstemError) -> None:
        """Called once, when the commit is durable, with the first offset of each append; or with its refusal."""
