"""What readers of history want next is begun before they ask, and never what they did not ask for."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from mainstem.model.errors import OffsetOutOfRange
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Budget, Edge, ReadHint, ReadResult
from mainstem.storage.local.read.reads_ahead import READS_AHEAD, READS_AHEAD_MAX, Reading, ReadsAhead
from mainstem.wire.record_batch import batches_in, decode_records
from tests.support.storage.simulated_node import Node

LOG, OTHER = 1, 2
LIMIT = 2_000
RECORDS = 20


def reading(offset: int, limit: int = LIMIT) -> Reading:
    return Reading(offset, limit, offset + 1, Answer())


class Begun:
    """Which reads the engine put into its lanes."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self.ahead = 0
        read, read_ahead = node.runtime.read, node.runtime.read_ahead

        def note_asked(job: Callable[[], Any], done: Any) -> None:
            self.asked += 1
            read(job, done)

        def note_ahead(job: Callable[[], Any], done: Any) -> None:
            self.ahead += 1
            read_ahead(job, done)

        monkeypatch.setattr(node.runtime, "read", note_asked)
        monkeypatch.setattr(node.runtime, "read_ahead", note_ahead)


def new_node(batches: int = 200, **settings: Any) -> Node:
    """Most of what it holds is in files, and little of it in memory."""
    node = Node(**({"cache_bytes_max": 1, "block_bytes": 1_024} | settings))
    node.create(LOG, OTHER)
    for number in range(batches):
        node.append(LOG, f"{number}", records=RECORDS)
    node.settle()
    return node


def offsets_in(result: ReadResult) -> list[int]:
    return [
        record.offset
        for buffer in result.batches
        for position, size in batches_in(buffer)
        for record in decode_records(memoryview(buffer)[position : position + size])
    ]


def test_they_are_taken_in_their_order() -> None:
    ahead = ReadsAhead()
    first, second = reading(5), reading(6)
    ahead.add(LOG, first)
    ahead.add(LOG, second)
    assert ahead.last(LOG) is second
    assert ahead.take(LOG, 5, LIMIT) is first
    assert ahead.take(LOG, 6, LIMIT) is second
    assert (ahead.take(LOG, 7, LIMIT), ahead.last(LOG), len(ahead)) == (None, None, 0)


@pytest.mark.parametrize(("offset", "limit"), [(6, LIMIT), (5, LIMIT + 1), (0, LIMIT)])
def test_what_was_begun_for_another_read_is_forgotten(offset: int, limit: int) -> None:
    ahead = ReadsAhead()
    ahead.add(LOG, reading(5))
    ahead.add(LOG, reading(6))
    ahead.add(OTHER, reading(5))
    assert ahead.take(LOG, offset, limit) is None
    assert (ahead.count(LOG), ahead.count(OTHER), len(ahead)) == (0, 1, 1)


def test_there_are_not_more_than_a_few_and_the_latest_readers_have_them() -> None:
    ahead = ReadsAhead()
    for log in range(20):
        ahead.add(log, reading(0))
        assert len(ahead) == min(log + 1, READS_AHEAD_MAX)
    assert [log for log in range(20) if ahead.count(log)] == list(range(20 - READS_AHEAD_MAX, 20))
    # Who reads on stays, and one that has not for longer goes.
    first = 20 - READS_AHEAD_MAX
    assert ahead.take(first, 0, LIMIT) is not None
    ahead.add(first, reading(1))
    ahead.add(100, reading(0))
    assert (ahead.count(first), ahead.count(first + 1), len(ahead)) == (1, 0, READS_AHEAD_MAX)


@pytest.mark.parametrize("readers", range(1, READS_AHEAD_MAX + 1))
def test_as_many_readers_as_there_may_be_reads_never_lose_their_next_one(readers: int) -> None:
    """A second one is begun where there is room, and goes before anybody's first."""
    ahead = ReadsAhead()
    at = [0] * readers
    for turn in range(50):
        for log in range(readers):
            taken = ahead.take(log, at[log], LIMIT)
            assert (taken is not None) == (turn > 0)
            at[log] += 1
            last = ahead.last(log) or reading(at[log] - 1)
            while ahead.has_room(log, READS_AHEAD if turn else 1):
                last = reading(last.offset + 1)
                ahead.add(log, last)
            assert ahead.count(log) >= 1
            assert len(ahead) <= READS_AHEAD_MAX
    assert len(ahead) == min(READS_AHEAD * readers, READS_AHEAD_MAX)
    assert len(ahead) == sum(ahead.count(log) for log in range(readers))


def test_readers_that_come_later_take_the_second_ones_first() -> None:
    ahead = ReadsAhead()
    early = range(READS_AHEAD_MAX // READS_AHEAD)
    for log in early:
        for offset in range(READS_AHEAD):
            ahead.add(log, reading(offset))
    for log in range(len(early), READS_AHEAD_MAX):
        ahead.add(log, reading(0))
        assert len(ahead) == READS_AHEAD_MAX
    assert [ahead.count(log) for log in range(READS_AHEAD_MAX)] == [1] * READS_AHEAD_MAX
    assert all(ahead.take(log, 0, LIMIT) is not None for log in range(READS_AHEAD_MAX))


def test_a_reader_of_history_asks_once_and_finds_the_rest_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    node = new_node()
    begun = Begun(node, monkeypatch)
    offset = reads = 0
    counts = []
    while True:
        result = node.wait(node.engine.read(LOG, offset, LIMIT, ReadHint.CATCH_UP))
        if not result.batches:
            break
        reads += 1
        counts.append(begun.ahead)
        assert offsets_in(result)[-1] + 1 == result.next_offset
        offset = result.next_offset
    assert offset == result.end
    assert reads > 10
    # One ahead at first, because nobody knows whether it goes on; from then on two.
    assert counts[:3] == [1, 1 + READS_AHEAD, 2 + READS_AHEAD]
    assert begun.asked == 1
    assert begun.ahead == reads - 1


def test_who_follows_the_end_or_jumps_about_has_nothing_read_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    node = new_node()
    begun = Begun(node, monkeypatch)
    for offset in (0, 400, 800):
        node.wait(node.engine.read(LOG, offset, LIMIT, ReadHint.TAIL))
    assert (begun.asked, begun.ahead) == (3, 0)
    for offset in (0, 400, 800):
        node.wait(node.engine.read(LOG, offset, LIMIT, ReadHint.CATCH_UP))
    assert (begun.asked, begun.ahead) == (6, 3)


@pytest.mark.parametrize("seed", range(40))
def test_what_was_read_ahead_is_what_is_there(seed: int) -> None:
    """While the log grows, is merged and trimmed between the reads, and two readers share it."""
    random = Random(seed)
    node = new_node(random.randint(1, 60), tier_runs_max=2)
    end = node.wait(node.engine.offset_at(LOG, Edge.END)).offset
    at = [0, 0]
    limits = [LIMIT, random.choice((LIMIT, 700))]
    for step in range(120):
        action = random.random()
        if action < 0.2:
            node.append(LOG, f"more {step}", records=RECORDS)
            end += RECORDS
        elif action < 0.3:
            node.wait(node.engine.maintain(Budget()))
        elif action < 0.34:
            node.wait(node.engine.trim(LOG, random.randint(min(at), end)))
        elif action < 0.4:
            node.settle()
        reader = random.choice((0, 0, 0, 1))
        hint = random.choice((ReadHint.CATCH_UP,) * 5 + (ReadHint.TAIL,))
        try:
            result = node.wait(node.engine.read(LOG, at[reader], limits[reader], hint))
        except OffsetOutOfRange as error:
            if at[reader] >= error.start:
                raise
            at[reader] = error.start
            continue
        found = offsets_in(result)
        if at[reader] == end:
            assert found == []
            at[reader] = random.choice((result.start, end))
            continue
        # The first batch holds the offset asked for, and nothing is left out from there on.
        assert found == list(range(at[reader] - at[reader] % RECORDS, result.next_offset))
        at[reader] = result.next_offset
