"""Commits: whole or not at all, in the order of the calls, each member of a list for itself."""

from __future__ import annotations

import asyncio

import pytest

from mainstem.model.errors import (
    BatchTooLarge,
    CommitTooLarge,
    CorruptBatch,
    FencedError,
    InvalidBatch,
    MainstemError,
    OutOfOrderSequence,
    PeerError,
    UnknownLog,
)
from mainstem.storage.contract import (
    Append,
    Commit,
    Committed,
    ConfigureLog,
    CreateLog,
    DeleteLog,
    Fence,
    LogConfig,
    MoveFloor,
    Mutation,
    Refer,
    TrimLog,
)
from mainstem.wire.record_batch import LEADER_EPOCH_AT, read_header
from tests.contract.storage.engine_cases import COMMIT_BYTES_MAX
from tests.support.storage.batches import (
    as_sent,
    bases_of,
    batch,
    marker,
    produced,
    sized,
    values_of,
)

KIB = 1 << 10


def committed(result):
    assert isinstance(result, Committed), repr(result)
    return list(result.bases)


# --- what a commit answers ------------------------------------------------------------------------------------------


async def test_an_empty_list_is_answered_with_an_empty_list(engine):
    assert await engine.commit([]) == []


async def test_an_empty_commit_happens(engine):
    (result,) = await engine.commit([Commit()])
    assert isinstance(result, Committed)
    assert list(result.bases) == []
    assert list(result.repeated) == []


async def test_an_append_answers_its_first_offset(engine):
    await engine.create(1)
    result = await engine.commit_one(Commit(appends=[Append(1, batch(b"a", b"b"))]))
    assert list(result.bases) == [0]
    assert list(result.repeated) == []
    assert list((await engine.commit_one(Commit(appends=[Append(1, batch(b"c"))]))).bases) == [2]


async def test_offsets_count_records_without_gaps(engine):
    await engine.create(1)
    counts = [1, 3, 1, 7, 2, 100]
    bases = []
    for count in counts:
        bases += await engine.append(1, batch(*[b"x"] * count))
    assert bases == [sum(counts[:n]) for n in range(len(counts))]
    assert engine.end(1) == sum(counts)


async def test_logs_count_by_themselves(engine):
    await engine.create(1, 2)
    result = await engine.commit_one(
        Commit(appends=[Append(1, batch(b"a", b"b")), Append(2, batch(b"c")), Append(1, batch(b"d"))])
    )
    assert list(result.bases) == [0, 0, 2]
    async for stage in engine.stages():
        assert await engine.values(1) == [b"a", b"b", b"d"], stage
        assert await engine.values(2) == [b"c"], stage


async def test_commits_of_a_list_happen_in_order(engine):
    await engine.create(1)
    results = await engine.commit([Commit(appends=[Append(1, batch(b"%d" % n))]) for n in range(10)])
    assert [committed(result) for result in results] == [[n] for n in range(10)]
    assert await engine.values(1) == [b"%d" % n for n in range(10)]


async def test_calls_happen_in_order_without_waiting_for_answers(engine):
    await engine.create(1, 2)
    answers = []
    for n in range(100):
        answers.append(engine.commit([Commit(appends=[Append(1 + n % 2, batch(b"%d" % n))])]))
    results = [(await answer)[0] for answer in answers]
    assert [committed(result) for result in results] == [[n // 2] for n in range(100)]
    async for stage in engine.stages():
        assert await engine.values(1) == [b"%d" % n for n in range(0, 100, 2)], stage
        assert await engine.values(2) == [b"%d" % n for n in range(1, 100, 2)], stage


async def test_answers_come_in_the_order_of_the_calls(engine):
    await engine.create(1)
    order = []
    answers = []
    for n in range(20):
        answer = engine.commit([Commit(appends=[Append(1, batch(b"x" * (1 + n * 500)))])])
        answer.on_done(lambda _, n=n: order.append(n))
        answers.append(answer)
    for answer in answers:
        await answer
    assert order == list(range(20))


async def test_what_was_answered_is_read(engine):
    await engine.create(1)
    for n in range(20):
        await engine.append(1, batch(b"%d" % n))
        result = await engine.read(1, n, KIB)
        assert result.end == n + 1
        assert values_of(result.batches) == [b"%d" % n]


async def test_a_read_shows_only_what_was_answered(engine):
    await engine.create(1)
    answer = engine.commit([Commit(appends=[Append(1, batch(b"a"))])])
    seen = await engine.read(1, 0, KIB)
    if seen.end or seen.batches:
        assert answer.done
    await answer
    assert (await engine.read(1, 0, KIB)).end == 1


async def test_loaded_state_shows_only_what_was_answered(engine):
    answer = engine.commit([Commit(state=[Mutation("s", b"k", b"v")])])
    assert (await engine.load("s")).entries == {b"k": b"v"}
    assert answer.done


async def test_who_stops_waiting_does_not_stop_the_commit(engine):
    await engine.create(1)
    answer = engine.commit([Commit(appends=[Append(1, batch(b"a"))])])

    async def wait():
        await answer

    waiting = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert list((await answer)[0].bases) == [0]
    assert await engine.values(1) == [b"a"]


# --- stored as sent -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bytes, bytearray, lambda sent: memoryview(bytearray(sent))])
async def test_a_batch_is_stored_as_sent_but_for_offset_and_leader_epoch(engine, kind):
    await engine.create(1)
    await engine.append(1, batch(b"first", b"second"))
    sent = bytes(batch(b"a", b"b", time=[5, 3], base_offset=77, leader_epoch=9))
    assert await engine.append(1, kind(sent)) == [2]
    async for stage in engine.stages():
        (_, stored) = await engine.read_all(1)
        assert as_sent(stored) == as_sent(sent), stage
        assert read_header(stored).base_offset == 2
        assert read_header(stored).leader_epoch != 9, "the sender does not choose the leader epoch"
        assert stored[LEADER_EPOCH_AT:] == bytes(4) + sent[LEADER_EPOCH_AT + 4 :]


async def test_a_batch_in_the_middle_of_a_larger_buffer(engine):
    await engine.create(1)
    parts = [bytes(batch(b"%d" % n * 100)) for n in range(3)]
    chunk = memoryview(bytearray(b"???" + b"".join(parts) + b"???"))
    position = 3
    appends = []
    for part in parts:
        appends.append(Append(1, chunk[position : position + len(part)]))
        position += len(part)
    await engine.commit_one(Commit(appends=appends))
    assert [as_sent(stored) for stored in await engine.read_all(1)] == [as_sent(part) for part in parts]
    assert bytes(chunk[:3]) == bytes(chunk[-3:]) == b"???"


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
async def test_compression_is_left_as_it_is(engine, compression):
    await engine.create(1)
    sent = bytes(batch(b"a" * 500, b"b" * 500, compression=compression))
    await engine.append(1, bytearray(sent))
    async for stage in engine.stages():
        (stored,) = await engine.read_all(1)
        assert as_sent(stored) == as_sent(sent), stage
        assert values_of([stored]) == [b"a" * 500, b"b" * 500]


# --- all or nothing -------------------------------------------------------------------------------------------------

REFUSED = {
    "unknown log": lambda: Commit(appends=[Append(99, batch(b"x"))]),
    "bad checksum": lambda: Commit(appends=[Append(2, bytearray(batch(b"x")[:-1] + b"?"))]),
    "no batch": lambda: Commit(appends=[Append(2, b"not a batch")]),
    "too large": lambda: Commit(appends=[Append(3, sized(5 * KIB))]),
    "gap": lambda: Commit(appends=[Append(2, produced(7, 10))]),
    "reserved scope": lambda: Commit(state=[Mutation("engine/logs", b"k", b"v")]),
    "stale fence": lambda: Commit(fences=[Fence("role", 99)]),
    "used id": lambda: Commit(changes=[CreateLog(2)]),
    "unknown log to change": lambda: Commit(changes=[ConfigureLog(99, LogConfig())]),
    "unknown log to delete": lambda: Commit(changes=[DeleteLog(99)]),
    "unknown log to trim": lambda: Commit(changes=[TrimLog(99, 0)]),
    "unknown floor": lambda: Commit(changes=[MoveFloor(99, 0)]),
    "unknown log to refer": lambda: Commit(appends=[Append(2, batch(b"x"))], refers=[Refer(99, 0)]),
    "unknown append to refer": lambda: Commit(refers=[Refer(2, 5)]),
}


async def with_content(engine):
    """Logs 1 to 3 with content, a known producer, state and a role."""
    await engine.create(1, 2)
    await engine.create(3, batch_bytes_max=4 * KIB)
    await engine.append(1, batch(b"one", b"two"))
    await engine.append(2, produced(7, 0), batch(b"here"))
    await engine.put("s", k=b"old")
    await engine.lease("role", 10_000)


async def all_of_it(engine):
    found = {"state": await engine.state("s"), "leases": await engine.state("engine/leases")}
    for log in (1, 2, 3):
        facts = await engine.facts(log)
        found[log] = (facts.start, facts.end, facts.stable, await engine.read_all(log))
    return found


@pytest.mark.parametrize("reason", REFUSED)
@pytest.mark.parametrize("last", [False, True], ids=["refused-first", "refused-last"])
async def test_nothing_of_a_refused_commit_happens(engine, reason, last):
    await with_content(engine)
    before = await all_of_it(engine)
    bad = REFUSED[reason]()
    good = Commit(
        appends=[Append(1, batch(b"never")), Append(2, produced(7, 1)), Append(1, produced(8, 0, transactional=True))],
        state=[Mutation("s", b"k", b"new"), Mutation("s", b"other", b"new"), Mutation("t", b"k", b"new")],
        changes=[CreateLog(50), TrimLog(1, 1), DeleteLog(3), ConfigureLog(1, LogConfig(batch_bytes_max=100))],
    )
    if reason == "too large":
        good = Commit(appends=good.appends, state=good.state, changes=[CreateLog(50), TrimLog(1, 1)])
    first, second = (good, bad) if last else (bad, good)
    refers = [Refer(refer.log, refer.append + (len(good.appends) if last else 0)) for refer in bad.refers]
    error = await engine.refused(
        Commit(
            appends=[*first.appends, *second.appends],
            refers=[*refers, Refer(1, 0)],
            state=[*first.state, *second.state],
            fences=bad.fences,
            changes=[*first.changes, *second.changes],
        )
    )
    assert isinstance(error, MainstemError)
    assert await all_of_it(engine) == before
    assert await engine.state("t") == {}
    with pytest.raises(UnknownLog):
        await engine.read(50, 0, 0)
    # Nor did it leave a trace that a later commit would meet.
    await engine.create(50)
    results = await engine.commit(
        [
            Commit(appends=[Append(2, produced(7, 1))]),
            Commit(appends=[Append(1, produced(8, 0))]),
            Commit(appends=[Append(1, sized(KIB))]),
        ]
    )
    assert [committed(result) for result in results] == [[2], [2], [3]]
    assert not any(result.repeated for result in results)
    assert (await engine.facts(1)).stable == 4


async def test_a_refused_commit_leaves_nothing_for_a_restart_either(engine):
    await with_content(engine)
    before = await all_of_it(engine)
    for reason in REFUSED:
        good = [Append(1, batch(b"never")), Append(2, produced(7, 1))]
        bad = REFUSED[reason]()
        await engine.refused(
            Commit(
                appends=[*bad.appends, *good],
                refers=bad.refers,
                state=[*bad.state, Mutation("s", b"k", b"new")],
                fences=bad.fences,
                changes=bad.changes,
            )
        )
    await engine.reopen()
    assert await all_of_it(engine) == before


async def test_appends_state_and_changes_happen_together(engine):
    await with_content(engine)
    result = await engine.commit_one(
        Commit(
            appends=[Append(1, batch(b"three")), Append(50, batch(b"new"))],
            state=[Mutation("s", b"k", b"new"), Mutation("t", b"k", b"new")],
            changes=[CreateLog(50), TrimLog(1, 1), DeleteLog(3)],
        )
    )
    assert list(result.bases) == [2, 0]
    async for stage in engine.stages():
        assert (await engine.facts(1)).start == 1, stage
        assert (await engine.values(1))[-1] == b"three"
        assert await engine.values(50) == [b"new"]
        assert await engine.state("s") == {b"k": b"new"}
        assert await engine.state("t") == {b"k": b"new"}
        with pytest.raises(UnknownLog):
            await engine.read(3, 0, 0)


async def test_a_log_created_by_one_member_is_written_by_the_next(engine):
    results = await engine.commit(
        [
            Commit(appends=[Append(5, batch(b"early"))]),
            Commit(changes=[CreateLog(5)]),
            Commit(appends=[Append(5, batch(b"a"))]),
            Commit(changes=[DeleteLog(5)]),
            Commit(appends=[Append(5, batch(b"late"))]),
        ]
    )
    assert isinstance(results[0], UnknownLog)
    assert committed(results[1]) == []
    assert committed(results[2]) == [0]
    assert committed(results[3]) == []
    assert isinstance(results[4], UnknownLog)
    with pytest.raises(UnknownLog):
        await engine.read(5, 0, 0)


# --- refusals in a list ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", REFUSED)
async def test_a_refused_member_disturbs_no_other(engine, reason):
    await with_content(engine)
    results = await engine.commit(
        [
            Commit(appends=[Append(1, batch(b"a"))], state=[Mutation("s", b"a", b"1")]),
            REFUSED[reason](),
            Commit(appends=[Append(1, batch(b"b"))], state=[Mutation("s", b"b", b"2")]),
            REFUSED[reason](),
            Commit(appends=[Append(2, produced(7, 1))]),
        ]
    )
    assert [committed(results[n]) for n in (0, 2, 4)] == [[2], [3], [2]]
    assert isinstance(results[1], MainstemError)
    assert type(results[3]) is type(results[1])
    async for stage in engine.stages():
        assert await engine.values(1) == [b"one", b"two", b"a", b"b"], stage
        assert await engine.values(2) == [b"7/0/0", b"here", b"7/0/1"], stage
        assert await engine.state("s") == {b"k": b"old", b"a": b"1", b"b": b"2"}, stage


async def test_refused_calls_disturb_no_other_call(engine):
    await with_content(engine)
    answers = []
    for n in range(10):
        answers.append(engine.commit([Commit(appends=[Append(1, batch(b"%d" % n))])]))
        for make in REFUSED.values():
            answers.append(engine.commit([make()]))
    results = [(await answer)[0] for answer in answers]
    bases = [list(result.bases) for result in results if isinstance(result, Committed)]
    assert bases == [[2 + n] for n in range(10)]
    assert (await engine.values(1))[2:] == [b"%d" % n for n in range(10)]


async def test_only_refused_members_are_answered_too(engine):
    results = await engine.commit([make() for make in (REFUSED["unknown log"], REFUSED["reserved scope"])])
    assert isinstance(results[0], UnknownLog)
    assert isinstance(results[1], PeerError)


async def test_each_refusal_is_named(engine):
    await with_content(engine)
    kinds = {reason: type(await engine.refused(make())) for reason, make in REFUSED.items()}
    assert kinds["unknown log"] is UnknownLog
    assert kinds["bad checksum"] is CorruptBatch
    assert issubclass(kinds["no batch"], InvalidBatch)
    assert kinds["too large"] is BatchTooLarge
    assert kinds["gap"] is OutOfOrderSequence
    assert issubclass(kinds["reserved scope"], PeerError)
    assert kinds["stale fence"] is FencedError


# --- size -----------------------------------------------------------------------------------------------------------


async def test_a_commit_above_the_limit_is_refused_whole(engine):
    await engine.create(1)
    large = [Append(1, sized(1000 * KIB)) for _ in range(COMMIT_BYTES_MAX // (1000 * KIB) + 1)]
    results = await engine.commit(
        [
            Commit(appends=[Append(1, batch(b"a"))]),
            Commit(appends=large, state=[Mutation("s", b"k", b"v")]),
            Commit(appends=[Append(1, batch(b"b"))]),
        ]
    )
    assert committed(results[0]) == [0]
    assert isinstance(results[1], CommitTooLarge)
    assert committed(results[2]) == [1]
    assert await engine.state("s") == {}
    assert await engine.values(1) == [b"a", b"b"]


async def test_state_counts_for_the_limit_too(engine):
    error = await engine.refused(Commit(state=[Mutation("s", b"k", bytes(COMMIT_BYTES_MAX + 1))]))
    assert isinstance(error, CommitTooLarge)
    assert await engine.state("s") == {}


async def test_one_batch_above_the_limit_of_a_commit_is_refused_whatever_its_log_takes(engine):
    await engine.create(1, batch_bytes_max=10 * COMMIT_BYTES_MAX)
    error = await engine.refused(Commit(appends=[Append(1, sized(COMMIT_BYTES_MAX + 1))]))
    assert isinstance(error, (CommitTooLarge, BatchTooLarge))
    assert engine.end(1) == 0


async def test_a_commit_just_below_the_limit_happens(engine):
    await engine.create(1, 2)
    appends = [Append(1 + n % 2, sized(100 * KIB, fill=b"%d" % (n % 10))) for n in range(36)]
    sent = [as_sent(append.batch) for append in appends]
    assert await engine.commit_one(Commit(appends=appends))
    async for stage in engine.stages():
        assert [as_sent(stored) for stored in await engine.read_all(1)] == sent[0::2], stage
        assert [as_sent(stored) for stored in await engine.read_all(2)] == sent[1::2], stage


async def test_many_logs_in_one_commit(engine):
    logs = range(1, 301)
    await engine.create(*logs)
    for round_ in range(3):
        result = await engine.commit_one(Commit(appends=[Append(log, batch(b"%d" % log)) for log in logs]))
        assert list(result.bases) == [round_] * 300
    async for stage in engine.stages():
        for log in (1, 2, 150, 299, 300):
            assert await engine.values(log) == [b"%d" % log] * 3, stage


async def test_many_batches_of_one_log_in_one_commit(engine):
    await engine.create(1)
    result = await engine.commit_one(Commit(appends=[Append(1, batch(b"%d" % n, b"-")) for n in range(2_000)]))
    assert list(result.bases) == list(range(0, 4_000, 2))
    async for stage in engine.stages():
        assert bases_of(await engine.read_all(1)) == list(range(0, 4_000, 2)), stage


async def test_control_batches_take_an_offset_like_others(engine):
    await engine.create(1)
    await engine.append(1, produced(7, 0, transactional=True), marker(7, commit=True), batch(b"x"))
    assert engine.end(1) == 3
    assert bases_of(await engine.read_all(1)) == [0, 1, 2]
