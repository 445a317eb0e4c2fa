"""The runtime of the engine on local disk: threads beside the event loop, and a child process that merges."""

from __future__ import annotations

import asyncio

from mainstem.storage.local.merge.process import MergeProcess
from mainstem.storage.runtime.async_runtime import AsyncRuntime


def local_runtime(loop: asyncio.AbstractEventLoop) -> AsyncRuntime:
    """Made for one engine; the caller closes it after the engine."""
    return AsyncRuntime(loop, MergeProcess())
