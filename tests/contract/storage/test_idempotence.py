"""A batch of a producer is stored once, however often it comes."""

from __future__ import annotations

import pytest

from mainstem.model.errors import DuplicateSequence, OutOfOrderSequence, StaleEpoch
from mainstem.storage.contract import Append, Commit, Committed, Mutation
from mainstem.storage.sequencer.engine_scopes import ACTIVE_PRODUCERS, decode_number
from mainstem.storage.sequencer.producers import decode_active_producer
from tests.support.storage.batches import DAY, SEQUENCE_WRAP, batch, marker, produced

LAST = SEQUENCE_WRAP - 1


async def send(engine, *batches, log=1):
    """Each batch in a Commit of its own: (base, repeated) or the type of the refusal."""
    results = await engine.commit([Commit(appends=[Append(log, content)]) for content in batches])
    return [
        (result.bases[0], bool(result.repeated)) if isinstance(result, Committed) else type(result)
        for result in results
    ]


def new(base):
    return (base, False)


def again(base):
    return (base, True)


async def test_a_repeated_batch_answers_its_first_offset(engine):
    await engine.create(1)
    assert await send(engine, produced(7, 0, 3), produced(7, 3, 2)) == [new(0), new(3)]
    assert await send(engine, produced(7, 0, 3)) == [again(0)]
    assert await send(engine, produced(7, 3, 2)) == [again(3)]
    assert await send(engine, produced(7, 5)) == [new(5)]
    assert await engine.values(1) == [b"7/0/%d" % n for n in range(6)]


async def test_repeated_names_the_append_by_its_index(engine):
    await engine.create(1, 2)
    await engine.append(1, batch(b"x"), produced(7, 0))
    result = await engine.commit_one(
        Commit(
            appends=[Append(1, batch(b"y")), Append(1, produced(7, 0)), Append(2, produced(7, 0))],
            state=[Mutation("s", b"k", b"v")],
        )
    )
    assert list(result.bases) == [2, 1, 0]
    assert list(result.repeated) == [1]


async def test_the_rest_of_the_commit_goes_ahead(engine):
    await engine.create(1, 2)
    await engine.append(1, produced(7, 0))
    await engine.commit_one(
        Commit(
            appends=[Append(1, produced(7, 0)), Append(2, batch(b"beside"))],
            state=[Mutation("s", b"k", b"v")],
        )
    )
    async for stage in engine.stages():
        assert await engine.values(1) == [b"7/0/0"], stage
        assert await engine.values(2) == [b"beside"], stage
        assert await engine.state("s") == {b"k": b"v"}, stage


async def test_a_repetition_within_one_list(engine):
    await engine.create(1)
    assert await send(engine, produced(7, 0, 2), produced(7, 0, 2), produced(7, 2), produced(7, 0, 2)) == [
        new(0),
        again(0),
        new(2),
        again(0),
    ]
    assert engine.end(1) == 3


async def test_a_repetition_within_one_commit(engine):
    await engine.create(1)
    result = await engine.commit_one(
        Commit(appends=[Append(1, batch(b"x")), Append(1, produced(7, 0, 2)), Append(1, produced(7, 0, 2))])
    )
    assert list(result.bases) == [0, 1, 1]
    assert list(result.repeated) == [2]
    assert engine.end(1) == 3


async def test_several_batches_of_a_producer_in_one_commit(engine):
    await engine.create(1)
    result = await engine.commit_one(
        Commit(appends=[Append(1, produced(7, 0, 2)), Append(1, produced(8, 0)), Append(1, produced(7, 2, 3))])
    )
    assert list(result.bases) == [0, 2, 3]
    assert await send(engine, produced(7, 5), produced(8, 1), produced(7, 2, 3)) == [new(6), new(7), again(3)]


async def test_a_gap_within_one_commit_refuses_it_whole(engine):
    await engine.create(1)
    error = await engine.refused(Commit(appends=[Append(1, produced(7, 0, 2)), Append(1, produced(7, 3))]))
    assert isinstance(error, OutOfOrderSequence)
    assert engine.end(1) == 0
    assert await send(engine, produced(7, 0, 2)) == [new(0)]


async def test_a_repetition_before_the_first_was_answered(engine):
    await engine.create(1)
    answers = [engine.commit([Commit(appends=[Append(1, produced(7, n // 3))])]) for n in range(12)]
    results = [(await answer)[0] for answer in answers]
    assert [result.bases[0] for result in results] == [n // 3 for n in range(12)]
    assert [list(result.repeated) for result in results] == [[], [0], [0]] * 4
    assert engine.end(1) == 4


async def test_a_repetition_is_not_answered_before_the_first_is_durable(engine):
    await engine.create(1)
    first = engine.commit([Commit(appends=[Append(1, produced(7, 0))])])
    second = engine.commit([Commit(appends=[Append(1, produced(7, 0))])])
    await second
    assert first.done


async def test_a_gap_is_refused_and_changes_nothing(engine):
    await engine.create(1)
    await send(engine, produced(7, 0, 3))
    assert await send(engine, produced(7, 4), produced(7, 100)) == [OutOfOrderSequence] * 2
    assert await send(engine, produced(7, 3)) == [new(3)]


async def test_logs_know_producers_by_themselves(engine):
    await engine.create(1, 2)
    assert await send(engine, produced(7, 0), produced(7, 1), log=1) == [new(0), new(1)]
    assert await send(engine, produced(7, 0), log=2) == [new(0)]
    assert await send(engine, produced(7, 2), log=2) == [OutOfOrderSequence]


async def test_producers_do_not_disturb_each_other(engine):
    await engine.create(1)
    sent = [produced(producer, sequence) for sequence in range(4) for producer in (5, 6, 7)]
    assert await send(engine, *map(bytes, sent)) == [new(n) for n in range(12)]
    assert await send(engine, *map(bytes, sent)) == [again(n) for n in range(12)]


async def test_the_last_five_are_known_and_the_sixth_is_only_known_to_be_old(engine):
    await engine.create(1)
    await send(engine, *[produced(7, n) for n in range(6)])
    assert await send(engine, *[produced(7, n) for n in range(6)]) == [DuplicateSequence, *map(again, range(1, 6))]
    assert engine.end(1) == 6


async def test_a_part_of_a_stored_batch_is_no_repetition(engine):
    await engine.create(1)
    await send(engine, produced(7, 0, 4))
    assert await send(engine, produced(7, 0, 2), produced(7, 2, 2)) == [DuplicateSequence] * 2
    assert await send(engine, produced(7, 2, 4)) == [OutOfOrderSequence]
    assert engine.end(1) == 4


# --- epochs ---------------------------------------------------------------------------------------------------------


async def test_a_new_epoch_begins_at_zero(engine):
    await engine.create(1)
    await send(engine, produced(7, 0, 3))
    assert await send(engine, produced(7, 3, epoch=1)) == [OutOfOrderSequence]
    assert await send(engine, produced(7, 0, epoch=1), produced(7, 1, epoch=1)) == [new(3), new(4)]
    assert await send(engine, produced(7, 0, epoch=1)) == [again(3)]


async def test_an_old_epoch_is_refused(engine):
    await engine.create(1)
    await send(engine, produced(7, 0, 3, epoch=4))
    assert await send(engine, produced(7, 3, epoch=3), produced(7, 0, 3, epoch=3)) == [StaleEpoch] * 2
    assert engine.end(1) == 3


async def test_batches_of_the_older_epoch_are_no_longer_known(engine):
    await engine.create(1)
    await send(engine, produced(7, 0), produced(7, 0, epoch=1))
    assert await send(engine, produced(7, 0)) == [StaleEpoch]


async def test_epochs_may_be_skipped(engine):
    await engine.create(1)
    assert await send(engine, produced(7, 0), produced(7, 0, epoch=9)) == [new(0), new(1)]


# --- where sequences begin and wrap ---------------------------------------------------------------------------------


async def test_an_unknown_producer_may_begin_anywhere(engine):
    await engine.create(1)
    assert await send(engine, produced(7, 41, epoch=3), produced(7, 42, epoch=3)) == [new(0), new(1)]


async def test_unless_the_first_sequence_must_be_zero(engine):
    await engine.create(1)
    error = await engine.refused(Commit(appends=[Append(1, produced(7, 1), first_sequence_zero=True)]))
    assert isinstance(error, OutOfOrderSequence)
    await engine.commit_one(Commit(appends=[Append(1, produced(7, 0), first_sequence_zero=True)]))
    await engine.commit_one(Commit(appends=[Append(1, produced(7, 1), first_sequence_zero=True)]))
    result = await engine.commit_one(Commit(appends=[Append(1, produced(7, 1), first_sequence_zero=True)]))
    assert list(result.repeated) == [0]


async def test_within_one_commit_the_second_batch_need_not_be_zero(engine):
    await engine.create(1)
    appends = [Append(1, produced(7, n), first_sequence_zero=True) for n in range(2)]
    assert list((await engine.commit_one(Commit(appends=appends))).bases) == [0, 1]


async def test_sequences_wrap_between_batches(engine):
    await engine.create(1)
    sent = [produced(7, LAST - 1), produced(7, LAST), produced(7, 0), produced(7, 1)]
    assert await send(engine, *map(bytes, sent)) == [new(0), new(1), new(2), new(3)]
    assert await send(engine, *map(bytes, sent)) == [again(0), again(1), again(2), again(3)]
    assert await send(engine, produced(7, 3)) == [OutOfOrderSequence]


async def test_sequences_wrap_within_a_batch(engine):
    await engine.create(1)
    across = bytes(produced(7, LAST - 1, 5))
    assert await send(engine, across) == [new(0)]
    assert await send(engine, across) == [again(0)]
    assert await send(engine, produced(7, 3)) == [new(5)]
    assert await send(engine, across) == [again(0)]
    async for stage in engine.stages():
        assert await send(engine, across) == [again(0)], stage
        assert await send(engine, produced(7, 3)) == [again(5)], stage


async def test_an_old_batch_from_before_the_wrap_is_a_duplicate(engine):
    await engine.create(1)
    await send(engine, produced(7, LAST), *[produced(7, n) for n in range(6)])
    assert await send(engine, produced(7, LAST), produced(7, 0)) == [DuplicateSequence] * 2


# --- how long it is remembered --------------------------------------------------------------------------------------


async def test_it_is_known_wherever_the_batches_went(engine):
    await engine.create(1)
    await send(engine, *[produced(7, n) for n in range(8)], produced(8, 0, epoch=2))
    async for stage in engine.stages():
        found = await send(engine, *[produced(7, n) for n in range(2, 10) if n < 8])
        assert found == [DuplicateSequence, *map(again, range(3, 8))], stage
        assert await send(engine, produced(8, 0, epoch=1), produced(8, 0, epoch=2)) == [StaleEpoch, again(8)], stage
        assert await send(engine, produced(7, 9)) == [OutOfOrderSequence], stage
    assert await send(engine, produced(7, 8)) == [new(9)]


@pytest.mark.parametrize("settled", [False, True])
async def test_it_is_known_across_every_restart_in_between(engine, settled):
    await engine.create(1)
    for n in range(12):
        assert await send(engine, produced(7, n)) == [new(n)]
        await engine.reopen()
        if settled or n % 2:
            await engine.settle()
        known = range(max(0, n - 4), n + 1)
        assert await send(engine, *[produced(7, n) for n in known]) == [again(n) for n in known]
        if n > 4:
            assert await send(engine, produced(7, n - 5)) == [DuplicateSequence]


async def test_it_is_known_after_the_batches_were_trimmed(engine):
    await engine.create(1)
    await send(engine, produced(7, 0, 3), produced(7, 3))
    await engine.trim(1, 4)
    async for stage in engine.stages():
        assert await send(engine, produced(7, 0, 3), produced(7, 3)) == [again(0), again(3)], stage
    assert await send(engine, produced(7, 4)) == [new(4)]


async def test_a_silent_producer_is_forgotten(engine):
    await engine.create(1)
    await send(engine, produced(7, 0), produced(7, 1))
    engine.clock.advance(DAY // 2)
    await send(engine, produced(8, 0))
    await engine.settle()
    assert await send(engine, produced(7, 1)) == [again(1)]
    engine.clock.advance(DAY // 2 + 1_000)
    report = await engine.settle()
    assert report.expired_producers == 1
    assert await send(engine, produced(8, 0)) == [again(2)]
    assert await send(engine, produced(7, 50)) == [new(3)]


async def test_a_forgotten_producer_stays_forgotten(engine):
    await engine.create(1)
    await send(engine, produced(7, 0))
    engine.clock.advance(3 * DAY)
    await engine.seal()
    await engine.reopen()
    await engine.settle()
    assert await send(engine, produced(7, 50)) == [new(1)]


async def active(engine, log):
    """Who is known: (epoch, last sequence, first offset of what is open) by id, and when each wrote last."""
    entries = await engine.state(f"{ACTIVE_PRODUCERS}{log}")
    known = {decode_number(key): decode_active_producer(value) for key, value in entries.items()}
    return {n: (p.epoch, p.last_sequence, p.open_from) for n, p in known.items()}, {
        n: p.last_ms for n, p in known.items()
    }


async def test_who_wrote_of_late_can_be_asked(engine):
    await engine.create(1, 2)
    began = engine.clock.now_ms()
    await send(engine, batch(b"of nobody"), produced(7, 0, 3), produced(7, 3, 2, epoch=0), produced(8, 0, epoch=4))
    engine.clock.advance(1_000)
    await send(engine, produced(9, 0, 2, transactional=True), produced(5, 0), log=1)
    await send(engine, produced(7, 0), log=2)
    async for stage in engine.stages():
        known, times = await active(engine, 1)
        assert known == {7: (0, 4, -1), 8: (4, 0, -1), 9: (0, 1, 7), 5: (0, 0, -1)}, stage
        assert times[7] == times[8] == began, stage
        assert times[9] == times[5] == began + 1_000, stage
        assert (await active(engine, 2))[0] == {7: (0, 0, -1)}, stage
    assert await active(engine, 3) == ({}, {})
    # A marker of a newer epoch ends the transaction and begins the sequences anew.
    await send(engine, marker(9, commit=True, epoch=1), produced(8, 0, epoch=5))
    async for stage in engine.stages():
        known, _ = await active(engine, 1)
        assert known == {7: (0, 4, -1), 8: (5, 0, -1), 9: (1, -1, -1), 5: (0, 0, -1)}, stage
    engine.clock.advance(DAY + 2_000)
    await engine.settle()
    assert await active(engine, 1) == ({}, {})


@pytest.mark.parametrize("count", [200])
async def test_many_producers(engine, count):
    await engine.create(1)
    await send(engine, *[produced(n, 0) for n in range(count)])
    async for stage in engine.stages():
        assert await send(engine, *[produced(n, 0) for n in range(count)]) == [again(n) for n in range(count)], stage


async def test_the_highest_producer_id(engine):
    await engine.create(1)
    highest = (1 << 63) - 1
    assert await send(engine, produced(highest, 0, epoch=32_767)) == [new(0)]
    async for stage in engine.stages():
        assert await send(engine, produced(highest, 0, epoch=32_767)) == [again(0)], stage
