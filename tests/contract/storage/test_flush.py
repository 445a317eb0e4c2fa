"""Flush policies: every log may have its own, and none of them changes what is seen."""

from __future__ import annotations

import pytest

from mainstem.model.errors import EngineClosed
from mainstem.storage.contract import Append, Budget, Commit, ConfigureLog, CreateLog, LogConfig, Mutation
from tests.support.storage.batches import batch, produced, sized

POLICIES = {
    "sync": LogConfig(flush="sync"),
    "interval": LogConfig(flush="interval"),
    "interval by time": LogConfig(flush="interval", flush_interval_ms=1),
    "interval by size": LogConfig(flush="interval", flush_interval_ms=3_600_000, flush_interval_bytes=100),
    "os": LogConfig(flush="os"),
    "default": LogConfig(),
}


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_log_of_any_policy_keeps_what_was_answered(engine, policy):
    await engine.alter([CreateLog(1, POLICIES[policy])])
    for n in range(20):
        assert await engine.append(1, produced(7, n)) == [n]
        assert engine.end(1) == n + 1
    async for stage in engine.stages():
        assert await engine.values(1) == [b"7/0/%d" % n for n in range(20)], stage


async def test_policies_beside_each_other_and_in_one_commit(engine):
    logs = dict(enumerate(POLICIES.values(), start=1))
    await engine.alter([CreateLog(log, config) for log, config in logs.items()])
    for n in range(5):
        await engine.commit_one(
            Commit(appends=[Append(log, batch(b"%d" % n)) for log in logs], state=[Mutation("s", b"n", b"%d" % n)])
        )
        answers = [engine.commit([Commit(appends=[Append(log, batch(b"-"))])]) for log in logs]
        for answer in answers:
            await answer
    async for stage in engine.stages():
        for log in logs:
            expected = [value for n in range(5) for value in (b"%d" % n, b"-")]
            assert await engine.values(log) == expected, (stage, log)
        assert await engine.state("s") == {b"n": b"4"}, stage


async def test_a_policy_can_be_changed(engine):
    await engine.create(1, flush="os")
    await engine.append(1, batch(b"a"))
    for policy in POLICIES.values():
        await engine.alter([ConfigureLog(1, policy)])
        await engine.append(1, batch(b"b"))
    async for stage in engine.stages():
        assert await engine.values(1) == [b"a", *[b"b"] * len(POLICIES)], stage


async def test_an_answer_needs_no_further_commit(engine):
    """Nobody else has to write for a lazy log to be answered."""
    await engine.create(1, flush="interval", flush_interval_ms=3_600_000)
    await engine.create(2, flush="os")
    await engine.append(1, batch(b"x"))
    await engine.append(2, batch(b"y"))
    assert await engine.values(1) == [b"x"]
    assert await engine.values(2) == [b"y"]


async def test_what_was_called_before_closing_is_answered_and_kept(engine):
    await engine.create(1, flush="os")
    await engine.create(2)
    answers = [engine.commit([Commit(appends=[Append(1 + n % 2, sized(5_000))])]) for n in range(20)]
    raw = engine.engine
    await raw.close()
    assert [list((await answer)[0].bases) for answer in answers] == [[n // 2] for n in range(20)]
    with pytest.raises(EngineClosed):
        await raw.commit([Commit()])
    with pytest.raises(EngineClosed):
        await raw.maintain(Budget())
    engine.engine = None
    await engine.reopen()
    assert engine.end(1) == engine.end(2) == 10
