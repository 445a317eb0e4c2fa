"""How an answer is completed, called back and awaited; `Answer` adds the type of its value. Compiled where it can be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any

log_output = logging.getLogger("mainstem.storage")


class AnswerCore:
    """A value, or an error, that is here now or will be later. Used from one thread."""

    __slots__ = ("_callbacks", "_error", "_value", "_waiters", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Any], None]] | None = None
        self._waiters: list[asyncio.Future[None]] | None = None

    @property
    def error(self) -> BaseException | None:
        """The error, once done, if there is one."""
        return self._error

    def result(self) -> Any:
        """The value; raises the error. Only once done."""
        assert self.done, "not answered yet"
        if self._error is not None:
            raise self._error
        return self._value

    def on_done(self, callback: Callable[[Any], None]) -> None:
        """Call back when done, or now if it is."""
        if self.done:
            callback(self)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def resolve(self, value: Any) -> None:
        """Complete with a value."""
        assert not self.done
        self._value = value
        self._finish()

    def fail(self, error: BaseException) -> None:
        """Complete with an error."""
        assert not self.done
        self._error = error
        self._finish()

    def _finish(self) -> None:
        self.done = True
        callbacks, waiters = self._callbacks, self._waiters
        if waiters is not None:
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters = None
        if callbacks is not None:
            self._callbacks = None
            for callback in callbacks:
                try:
                    callback(self)
                except Exception:
                    # One caller's bug must not keep the others of the group from their answers.
                    log_output.exception("a callback failed")

    def __await__(self) -> Generator[object, None, Any]:
        if not self.done:
            # A future of the waiter's own: cancelling one waiter must not cancel the answer of the others.
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if self._waiters is None:
                self._waiters = [waiter]
            else:
                self._waiters.append(waiter)
            yield from waiter
        return self.result()


def resolve_all(answers: Sequence[tuple[AnswerCore, Any]]) -> None:
    """Complete each answer with its value, in order."""
    for entry in answers:
        core, value = entry
        answer = core
        answer.resolve(value)
