"""What a handler is: a command of a connection, answered at once or later."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from mainstem.protocols.pulsar.codec.frames import Buffer
from mainstem.protocols.pulsar.errors import ServerError

if TYPE_CHECKING:
    from mainstem.protocols.pulsar.handlers.connection import PulsarConnection

Speaker: TypeAlias = "PulsarConnection"
Handler: TypeAlias = "Callable[[PulsarConnection, Any], Coroutine[Any, Any, None] | None]"
"""Raises CommandRefused and kinds of MainstemError, which are answered."""
Refusal: TypeAlias = Callable[[Any, ServerError, str], list[Buffer]]
"""How a command is refused that has words of its own for that."""
Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
