"""Roles: one holder at a time, each taking with a higher epoch, and old epochs fenced."""

from __future__ import annotations

import pytest

from mainstem.model.errors import FencedError
from mainstem.storage.contract import Append, Commit, Committed, CreateLog, Fence, Lease, Mutation
from tests.support.storage.batches import batch

TTL = 10_000


async def test_taking_a_free_role(engine):
    lease = await engine.lease("role", TTL)
    assert isinstance(lease, Lease)
    assert lease.role == "role"
    assert lease.epoch >= 1
    assert lease.expires_ms == engine.clock.now_ms() + TTL


async def test_a_held_role_is_not_given_again(engine):
    await engine.lease("role", TTL)
    assert await engine.lease("role", TTL) is None
    engine.clock.advance(TTL - 1)
    assert await engine.lease("role", TTL) is None


async def test_roles_are_apart(engine):
    first, second = await engine.lease("one", TTL), await engine.lease("two", TTL)
    assert first is not None
    assert second is not None


async def test_two_who_ask_at_once(engine):
    answers = [engine.lease("role", TTL) for _ in range(5)]
    leases = [await answer for answer in answers]
    assert [lease is None for lease in leases] == [False, True, True, True, True]


async def test_an_expired_role_is_given_with_a_higher_epoch(engine):
    first = await engine.lease("role", TTL)
    engine.clock.advance(TTL + 1)
    second = await engine.lease("role", TTL)
    assert second.epoch > first.epoch
    assert second.expires_ms == engine.clock.now_ms() + TTL


async def test_renewing_prolongs_with_the_same_epoch(engine):
    lease = await engine.lease("role", TTL)
    for _ in range(3):
        engine.clock.advance(TTL - 1)
        renewed = await engine.lease("role", TTL, lease)
        assert renewed.epoch == lease.epoch
        assert renewed.expires_ms == engine.clock.now_ms() + TTL
        lease = renewed
    assert await engine.lease("role", TTL) is None


async def test_a_role_that_somebody_else_took_is_not_renewed(engine):
    first = await engine.lease("role", TTL)
    engine.clock.advance(TTL + 1)
    second = await engine.lease("role", TTL)
    assert await engine.lease("role", TTL, first) is None
    assert (await engine.lease("role", TTL, second)).epoch == second.epoch
    engine.clock.advance(TTL + 1)
    assert await engine.lease("role", TTL, first) is None


# --- fences ---------------------------------------------------------------------------------------------------------


async def test_the_current_epoch_passes(engine):
    await engine.create(1)
    lease = await engine.lease("role", TTL)
    await engine.commit_one(Commit(appends=[Append(1, batch(b"x"))], fences=[Fence("role", lease.epoch)]))
    await engine.alter([CreateLog(2)], fences=[Fence("role", lease.epoch)])
    assert await engine.values(1) == [b"x"]
    assert engine.end(2) == 0


async def test_a_stale_epoch_is_refused_and_nothing_else_suffers(engine):
    await engine.create(1)
    first = await engine.lease("role", TTL)
    engine.clock.advance(TTL + 1)
    second = await engine.lease("role", TTL)
    results = await engine.commit(
        [
            Commit(appends=[Append(1, batch(b"a"))]),
            Commit(
                appends=[Append(1, batch(b"never"))],
                state=[Mutation("s", b"k", b"v")],
                fences=[Fence("role", first.epoch)],
            ),
            Commit(appends=[Append(1, batch(b"b"))], fences=[Fence("role", second.epoch)]),
        ]
    )
    assert [isinstance(result, Committed) for result in results] == [True, False, True]
    assert isinstance(results[1], FencedError)
    assert (results[1].role, results[1].epoch, results[1].current) == ("role", first.epoch, second.epoch)
    assert await engine.values(1) == [b"a", b"b"]
    assert await engine.state("s") == {}


async def test_alter_raises_the_refusal(engine):
    lease = await engine.lease("role", TTL)
    with pytest.raises(FencedError):
        await engine.alter([CreateLog(1)], [Mutation("s", b"k", b"v")], [Fence("role", lease.epoch + 1)])
    assert await engine.state("s") == {}
    await engine.create(1)


async def test_an_epoch_that_was_never_given_is_refused(engine):
    assert isinstance(await engine.refused(Commit(fences=[Fence("nobody", 1)])), FencedError)
    lease = await engine.lease("role", TTL)
    assert isinstance(await engine.refused(Commit(fences=[Fence("role", lease.epoch + 1)])), FencedError)
    assert isinstance(await engine.refused(Commit(fences=[Fence("role", 0)])), FencedError)
    assert isinstance(await engine.refused(Commit(fences=[Fence("other", lease.epoch)])), FencedError)


async def test_every_fence_must_hold(engine):
    one, two = await engine.lease("one", TTL), await engine.lease("two", TTL)
    good = [Fence("one", one.epoch), Fence("two", two.epoch)]
    await engine.commit_one(Commit(fences=good, state=[Mutation("s", b"k", b"1")]))
    for fences in ([good[0], Fence("two", 99)], [Fence("one", 99), good[1]]):
        error = await engine.refused(Commit(fences=fences, state=[Mutation("s", b"k", b"2")]))
        assert isinstance(error, FencedError)
    assert await engine.state("s") == {b"k": b"1"}


async def test_the_epoch_fences_and_not_the_clock(engine):
    lease = await engine.lease("role", TTL)
    engine.clock.advance(10 * TTL)
    await engine.commit_one(Commit(fences=[Fence("role", lease.epoch)]))


async def test_taking_a_role_fences_at_once(engine):
    """What is called after the taking is judged by it, answered or not."""
    first = await engine.lease("role", TTL)
    engine.clock.advance(TTL + 1)
    before = engine.commit([Commit(fences=[Fence("role", first.epoch)], state=[Mutation("s", b"k", b"before")])])
    taking = engine.lease("role", TTL)
    after = engine.commit([Commit(fences=[Fence("role", first.epoch)], state=[Mutation("s", b"k", b"after")])])
    assert isinstance((await before)[0], Committed)
    assert isinstance((await after)[0], FencedError)
    assert (await taking).epoch > first.epoch
    assert await engine.state("s") == {b"k": b"before"}


# --- restarts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settled", [False, True])
async def test_epochs_survive_a_restart(engine, settled):
    epochs = []
    for _ in range(3):
        lease = await engine.lease("role", TTL)
        epochs.append(lease.epoch)
        engine.clock.advance(TTL + 1)
        if settled:
            await engine.settle()
        await engine.reopen()
    assert epochs == sorted(set(epochs))
    current = epochs[-1]
    assert isinstance(await engine.refused(Commit(fences=[Fence("role", epochs[0])])), FencedError)
    await engine.commit_one(Commit(fences=[Fence("role", current)]))
    assert (await engine.lease("role", TTL)).epoch > current
    assert isinstance(await engine.refused(Commit(fences=[Fence("role", current)])), FencedError)
