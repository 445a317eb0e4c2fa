"""Kafka's error codes."""

from mainstem.wire.kafka import RETRIABLE, ErrorCode, is_retriable


def test_codes_are_without_gaps() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))


def test_what_may_be_tried_again() -> None:
    assert is_retriable(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert is_retriable(7)
    assert not is_retriable(ErrorCode.NONE)
    assert not is_retriable(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert not is_retriable(30_000)
    assert set(ErrorCode) > RETRIABLE
