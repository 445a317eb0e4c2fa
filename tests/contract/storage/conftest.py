"""Every test of this folder runs once per engine; async tests run on one event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.storage.local.runtime import local_runtime
from mainstem.storage.runtime.async_runtime import AsyncRuntime
from tests.contract.storage.engine_cases import CASES, EngineCase, EngineUnderTest

TEST_SECONDS_MAX = 60


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Async tests are run here; one that hangs fails."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    runner = pyfuncitem.funcargs["engine_runner"]

    async def bounded() -> None:
        async with asyncio.timeout(TEST_SECONDS_MAX):
            await pyfuncitem.obj(**arguments)

    runner.run(bounded())
    return True


@pytest.fixture(scope="session")
def engine_runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def runtime(engine_runner: asyncio.Runner) -> Iterator[AsyncRuntime]:
    runtime = local_runtime(engine_runner.get_loop())
    yield runtime
    runtime.close()


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> EngineCase:
    return request.param


@pytest.fixture
def engine(
    case: EngineCase, engine_runner: asyncio.Runner, runtime: AsyncRuntime, tmp_path: Path
) -> Iterator[EngineUnderTest]:
    opened = EngineUnderTest(case, runtime, tmp_path / "data")
    engine_runner.run(opened.open())
    yield opened
    engine_runner.run(opened.close())
