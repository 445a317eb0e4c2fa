"""The answer to a call that may have to wait for the disk.

A future per message would cost more than the message, so an `Answer` is made once per call, knows no event
loop, and is complete at once when nothing has to be waited for. Adapters on the hot path add a callback; everyone
else awaits.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Generic, TypeVar

from mainstem.storage.answer_core import AnswerCore

T = TypeVar("T")


class Answer(AnswerCore, Generic[T]):
    """A value, or an error, that is here now or will be later. Used from one thread."""

    __slots__ = ()

    @classmethod
    def of(cls, value: T) -> Answer[T]:
        """An answer that is complete already."""
        answer = cls()
        answer.resolve(value)
        return answer

    @classmethod
    def failed(cls, error: BaseException) -> Answer[T]:
        """An answer that is an error already."""
        answer = cls()
        answer.fail(error)
        return answer

    if TYPE_CHECKING:

        def result(self) -> T:
            """The value; raises the error. Only once done."""

        def on_done(self, callback: Callable[[Answer[T]], None]) -> None:
            """Call back when done, or now if it is."""

        def resolve(self, value: T) -> None:
            """Complete with a value."""

        def __await__(self) -> Generator[object, None, T]: ...
