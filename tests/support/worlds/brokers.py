"""Brokers over an engine in memory, for tests that need no disk."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.model.errors import Overloaded
from mainstem.storage.answer import Answer
from mainstem.storage.local.runtime import local_runtime
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.storage.runtime.async_runtime import AsyncRuntime
from tests.support.worlds.late_engine import LateEngine

PATIENCE_S = 60
late_seed: int | None = None
"""Set while a test runs over an engine whose answers come late."""


def _engine(runtime: AsyncRuntime) -> MemoryEngine:
    engine = MemoryEngine(runtime)
    return engine if late_seed is None else LateEngine(engine, runtime.call_soon, late_seed)  # type: ignore[return-value]


def with_engine(test: Callable[[MemoryEngine], Awaitable[None]]) -> Callable[[], None]:
    """An asynchronous test that is given an engine."""

    def run() -> None:
        async def main() -> None:
            runtime = local_runtime(asyncio.get_running_loop())
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await test(_engine(runtime))
            finally:
                runtime.close()

        asyncio.run(main())

    run.__name__ = test.__name__
    run.takes_an_engine = True  # type: ignore[attr-defined]
    return run


def with_broker(test: Callable[[Broker], Awaitable[None]]) -> Callable[[], None]:
    """An asynchronous test that is given a broker."""

    async def run(engine: MemoryEngine) -> None:
        await test(await Broker.open(engine, LoopClock()))

    run.__name__ = test.__name__
    return with_engine(run)


def refuse_once(engine: MemoryEngine) -> None:
    alter = engine.alter

    def refused(*arguments: Any) -> Answer[None]:
        engine.alter = alter  # type: ignore[method-assign]
        answer: Answer[None] = Answer()
        answer.fail(Overloaded("too much waits"))
        return answer

    engine.alter = refused  # type: ignore[method-assign,assignment]
