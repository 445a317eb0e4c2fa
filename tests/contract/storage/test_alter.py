"""Logs come and go, with the state that names them, and an id is never used twice."""

from __future__ import annotations

import pytest

from mainstem.model.errors import LogExists, MainstemError, UnknownLog
from mainstem.model.identity import LOG_ID_MAX
from mainstem.storage.contract import (
    Append,
    Commit,
    Committed,
    ConfigureLog,
    CreateLog,
    DeleteLog,
    Edge,
    LogConfig,
    MoveFloor,
    Mutation,
    Refer,
    TimeAfter,
    TrimLog,
)
from tests.support.storage.batches import batch, sized


async def assert_gone(engine, log):
    with pytest.raises(UnknownLog):
        await engine.read(log, 0, 100)
    with pytest.raises(UnknownLog):
        await engine.offset_at(log, Edge.END)
    with pytest.raises(UnknownLog):
        await engine.offset_at(log, TimeAfter(0))
    with pytest.raises(UnknownLog):
        await engine.trim(log, 0)
    with pytest.raises(UnknownLog):
        engine.end(log)
    for change in (ConfigureLog(log, LogConfig()), DeleteLog(log), MoveFloor(log, 0), TrimLog(log, 0)):
        with pytest.raises(UnknownLog):
            await engine.alter([change])
    assert isinstance(await engine.refused(Commit(appends=[Append(log, batch(b"x"))])), UnknownLog)


async def test_nothing_to_alter(engine):
    assert await engine.alter([]) is None


async def test_a_new_log_is_empty_and_takes_batches(engine):
    await engine.alter([CreateLog(7)])
    assert await engine.values(7) == []
    assert await engine.append(7, batch(b"x")) == [0]
    async for stage in engine.stages():
        assert await engine.values(7) == [b"x"], stage


async def test_a_new_log_without_content_survives_a_restart(engine):
    await engine.create(7, batch_bytes_max=500)
    async for stage in engine.stages():
        assert engine.end(7) == 0, stage
    assert not isinstance(await engine.refused(Commit(appends=[Append(7, sized(501))])), UnknownLog)


async def test_ids_at_both_ends(engine):
    await engine.create(0, LOG_ID_MAX)
    await engine.append(0, batch(b"lowest"))
    await engine.append(LOG_ID_MAX, batch(b"highest"))
    async for stage in engine.stages():
        assert await engine.values(0) == [b"lowest"], stage
        assert await engine.values(LOG_ID_MAX) == [b"highest"], stage


async def test_an_id_in_use_is_refused(engine):
    await engine.create(1)
    await engine.append(1, batch(b"x"))
    with pytest.raises(LogExists):
        await engine.alter([CreateLog(1)])
    assert await engine.values(1) == [b"x"]


async def test_an_id_twice_in_one_call_is_refused_whole(engine):
    with pytest.raises(LogExists):
        await engine.alter([CreateLog(1), CreateLog(2), CreateLog(1)])
    await assert_gone(engine, 1)
    await assert_gone(engine, 2)
    await engine.create(1, 2)


async def test_two_who_create_the_same(engine):
    answers = [engine.commit([Commit(changes=[CreateLog(1)])]) for _ in range(2)]
    results = [(await answer)[0] for answer in answers]
    assert isinstance(results[0], Committed)
    assert isinstance(results[1], LogExists)


async def test_a_deleted_log_is_gone(engine):
    await engine.create(1, 2)
    await engine.append(1, batch(b"x"))
    await engine.append(2, batch(b"y"))
    await engine.alter([DeleteLog(1)])
    async for stage in engine.stages():
        await assert_gone(engine, 1)
        assert await engine.values(2) == [b"y"], stage


async def test_the_id_of_a_deleted_log_is_never_used_again(engine):
    await engine.create(1, 2, 3)
    await engine.append(1, batch(b"x"))
    await engine.alter([DeleteLog(1), DeleteLog(3)])
    async for stage in engine.stages():
        for log in (1, 3):
            result = await engine.refused(Commit(changes=[CreateLog(log)]))
            assert isinstance(result, LogExists), (stage, log)
    await engine.create(4)


async def test_no_id_of_many_deleted_logs_is_used_again(engine):
    logs = range(1, 101)
    await engine.create(*logs)
    gone = [log for log in logs if log % 3]
    for part in (gone[::2], gone[1::2]):
        await engine.alter([DeleteLog(log) for log in part])
        await engine.settle()
    async for stage in engine.stages():
        for log in logs:
            assert isinstance(await engine.refused(Commit(changes=[CreateLog(log)])), LogExists), (stage, log)
    await engine.create(101, 0)


async def test_an_id_created_and_deleted_in_one_commit_is_used_up(engine):
    await engine.alter([CreateLog(1), DeleteLog(1)])
    await assert_gone(engine, 1)
    with pytest.raises(LogExists):
        await engine.alter([CreateLog(1)])


async def test_ids_need_not_grow(engine):
    await engine.create(100)
    await engine.create(50)
    await engine.append(50, batch(b"x"))
    async for stage in engine.stages():
        assert await engine.values(50) == [b"x"], stage
    await engine.create(60)


@pytest.mark.parametrize(
    "change",
    [ConfigureLog(9, LogConfig()), DeleteLog(9), MoveFloor(9, 0), TrimLog(9, 0)],
    ids=lambda c: type(c).__name__,
)
async def test_an_unknown_log_is_refused(engine, change):
    with pytest.raises(UnknownLog):
        await engine.alter([change])


async def test_a_log_deleted_twice_in_one_call_is_refused_whole(engine):
    await engine.create(1)
    with pytest.raises(UnknownLog):
        await engine.alter([DeleteLog(1), DeleteLog(1)])
    assert engine.end(1) == 0


async def test_changes_happen_in_order(engine):
    await engine.alter([CreateLog(1), ConfigureLog(1, LogConfig(batch_bytes_max=1_000))])
    await engine.append(1, sized(1_000))
    assert isinstance(await engine.refused(Commit(appends=[Append(1, sized(1_001))])), MainstemError)
    with pytest.raises(UnknownLog):
        await engine.alter([ConfigureLog(2, LogConfig()), CreateLog(2)])


async def test_a_configuration_survives(engine):
    await engine.create(1)
    await engine.alter([ConfigureLog(1, LogConfig(batch_bytes_max=1_000))])
    async for stage in engine.stages():
        assert isinstance(await engine.refused(Commit(appends=[Append(1, sized(1_001))])), MainstemError), stage
        await engine.append(1, sized(1_000))


async def test_state_changes_with_the_logs(engine):
    await engine.alter([CreateLog(1)], [Mutation("topics", b"orders", b"1")])
    async for stage in engine.stages():
        assert await engine.state("topics") == {b"orders": b"1"}, stage
        assert engine.end(1) == 0, stage
    with pytest.raises(LogExists):
        await engine.alter([CreateLog(2), CreateLog(1)], [Mutation("topics", b"orders", b"2")])
    await engine.alter([DeleteLog(1)], [Mutation("topics", b"orders", None)])
    async for stage in engine.stages():
        assert await engine.state("topics") == {}, stage
        with pytest.raises(UnknownLog):
            engine.end(1)
        with pytest.raises(UnknownLog):
            engine.end(2)


async def test_a_commit_changes_logs_too(engine):
    await engine.create(1)
    await engine.append(1, batch(b"a", b"b", b"c"))
    await engine.commit_one(
        Commit(
            appends=[Append(1, batch(b"d"))],
            changes=[CreateLog(2), TrimLog(1, 2), ConfigureLog(1, LogConfig(batch_bytes_max=200))],
            state=[Mutation("s", b"k", b"v")],
        )
    )
    async for stage in engine.stages():
        assert (await engine.facts(1)).start == 2, stage
        assert engine.end(2) == 0
        assert isinstance(await engine.refused(Commit(appends=[Append(1, sized(201))])), MainstemError), stage


async def test_deleting_a_log_while_it_is_written(engine):
    await engine.create(1)
    writes = [engine.commit([Commit(appends=[Append(1, batch(b"x"))])]) for _ in range(5)]
    deletion = engine.commit([Commit(changes=[DeleteLog(1)])])
    late = engine.commit([Commit(appends=[Append(1, batch(b"x"))])])
    assert [list((await answer)[0].bases) for answer in writes] == [[n] for n in range(5)]
    assert isinstance((await deletion)[0], Committed)
    assert isinstance((await late)[0], UnknownLog)
    async for _ in engine.stages():
        await assert_gone(engine, 1)


async def test_a_deleted_log_gives_its_space_back(engine):
    """Nothing of it is left where it could come back, and its neighbours are whole."""
    await engine.create(1, 2)
    for n in range(20):
        await engine.append(1, sized(10_000, fill=b"1"))
        await engine.append(2, sized(1_000, fill=b"2"))
        if n == 10:
            await engine.settle()
    await engine.alter([DeleteLog(1)])
    async for stage in engine.stages():
        await assert_gone(engine, 1)
        assert [len(part) for part in await engine.read_all(2)] == [1_000] * 20, stage


async def test_a_reader_of_a_log_that_is_deleted(engine):
    await engine.create(1)
    await engine.append(1, *[sized(20_000) for _ in range(10)])
    await engine.settle()
    answers = [engine.read(1, n, 100) for n in range(10)]
    await engine.alter([DeleteLog(1)])
    await engine.settle()
    for n, answer in enumerate(answers):
        try:
            result = await answer
        except UnknownLog:
            continue
        assert result.next_offset == n + 1


@pytest.mark.slow
async def test_a_thousand_logs(engine):
    logs = range(1, 1_001)
    await engine.create(*logs)
    for round_ in range(3):
        results = await engine.commit(
            [Commit(appends=[Append(log, batch(b"%d/%d" % (log, round_) * 5))]) for log in logs]
        )
        assert all(list(result.bases) == [round_] for result in results)
        await engine.settle()
    await engine.alter([DeleteLog(log) for log in range(2, 1_001, 2)])
    async for stage in engine.stages():
        for log in (1, 3, 499, 501, 999):
            assert await engine.values(log) == [b"%d/%d" % (log, n) * 5 for n in range(3)], stage
        for log in (2, 500, 1_000):
            with pytest.raises(UnknownLog):
                await engine.read(log, 0, 0)


async def test_a_log_referred_to_and_created_in_one_commit(engine):
    result = await engine.commit_one(
        Commit(appends=[Append(1, batch(b"x"))], refers=[Refer(2, 0)], changes=[CreateLog(1), CreateLog(2)])
    )
    assert list(result.bases) == [0, 0]
    async for stage in engine.stages():
        assert await engine.values(1) == await engine.values(2) == [b"x"], stage
