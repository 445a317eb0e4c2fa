"""Subscriptions of share groups, where records are missing and callers have gone."""

import asyncio

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import NewTopic
from mainstem.broker.clock import LoopClock
from mainstem.broker.subscriptions.subscriptions import LeaseVerdict, ReadRequest, Ruling, Subscriptions
from mainstem.storage.contract import Append, Budget, Commit, Edge
from mainstem.storage.local.runtime import local_runtime
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.record_batch import Record, encode_batch

WISH = ReadRequest("member", 100, 1 << 20, True)


async def written(engine: MemoryEngine, *keys: bytes) -> tuple[Subscriptions, int]:
    """A log with these keys, each in a batch of its own, that is compacted, and a group that reads it from its beginning."""
    broker = await Broker.open(engine, LoopClock())
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
    (log,) = (await broker.topics.ensure(NewTopic("t", 1, configs))).logs
    for key in keys:
        await broker.publish([Commit([Append(log, encode_batch([Record(0, 1_000, key, b"v")]))])])
    await engine.maintain(Budget())
    await broker.share_groups.ensure("g")
    await broker.share_groups.open("g", log, Edge.START)
    return broker.share_groups.subscriptions, log


@pytest.mark.parametrize(("keys", "left"), [((b"a", b"x", b"x", b"x", b"b"), [0, 3, 4]), ((b"x", b"x"), [1])])
def test_what_compaction_took_is_done_with(keys: tuple[bytes, ...], left: list[int]) -> None:
    async def main() -> None:
        runtime = local_runtime(asyncio.get_running_loop())
        try:
            subscriptions, log = await written(MemoryEngine(runtime), *keys)
            taken = await subscriptions.take("g", log, WISH)
            assert [offset for first, last, _ in taken.leased for offset in range(first, last + 1)] == left
            rulings = [Ruling(first, last, LeaseVerdict.ACCEPT) for first, last, _ in taken.leased]
            assert await subscriptions.rule("g", "member", {log: rulings}) == {}
            assert subscriptions.cursors("g")[log].floor == len(keys)
            wait = asyncio.ensure_future(_until(subscriptions, log))
            await asyncio.sleep(0)
            assert not wait.done(), "nobody is told that there is something"
            subscriptions.wake("g")
            await wait
        finally:
            runtime.close()

    asyncio.run(main())


async def _until(subscriptions: Subscriptions, log: int) -> None:
    await subscriptions.wait("g", {log: None}, 60)


def test_what_was_to_be_buried_is_when_somebody_gives_up_half_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        runtime = local_runtime(asyncio.get_running_loop())
        try:
            subscriptions, log = await written(MemoryEngine(runtime), b"a", b"b")
            await subscriptions.take("g", log, WISH)
            begun, write = asyncio.Event(), subscriptions._letters.of_records

            async def slow(*arguments: object) -> object:
                begun.set()
                await asyncio.sleep(60)
                raise AssertionError

            monkeypatch.setattr(subscriptions._letters, "of_records", slow)
            ruling = {log: [Ruling(0, 0, LeaseVerdict.REJECT)]}
            asking = asyncio.create_task(subscriptions.rule("g", "member", ruling))
            await begun.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            monkeypatch.setattr(subscriptions._letters, "of_records", write)
            assert await subscriptions.rule("g", "member", {log: [Ruling(1, 1, LeaseVerdict.ACCEPT)]}) == {}
            assert subscriptions.cursors("g")[log].floor == 2
        finally:
            runtime.close()

    asyncio.run(main())
