"""What a log knows about a producer: against a model that counts without ever wrapping, and joined from any pieces."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.model.errors import DuplicateSequence, OutOfOrderSequence, SequenceError, StaleEpoch
from mainstem.storage.sequencer.producers import (
    NOT_STORED,
    RECENT_BATCHES_MAX,
    SEQUENCE_MASK,
    Producer,
    decode_producer,
    encode_producer,
)

WRAP = SEQUENCE_MASK + 1
HALF = WRAP // 2


def stored(*batches, epoch=0):
    """A producer after batches of (sequence, count), at offsets 100, 200, ..."""
    producer = Producer(epoch)
    for number, (sequence, count) in enumerate(batches, start=1):
        producer.replay(epoch, sequence, count, number * 100, number)
    return producer


def outcome(producer, epoch, sequence, count):
    try:
        return producer.check(epoch, sequence, count)
    except SequenceError as error:
        return type(error)


# --- examples -------------------------------------------------------------------------------------------------------


def test_the_next_batch_is_new():
    assert stored((0, 3)).check(0, 3, 10) == NOT_STORED


def test_a_repeated_batch_answers_its_offset():
    producer = stored((0, 3), (3, 2))
    assert producer.check(0, 0, 3) == 100
    assert producer.check(0, 3, 2) == 200


def test_checking_changes_nothing():
    producer = stored((0, 3), (3, 2))
    before = encode_producer(producer)
    for epoch, sequence, count in [(0, 0, 3), (0, 5, 1), (1, 0, 1), (0, 9, 1), (-1, 0, 1), (0, 0, 1)]:
        outcome(producer, epoch, sequence, count)
    assert encode_producer(producer) == before


def test_the_last_five_batches_are_known_and_the_sixth_is_only_known_to_be_old():
    producer = stored(*[(n, 1) for n in range(6)])
    assert [outcome(producer, 0, n, 1) for n in range(6)] == [DuplicateSequence, 200, 300, 400, 500, 600]


def test_a_gap_is_refused():
    with pytest.raises(OutOfOrderSequence):
        stored((0, 3)).check(0, 4, 1)


def test_an_older_epoch_is_refused_even_with_the_next_sequence():
    with pytest.raises(StaleEpoch):
        stored((0, 3), epoch=2).check(1, 3, 1)


def test_a_new_epoch_begins_with_sequence_zero():
    producer = stored((0, 3))
    assert producer.check(1, 0, 1) == NOT_STORED
    with pytest.raises(OutOfOrderSequence):
        producer.check(1, 3, 1)


def test_a_batch_of_another_size_is_no_repetition():
    producer = stored((0, 3), (3, 3))
    assert outcome(producer, 0, 0, 2) is DuplicateSequence
    assert outcome(producer, 0, 3, 2) is DuplicateSequence
    assert outcome(producer, 0, 3, 4) is OutOfOrderSequence


def test_sequences_wrap_between_batches():
    producer = stored((SEQUENCE_MASK, 1))
    assert producer.check(0, 0, 1) == NOT_STORED
    assert outcome(producer, 0, SEQUENCE_MASK, 1) == 100
    assert outcome(producer, 0, 1, 1) is OutOfOrderSequence


def test_sequences_wrap_within_a_batch():
    producer = stored((SEQUENCE_MASK - 1, 5))
    assert producer.last_sequence == 2
    assert producer.check(0, 3, 1) == NOT_STORED
    assert producer.check(0, SEQUENCE_MASK - 1, 5) == 100
    assert outcome(producer, 0, SEQUENCE_MASK - 1, 4) is DuplicateSequence
    assert outcome(producer, 0, 0, 1) is DuplicateSequence


def test_an_old_batch_from_before_the_wrap_is_old():
    producer = stored((SEQUENCE_MASK - 9, 10), *[(n, 1) for n in range(5)])
    assert outcome(producer, 0, SEQUENCE_MASK - 9, 10) is DuplicateSequence


def test_a_marker_ends_nothing_of_the_same_epoch():
    producer = stored((0, 3))
    producer.replay_marker(0, 50)
    assert producer.last_ms == 50
    assert producer.check(0, 0, 3) == 100
    assert producer.check(0, 3, 1) == NOT_STORED


def test_a_marker_of_a_newer_epoch_fences_the_older_one():
    producer = stored((0, 3))
    producer.check_marker(1)
    producer.replay_marker(1, 50)
    assert outcome(producer, 0, 3, 1) is StaleEpoch
    assert outcome(producer, 1, 0, 1) == NOT_STORED
    assert outcome(producer, 1, 3, 1) is OutOfOrderSequence
    with pytest.raises(StaleEpoch):
        producer.check_marker(0)


def test_time_never_goes_back():
    producer = Producer(0)
    producer.replay(0, 0, 1, 0, 1_000)
    producer.replay(0, 1, 1, 1, 900)
    assert producer.last_ms == 1_000


def test_a_copy_is_independent():
    producer = stored((0, 3))
    copy = producer.copy()
    assert copy == producer
    copy.replay(0, 3, 1, 200, 9)
    assert producer == stored((0, 3))


def test_two_fresh_entries_share_nothing():
    first, second = Producer(0), Producer(0)
    first.replay(0, 0, 1, 0, 0)
    assert second.recent == []


# --- against a model ------------------------------------------------------------------------------------------------


class Model:
    """Every batch ever stored, by positions that never wrap."""

    def __init__(self, epoch: int, first: int) -> None:
        self.epoch = epoch
        self.next = first
        self.batches: list[tuple[int, int, int]] = []

    def store(self, epoch: int, count: int, base: int) -> int:
        """Answers the sequence it begins with, which does wrap."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.next = 0
            self.batches = []
        sequence = self.next % WRAP
        self.batches.append((self.next, count, base))
        self.next += count
        return sequence

    def check(self, epoch: int, distance: int, count: int):
        """The outcome for a batch that begins so far from the next expected position."""
        if epoch < self.epoch:
            return StaleEpoch
        first = self.next + distance
        if epoch > self.epoch:
            return NOT_STORED if first % WRAP == 0 else OutOfOrderSequence
        if distance == 0:
            return NOT_STORED
        for stored_first, stored_count, base in self.batches[-RECENT_BATCHES_MAX:]:
            if (stored_first, stored_count) == (first, count):
                return base
        behind = self.next - (first + count)
        return DuplicateSequence if 0 <= behind < HALF else OutOfOrderSequence


counts = st.integers(1, 50)
firsts = st.one_of(st.integers(0, 200), st.integers(WRAP - 200, WRAP - 1))
distances = st.one_of(st.integers(-300, 300), st.integers(-HALF + 400, HALF - 400))


@given(firsts, st.lists(st.tuples(st.integers(0, 1), counts), min_size=1, max_size=12), st.data())
def test_check_against_a_model(first, history, data):
    model = Model(3, first)
    producer = Producer(3)
    for number, (epoch_step, count) in enumerate(history):
        epoch = model.epoch + epoch_step if number else model.epoch
        sequence = model.store(epoch, count, number * 10)
        if number:
            assert producer.check(epoch, sequence, count) == NOT_STORED
        producer.replay(epoch, sequence, count, number * 10, number)
    tries = data.draw(
        st.lists(
            st.one_of(
                st.tuples(st.integers(-1, 1), distances, counts),
                st.sampled_from(model.batches).map(lambda batch: (0, batch[0] - model.next, batch[1])),
            ),
            min_size=1,
            max_size=5,
        )
    )
    for epoch_step, distance, count in tries:
        epoch = model.epoch + epoch_step
        sequence = (model.next + distance) % WRAP
        assert outcome(producer, epoch, sequence, count) == model.check(epoch, distance, count)


# --- joined from pieces ---------------------------------------------------------------------------------------------

events = st.lists(
    st.tuples(st.sampled_from(["batch", "batch", "batch", "marker"]), st.sampled_from([0, 0, 0, 1, 2]), counts),
    min_size=1,
    max_size=20,
)


def apply(stretch):
    producer = Producer(stretch[0][1])
    for number, epoch, sequence, count in stretch:
        if count:
            producer.replay(epoch, sequence, count, number * 100, number)
        else:
            producer.replay_marker(epoch, number)
    return producer


def history_of(events, first):
    """(number, epoch, sequence, count) of each event as a log would have accepted it; a marker counts 0."""
    epoch, sequence = 0, first
    history = []
    for number, (kind, step, count) in enumerate(events):
        if step:
            epoch, sequence = epoch + step, 0
        history.append((number, epoch, sequence, count if kind == "batch" else 0))
        if kind == "batch":
            sequence = (sequence + count) & SEQUENCE_MASK
    return history


@given(events, firsts, st.data())
def test_pieces_joined_say_what_the_whole_says(events, first, data):
    history = history_of(events, first)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(history) - 1)), max_size=6)))
    edges = [0, *(cut for cut in cuts if cut < len(history)), len(history)]
    pieces = [apply(history[begin:end]) for begin, end in zip(edges, edges[1:], strict=False)]
    kept = [encode_producer(piece) for piece in pieces]
    whole = apply(history)
    assert reduce(Producer.join, pieces) == whole
    right = pieces[-1]
    for piece in reversed(pieces[:-1]):
        right = piece.join(right)
    assert right == whole
    assert [encode_producer(piece) for piece in pieces] == kept


@given(events, firsts)
def test_an_entry_survives_its_encoding(events, first):
    producer = apply(history_of(events, first))
    decoded = decode_producer(encode_producer(producer))
    assert decoded == producer
    sequence = (decoded.last_sequence + 1) & SEQUENCE_MASK
    decoded.replay(decoded.epoch, sequence, 1, 0, 0)
    if producer.recent:
        newest = producer.recent[-1]
        assert decoded.check(decoded.epoch, newest[0], ((newest[1] - newest[0]) & SEQUENCE_MASK) + 1) == newest[2]
