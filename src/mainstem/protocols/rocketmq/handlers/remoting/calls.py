"""One request, as its handler meets it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from mainstem.protocols.rocketmq.codec.remoting.commands import IS_ANSWER, Buffer, Command
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode, code_of

if TYPE_CHECKING:
    from mainstem.protocols.rocketmq.handlers.remoting.connection import RemotingConnection

SUCCESS = ResponseCode.SUCCESS
NUMBER_CHARACTERS_MAX = 20


class Call:
    """A request, and the one answer to it."""

    __slots__ = ("command", "connection", "fields")

    def __init__(self, connection: RemotingConnection, command: Command) -> None:
        self.connection = connection
        self.command = command
        self.fields = command.fields

    def text(self, name: str) -> str:
        """A field that must be there. Raises RequestRefused."""
        found = self.fields.get(name)
        if found is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the field {name} is missing")
        return found

    def number(self, name: str, default: int | None = None) -> int:
        """A field that is a number of 64 bits. Raises RequestRefused."""
        text = self.text(name) if default is None else self.fields.get(name)
        if text is None:
            assert default is not None
            return default
        try:
            number = int(text) if len(text) <= NUMBER_CHARACTERS_MAX else 1 << 64
        except ValueError:
            number = 1 << 64
        if not -(1 << 63) <= number < 1 << 63:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the field {name} is no number: {text[:40]!r}")
        return number

    def is_set(self, name: str) -> bool:
        """Whether a field says true."""
        return self.fields.get(name, "").lower() == "true"

    def answer(
        self,
        fields: Mapping[str, object] | None = None,
        body: Buffer = b"",
        *,
        code: int = SUCCESS,
        remark: str | None = None,
    ) -> None:
        """Say so; nothing, where nobody waits for it."""
        command = self.command
        if command.is_one_way:
            return
        texts = {} if fields is None else {name: str(value) for name, value in fields.items()}
        answer = Command(
            code, command.opaque, texts, body, IS_ANSWER, command.version, remark, is_binary=command.is_binary
        )
        self.connection.session.answer(answer)

    def refuse(self, error: BaseException) -> None:
        """Answer with what went wrong."""
        self.answer(code=code_of(error), remark=str(error))


Handler: TypeAlias = "Callable[[Call], Coroutine[Any, Any, None] | None]"
"""Answers the call, at once or later. Raises RequestRefused and kinds of MainstemError."""
Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
