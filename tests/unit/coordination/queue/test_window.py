"""What is given back to a queue stands where it stood."""

import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mainstem.coordination.queues.lane import Lane
from mainstem.coordination.subscriptions.subscribed_log import SubscribedLog
from mainstem.wire.messages.message import Message

MANY = 20_000


def lane_of(count: int) -> Lane[Any]:
    lane: Lane[Any] = Lane(None, 0, SubscribedLog(1, 0), 0)
    lane.accept(0, count, [Message(lane, -1, 0, None, b"\0", b"x" * (number % 7), 0) for number in range(count)])
    return lane


@given(st.integers(1, 60), st.lists(st.lists(st.integers(0, 59), unique=True)))
def test_messages_come_back_in_the_order_of_their_offsets(count: int, returns: list[list[int]]) -> None:
    lane = lane_of(count)
    whole = lane.ready_bytes
    given_out = {message.offset: message for message in lane.take(count, 1 << 40, 0, [])}
    for offsets in returns:
        lane.take_back([given_out.pop(offset) for offset in offsets if offset in given_out])
        assert [message.offset for message in lane.ready] == sorted(set(range(count)) - set(given_out))
        assert lane.ready_bytes == whole - sum(len(message.value) for message in given_out.values())


def test_what_is_to_be_read_anew_is_not_taken_back() -> None:
    lane = lane_of(4)
    taken = lane.take(4, 1 << 40, 0, [])
    lane.drop_window(2)
    lane.take_back(taken)
    assert [message.offset for message in lane.ready] == [0, 1]


def test_many_that_lay_between_others_come_back_in_one_pass() -> None:
    lane = lane_of(MANY)
    taken = lane.take(MANY, 1 << 40, 0, [])
    lane.take_back(taken[::2])
    begin = time.process_time()
    lane.take_back(taken[1::2])
    # A search for each would take a hundred million steps: seconds, during which no client is served.
    assert time.process_time() - begin < 0.5
    assert [message.offset for message in lane.ready] == list(range(MANY))
