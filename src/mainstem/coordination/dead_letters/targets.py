"""Where a subscription sends what it gives up: through routes, or to a topic."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import msgspec


class DeadLetterTarget(msgspec.Struct, frozen=True, array_like=True):
    """Published anew to an exchange, under the old routing key or another."""

    exchange: str
    routing_key: str | None = None
    strategy: Literal["at-most-once", "at-least-once"] = "at-most-once"


class LetterTopic(NamedTuple):
    """Written to a topic of the same namespace."""

    name: str
    copies: bool = False
    """Whether the letter has the key and value of its record, beside where that is."""


LetterTarget: TypeAlias = DeadLetterTarget | LetterTopic
