"""Restart after restart: everything at once, so that what one part of recovery restores does not undo another's."""

from __future__ import annotations

import pytest

from mainstem.model.errors import FencedError, LogExists, OutOfOrderSequence, UnknownLog
from mainstem.storage.contract import (
    Aborted,
    Append,
    Budget,
    Commit,
    CreateLog,
    DeleteLog,
    Fence,
    Mutation,
    Refer,
)
from tests.support.storage.batches import batch, marker, produced, sized

ROUNDS = 12
MIB = 1 << 20


@pytest.mark.parametrize("settled", [False, True], ids=["as-written", "settled"])
async def test_many_restarts(engine, settled):
    await engine.create(1, 2, 3)
    start = 0
    aborted = []
    for n in range(ROUNDS):
        # a log that loses its beginning, with a producer
        assert await engine.append(1, produced(7, 2 * n, 2), batch(b"plain")) == [3 * n, 3 * n + 2]
        if n % 3 == 1:
            start = await engine.trim(1, 3 * n)
            assert start == 3 * n
        # a log with a transaction that is open across the restart
        assert await engine.append(2, produced(8, n, transactional=True)) == [2 * n]
        # a log of references
        await engine.commit_one(
            Commit(appends=[Append(1000 + n, sized(3_000))], refers=[Refer(3, 0)], changes=[CreateLog(1000 + n)])
        )
        # a log that goes, state that changes, a role that changes hands
        await engine.alter([DeleteLog(1000 + n - 1)] if n else [])
        await engine.commit_one(
            Commit(
                state=[
                    Mutation("s", b"%d" % n, b"here"),
                    Mutation("s", b"%d" % (n - 2), None),
                    Mutation("s", b"n", b"%d" % n),
                ]
            )
        )
        lease = await engine.lease("role", 1_000)
        assert lease.epoch == n + 1
        engine.clock.advance(2_000)
        if settled:
            await engine.settle()
        await engine.reopen()

        facts = await engine.facts(1)
        assert (facts.start, facts.end) == (start, 3 * n + 3)
        repeated = await engine.commit_one(Commit(appends=[Append(1, produced(7, 2 * n, 2))]))
        assert (list(repeated.bases), list(repeated.repeated)) == ([3 * n], [0])
        assert isinstance(await engine.refused(Commit(appends=[Append(1, produced(7, 2 * n + 3))])), OutOfOrderSequence)
        read = await engine.read(2, 0, MIB)
        assert (read.stable, read.end, list(read.aborted)) == (2 * n, 2 * n + 1, aborted)
        await engine.append(2, marker(8, commit=n % 2 == 0))
        if n % 2:
            aborted.append(Aborted(8, 2 * n, 2 * n + 1))
        assert [len(part) for part in await engine.read_all(3)] == [3_000] * (n + 1)
        assert await engine.state("s") == {
            key: value
            for key, value in {b"%d" % (n - 1): b"here", b"%d" % n: b"here", b"n": b"%d" % n}.items()
            if key != b"-1"
        }
        assert isinstance(await engine.refused(Commit(fences=[Fence("role", n)])), FencedError)
        await engine.commit_one(Commit(fences=[Fence("role", n + 1)]))
        for log in range(1000, 1000 + n):
            with pytest.raises(UnknownLog):
                await engine.read(log, 0, 0)
            assert isinstance(await engine.refused(Commit(changes=[CreateLog(log)])), LogExists)


async def test_restarts_without_anything_in_between(engine):
    await engine.create(1)
    await engine.append(1, batch(b"a"), produced(7, 0))
    await engine.put("s", k=b"v")
    for _ in range(10):
        await engine.reopen()
    assert await engine.values(1) == [b"a", b"7/0/0"]
    assert await engine.state("s") == {b"k": b"v"}
    assert await engine.append(1, batch(b"b")) == [2]


async def test_a_restart_before_anything_was_written(engine):
    await engine.reopen()
    await engine.create(1)
    await engine.reopen()
    assert await engine.append(1, batch(b"a")) == [0]


async def test_maintenance_in_the_smallest_steps(engine):
    """However little one call may do, all calls together do everything, and what is read in between is the same."""
    await engine.create(1, 2)
    for n in range(30):
        await engine.append(1, sized(5_000, fill=b"%d" % (n % 10)))
        await engine.append(2, produced(7, n))
    if engine.case.durable:
        await engine.reopen()
    expected = [await engine.read_all(log) for log in (1, 2)]
    await engine.trim(1, 10)
    expected[0] = expected[0][10:]
    for _ in range(30):
        await engine.maintain(Budget(jobs_max=1))
        assert [await engine.read_all(log) for log in (1, 2)] == expected
    async for stage in engine.stages():
        assert [await engine.read_all(log) for log in (1, 2)] == expected, stage
