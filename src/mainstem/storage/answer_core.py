"""How an answer is completed, called back and awaited; `Answer` adds the type of its value. Compiled where it can be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

try:
    import cython
except ImportError:
    from mainstem.compiled import Uncompiled as cython  # noqa: N813

if TYPE_CHECKING:
    from contextvars import Context

if not cython.compiled:
    # C functions of answer_core.pxd
    give_send: Any = None
    call_within = give_send

log_output = logging.getLogger("mainstem.storage")

NEW, WAITING, ANSWERED, CANCELLED = 0, 1, 2, 3

_wakes: list[Waiter] = []
"""Who is woken in the next turn of one loop."""
_wakes_loop: asyncio.AbstractEventLoop | None = None


class AnswerCore:
    """A value, or an error, that is here now or will be later. Used from one thread."""

    __slots__ = ("_callbacks", "_error", "_value", "_waiters", "done", "loop")

    def __init__(self) -> None:
        self.done = False
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop of those who await it, if its maker knows it: asking for the running loop is a system call."""
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Any], None]] | None = None
        self._waiters: list[Any] | None = None

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

    def __await__(self) -> Generator[object, None, Any] | Waiter:
        return Waiter(self) if cython.compiled else self._wait()

    def _wait(self) -> Generator[object, None, Any]:
        if not self.done:
            # A future of the waiter's own: cancelling one waiter must not cancel the answer of the others.
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            if self._waiters is None:
                self._waiters = [waiter]
            else:
                self._waiters.append(waiter)
            yield from waiter
        return self.result()


class Waiter:
    """One task that awaits an answer: its iterator, and the future that the task waits for, in one object.

    A future has its task called back by a turn of the event loop each. Of those whose answers come together, these wake all in
    one. What a task asks of a future is what `asyncio` documents for third-party ones. Only worth it compiled.
    """

    __slots__ = ("_answer", "_asyncio_future_blocking", "_callback", "_cancel_message", "_context", "_loop", "_state")

    _loop: asyncio.AbstractEventLoop

    def __init__(self, answer: AnswerCore) -> None:
        self._answer = answer
        self._asyncio_future_blocking = False
        self._state = NEW

    def __iter__(self) -> Waiter:
        return self

    def __next__(self) -> Waiter:
        value: object = _step(self)
        if value is self:
            return self
        raise StopIteration(value)

    # What a task asks of a future.

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the task."""
        return self._loop

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Context | None = None) -> None:
        """How the task is woken."""
        self._callback = callback
        self._context = context

    def cancel(self, msg: object = None) -> bool:
        """Wake the task with a CancelledError; the answer, and who else awaits it, are not touched."""
        if self._state != WAITING:
            return False
        self._state = CANCELLED
        self._cancel_message = msg
        _wake_soon(self)
        return True

    def result(self) -> None:
        """Nothing: the value comes out of the iterator."""
        if self._state == CANCELLED:
            message = self._cancel_message
            raise asyncio.CancelledError() if message is None else asyncio.CancelledError(message)

    def set_result(self, _: None) -> None:
        """The answer is there."""
        self._state = ANSWERED
        _wake_soon(self)

    def done(self) -> bool:
        """Whether the task is being woken."""
        return self._state > WAITING


def _step(waiter: Any) -> Any:
    """What an await does with a waiter, twice: the waiter itself while there is no answer, then the value; raises the error."""
    self = waiter
    answer = self._answer
    if answer.done:
        if answer._error is not None:
            raise answer._error
        return answer._value
    if self._state != NEW:
        raise RuntimeError("an answer was awaited by something that does not wait for it")
    self._state = WAITING
    self._loop = asyncio.get_running_loop() if answer.loop is None else answer.loop
    if answer._waiters is None:
        answer._waiters = [self]
    else:
        answer._waiters.append(self)
    self._asyncio_future_blocking = True
    return self


if cython.compiled:
    give_send(Waiter, _step)  # type: ignore[possibly-undefined]


def _wake_soon(waiter: Waiter) -> None:
    """In the next turn of its loop, with all others of this one."""
    global _wakes, _wakes_loop
    if _wakes_loop is not waiter._loop:
        wakes = [waiter]
        waiter._loop.call_soon(_wake_all, wakes)
        _wakes, _wakes_loop = wakes, waiter._loop
    else:
        _wakes.append(waiter)


def _wake_all(waiters: list[Waiter]) -> None:
    global _wakes, _wakes_loop
    if _wakes is waiters:
        _wakes, _wakes_loop = [], None
    for index, waiter in enumerate(waiters):
        try:
            if waiter._context is None:
                waiter._callback(waiter)
            elif cython.compiled:
                call_within(waiter._context, waiter._callback, waiter)
            else:
                waiter._context.run(waiter._callback, waiter)
        except BaseException:
            # Of a task only what ends the loop comes out here; should the loop run again, the others are still to be woken.
            waiter._loop.call_soon(_wake_all, waiters[index + 1 :])
            raise


def resolve_all(answers: Sequence[tuple[AnswerCore, Any]]) -> None:
    """Complete each answer with its value, in order."""
    for entry in answers:
        core, value = entry
        answer = core
        answer.resolve(value)
