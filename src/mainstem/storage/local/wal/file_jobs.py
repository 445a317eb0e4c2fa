"""File work beside the commit thread: preparing and removing files, with an end that can be waited for."""

from __future__ import annotations

from collections.abc import Callable

from mainstem.storage.runtime.runtime import Runtime

Report = Callable[[BaseException | None], None]


class FileJobs:
    """Jobs of the reading threads. Only the engine that closes its directory waits for them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._under_way = 0
        self._closing = False
        self._when_idle: list[Callable[[], None]] = []

    def run(self, job: Callable[[], None], report: Report) -> None:
        """Do a job, and report how it ended; nothing is begun once the directory is being closed."""
        if self._closing:
            return
        self._under_way += 1

        def done(_: None, error: BaseException | None) -> None:
            self._under_way -= 1
            report(error)
            if self._under_way == 0:
                actions, self._when_idle = self._when_idle, []
                for action in actions:
                    action()

        self._runtime.read(job, done)

    def close(self, then: Callable[[], None]) -> None:
        """Begin nothing more; call when the last job has ended."""
        self._closing = True
        if self._under_way == 0:
            then()
        else:
            self._when_idle.append(then)
