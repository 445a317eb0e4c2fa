"""How far a careful reader may read, and what it must leave out."""

from __future__ import annotations

import pytest

from mainstem.model.errors import OutOfOrderSequence, StaleEpoch
from mainstem.storage.contract import Aborted, Append, Commit, DeleteLog, Edge, Mutation
from tests.support.storage.batches import batch, delivered, marker, produced, sized

MIB = 1 << 20


def within(producer, sequence, count=1, **options):
    """A transactional batch."""
    return produced(producer, sequence, count, transactional=True, **options)


async def seen(engine, log=1):
    """(stable, end, aborted ranges) of a whole log, read from its start."""
    result = await engine.read(log, (await engine.facts(log)).start, MIB)
    return result.stable, result.end, list(result.aborted)


async def test_without_transactions_the_stable_offset_is_the_end(engine):
    await engine.create(1)
    assert await seen(engine) == (0, 0, [])
    await engine.append(1, batch(b"a", b"b"), produced(7, 0))
    assert await seen(engine) == (3, 3, [])


async def test_the_first_transactional_batch_holds_the_stable_offset(engine):
    await engine.create(1)
    await engine.append(1, batch(b"a"), within(7, 0, 2), within(7, 2), batch(b"b"))
    async for stage in engine.stages():
        assert await seen(engine) == (1, 5, []), stage
        assert (await engine.offset_at(1, Edge.STABLE)).offset == 1, stage
        assert (await engine.offset_at(1, Edge.END)).offset == 5, stage


async def test_a_commit_marker_makes_all_of_it_stable(engine):
    await engine.create(1)
    await engine.append(1, within(7, 0, 2), within(7, 2), marker(7, commit=True))
    async for stage in engine.stages():
        assert await seen(engine) == (4, 4, []), stage


async def test_an_abort_marker_names_the_range(engine):
    await engine.create(1)
    await engine.append(1, batch(b"a"), within(7, 0, 2), batch(b"b"), within(7, 2), marker(7, commit=False))
    async for stage in engine.stages():
        assert await seen(engine) == (6, 6, [Aborted(7, 1, 5)]), stage
        result = await engine.read(1, 0, MIB)
        assert delivered(result) == [b"a", b"b"], stage


async def test_interleaved_producers(engine):
    await engine.create(1)
    await engine.append(1, within(7, 0), within(8, 0), batch(b"plain"), within(9, 0), within(7, 1))
    assert await seen(engine) == (0, 5, [])
    await engine.append(1, marker(7, commit=False))
    assert await seen(engine) == (1, 6, [Aborted(7, 0, 5)])
    await engine.append(1, within(7, 2), marker(9, commit=True))
    assert await seen(engine) == (1, 8, [Aborted(7, 0, 5)])
    await engine.append(1, marker(8, commit=False))
    assert await seen(engine) == (6, 9, [Aborted(7, 0, 5), Aborted(8, 1, 8)])
    await engine.append(1, marker(7, commit=True))
    async for stage in engine.stages():
        assert await seen(engine) == (10, 10, [Aborted(7, 0, 5), Aborted(8, 1, 8)]), stage
        assert delivered(await engine.read(1, 0, MIB)) == [b"plain", b"9/0/0", b"7/0/2"], stage


async def test_a_producer_may_begin_again_in_the_same_commit_as_the_marker(engine):
    await engine.create(1)
    await engine.append(1, within(7, 0))
    await engine.commit_one(Commit(appends=[Append(1, marker(7, commit=False)), Append(1, within(7, 1))]))
    assert await seen(engine) == (2, 3, [Aborted(7, 0, 1)])
    await engine.append(1, marker(7, commit=True))
    async for stage in engine.stages():
        assert await seen(engine) == (4, 4, [Aborted(7, 0, 1)]), stage


async def test_begin_and_end_in_one_commit(engine):
    await engine.create(1)
    await engine.commit_one(
        Commit(appends=[Append(1, within(7, 0)), Append(1, within(7, 1)), Append(1, marker(7, commit=False))])
    )
    assert await seen(engine) == (3, 3, [Aborted(7, 0, 2)])


async def test_one_commit_ends_it_on_several_logs_with_state(engine):
    await engine.create(1, 2, 3)
    for log in (1, 2, 3):
        await engine.append(log, within(7, 0))
    await engine.commit_one(
        Commit(
            appends=[Append(1, marker(7, commit=True)), Append(2, marker(7, commit=True))],
            state=[Mutation("offsets", b"group", b"5")],
        )
    )
    async for stage in engine.stages():
        assert await seen(engine, 1) == (2, 2, []), stage
        assert await seen(engine, 2) == (2, 2, []), stage
        assert await seen(engine, 3) == (0, 1, []), stage
        assert await engine.state("offsets") == {b"group": b"5"}, stage


async def test_a_marker_without_a_transaction_aborts_nothing(engine):
    await engine.create(1)
    await engine.append(1, produced(7, 0), marker(7, commit=False), marker(8, commit=False))
    async for stage in engine.stages():
        assert await seen(engine) == (3, 3, []), stage


async def test_a_refused_batch_opens_nothing(engine):
    await engine.create(1)
    await engine.append(1, within(7, 0), marker(7, commit=True))
    assert isinstance(await engine.refused(Commit(appends=[Append(1, within(7, 5))])), OutOfOrderSequence)
    assert await seen(engine) == (2, 2, [])


async def test_a_repeated_batch_does_not_open_it_again(engine):
    await engine.create(1)
    await engine.append(1, within(7, 0), marker(7, commit=True))
    result = await engine.commit_one(Commit(appends=[Append(1, within(7, 0))]))
    assert list(result.repeated) == [0]
    assert await seen(engine) == (2, 2, [])


async def test_sequences_go_on_behind_a_marker(engine):
    await engine.create(1)
    await engine.append(1, within(7, 0, 2), marker(7, commit=True), within(7, 2))
    assert isinstance(await engine.refused(Commit(appends=[Append(1, within(7, 4))])), OutOfOrderSequence)


async def test_sequences_go_on_behind_a_marker_that_was_written_much_later(engine):
    await engine.create(1)
    await engine.append(1, within(7, 0, 2))
    await engine.seal()
    await engine.append(1, marker(7, commit=True))
    async for stage in engine.stages():
        assert isinstance(await engine.refused(Commit(appends=[Append(1, within(7, 4))])), OutOfOrderSequence), stage
        result = await engine.commit_one(Commit(appends=[Append(1, within(7, 0, 2))]))
        assert list(result.repeated) == [0], stage
    assert await engine.append(1, within(7, 2)) == [3]


# --- epochs ---------------------------------------------------------------------------------------------------------


async def test_a_marker_of_a_newer_epoch_ends_it_and_fences_the_older(engine):
    await engine.create(1)
    await engine.append(1, within(7, 0), marker(7, commit=False, epoch=1))
    async for stage in engine.stages():
        assert await seen(engine) == (2, 2, [Aborted(7, 0, 1)]), stage
        assert isinstance(await engine.refused(Commit(appends=[Append(1, within(7, 1))])), StaleEpoch), stage
        assert isinstance(
            await engine.refused(Commit(appends=[Append(1, within(7, 1, epoch=1))])), OutOfOrderSequence
        ), stage
    assert await engine.append(1, within(7, 0, epoch=1)) == [2]


async def test_a_marker_of_an_older_epoch_is_refused(engine):
    await engine.create(1)
    await engine.append(1, within(7, 0, epoch=3))
    error = await engine.refused(Commit(appends=[Append(1, marker(7, commit=True, epoch=2))]))
    assert isinstance(error, StaleEpoch)
    assert await seen(engine) == (0, 1, [])


async def test_a_marker_fences_what_follows_it_in_its_own_commit(engine):
    await engine.create(1)
    await engine.append(1, within(7, 0))
    appends = [Append(1, marker(7, commit=False, epoch=1)), Append(1, within(7, 1))]
    assert isinstance(await engine.refused(Commit(appends=appends)), StaleEpoch)
    assert await seen(engine) == (0, 1, [])
    appends = [Append(1, marker(7, commit=False, epoch=1)), Append(1, within(7, 0, epoch=1))]
    assert list((await engine.commit_one(Commit(appends=appends))).bases) == [1, 2]


async def test_a_stale_marker_ends_nothing_on_the_other_logs_of_its_commit(engine):
    await engine.create(1, 2)
    await engine.append(1, within(7, 0))
    await engine.append(2, within(7, 0, epoch=1))
    commit = Commit(appends=[Append(1, marker(7, commit=True)), Append(2, marker(7, commit=True))])
    assert isinstance(await engine.refused(commit), StaleEpoch)
    assert await seen(engine, 1) == (0, 1, [])


async def test_a_marker_of_an_unknown_producer_fences_it_too(engine):
    await engine.create(1)
    await engine.append(1, marker(7, commit=False, epoch=5))
    async for stage in engine.stages():
        assert isinstance(await engine.refused(Commit(appends=[Append(1, within(7, 0, epoch=4))])), StaleEpoch), stage
    assert await engine.append(1, within(7, 0, epoch=5)) == [1]


# --- what a read answers --------------------------------------------------------------------------------------------


async def test_ranges_come_with_the_batches_that_they_touch(engine):
    await engine.create(1)
    for producer in range(10):
        await engine.append(1, within(producer, 0, 3), marker(producer, commit=False), batch(b"between"))
    ranges = [Aborted(n, 5 * n, 5 * n + 3) for n in range(10)]
    async for stage in engine.stages():
        for offset in range(0, 50):
            result = await engine.read(1, offset, 1)
            touched = [a for a in ranges if a.last >= offset and a.first < result.next_offset]
            assert list(result.aborted) == touched, (stage, offset)


async def test_a_long_transaction_is_aborted_wherever_it_is_read(engine):
    await engine.create(1)
    await engine.append(1, *[within(7, n) for n in range(50)], marker(7, commit=False))
    async for stage in engine.stages():
        for offset in (0, 1, 25, 49, 50):
            result = await engine.read(1, offset, 200)
            assert list(result.aborted) == [Aborted(7, 0, 50)], (stage, offset)
            assert delivered(result) == [], (stage, offset)


async def test_the_stable_offset_does_not_hide_batches(engine):
    """Readers who want everything get everything."""
    await engine.create(1)
    await engine.append(1, within(7, 0), batch(b"a"))
    result = await engine.read(1, 1, MIB)
    assert result.stable == 0
    assert len(result.batches) > 0


async def test_what_is_aborted_below_the_start_is_gone(engine):
    await engine.create(1)
    await engine.append(1, within(7, 0), marker(7, commit=False), within(7, 1), marker(7, commit=False), batch(b"x"))
    await engine.trim(1, 2)
    async for stage in engine.stages():
        assert await seen(engine) == (5, 5, [Aborted(7, 2, 3)]), stage
    await engine.trim(1, 3)
    async for stage in engine.stages():
        assert (await engine.read(1, 3, MIB)).aborted == [Aborted(7, 2, 3)], stage


# --- restarts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("commit", [False, True])
async def test_an_open_transaction_survives_a_restart_and_is_ended_after_it(engine, settled, commit):
    await engine.create(1)
    await engine.append(1, batch(b"a"), within(7, 0), within(8, 0))
    await engine.reopen()
    if settled:
        await engine.settle()
        await engine.reopen()
    assert await seen(engine) == (1, 3, [])
    await engine.append(1, within(7, 1), marker(7, commit=commit))
    aborted = [] if commit else [Aborted(7, 1, 4)]
    assert await seen(engine) == (2, 5, aborted)
    await engine.append(1, marker(8, commit=True))
    async for stage in engine.stages():
        assert await seen(engine) == (6, 6, aborted), stage


async def test_a_transaction_over_many_files(engine):
    await engine.create(1)
    for n in range(30):
        await engine.append(1, within(7, n), sized(20_000))
    async for stage in engine.stages():
        facts = await engine.facts(1)
        assert (facts.stable, facts.end) == (0, 60), stage
    await engine.append(1, marker(7, commit=False))
    async for stage in engine.stages():
        result = await engine.read(1, 30, 1)
        assert (result.stable, list(result.aborted)) == (61, [Aborted(7, 0, 60)]), stage


async def test_a_deleted_log_takes_its_transactions_along(engine):
    await engine.create(1, 2)
    await engine.append(1, within(7, 0), within(8, 0), marker(8, commit=False))
    await engine.append(2, batch(b"x"))
    await engine.alter([DeleteLog(1)])
    async for stage in engine.stages():
        assert await seen(engine, 2) == (1, 1, []), stage
