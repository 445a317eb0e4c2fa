"""Long work in small steps: a generator that yields answers and goes on when they are there.

Maintenance waits for disks and child processes without a thread or an event loop of its own, so that a simulation can run it too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from mainstem.storage.answer import Answer
from mainstem.storage.runtime.runtime import Runtime

T = TypeVar("T")

Steps: TypeAlias = Generator[Answer[Any], Any, T]


def run_steps(steps: Steps[T]) -> Answer[T]:
    """Drive a generator to its end; what it returns or raises is the answer."""
    answer: Answer[T] = Answer()

    def advance(waited: Answer[Any] | None) -> None:
        while True:
            try:
                if waited is None:
                    waited = next(steps)
                elif waited.error is not None:
                    waited = steps.throw(waited.error)
                else:
                    waited = steps.send(waited.result())
            except StopIteration as stop:
                answer.resolve(stop.value)
                return
            except Exception as error:  # noqa: BLE001 - the caller is told
                answer.fail(error)
                return
            if not waited.done:
                waited.on_done(advance)
                return

    advance(None)
    return answer


def turn(runtime: Runtime) -> Answer[None]:
    """Answered in the next turn: lets everybody else go first."""
    answer: Answer[None] = Answer()
    runtime.call_soon(lambda: answer.resolve(None))
    return answer


def in_read_lane(runtime: Runtime, job: Callable[[], T]) -> Answer[T]:
    """Blocking work, off the loop."""
    answer: Answer[T] = Answer()

    def done(value: Any, error: BaseException | None) -> None:
        answer.resolve(value) if error is None else answer.fail(error)

    runtime.read(job, done)
    return answer


def in_parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Pieces of a long list, to give others a turn in between."""
    for first in range(0, len(items), size):
        yield items[first : first + size]
