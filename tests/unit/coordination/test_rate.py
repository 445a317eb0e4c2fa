"""Rates, as Kafka measures them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.coordination.clients.rate import SPAN_S, TokenBucket, WindowedRate


def test_a_burst_is_measured_against_ten_seconds() -> None:
    rate = WindowedRate()
    rate.record(1_000, 0.0)
    assert rate.pace(0.0) == (1_000, 10.0)
    assert rate.pace(0.0).excess_s(100) == 0
    assert rate.pace(0.0).excess_s(50) == pytest.approx(10.0)
    rate.record(1_000, 0.5)
    assert rate.pace(0.5).amount == 2_000


def test_what_is_old_is_forgotten() -> None:
    rate = WindowedRate()
    for second in range(30):
        rate.record(100, float(second))
    assert rate.pace(29.0) == (1_100, 10.0)
    assert not rate.is_silent(39.9)
    assert rate.is_silent(29.0 + SPAN_S)
    assert rate.pace(60.0).amount == 0


def test_what_was_recorded_can_be_taken_back() -> None:
    rate = WindowedRate()
    rate.record(1_000, 0.0)
    rate.record(-1_000, 0.0)
    assert rate.pace(0.0).amount == 0


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 10_000)), min_size=1, max_size=100))
def test_the_last_ten_seconds_are_counted_and_little_more(steps: list[tuple[float, int]]) -> None:
    rate, now = WindowedRate(), 0.0
    recorded: list[tuple[float, int]] = []
    for pause, amount in steps:
        now += pause
        rate.record(amount, now)
        recorded.append((now, amount))
        pace = rate.pace(now)
        assert sum(a for at, a in recorded if at > now - 10) <= pace.amount
        assert pace.amount <= sum(a for at, a in recorded if at > now - SPAN_S)
        assert 10 <= pace.seconds <= SPAN_S


def test_tokens_are_saved_up_and_overdrawn_once() -> None:
    bucket = TokenBucket(2.0, 0.0)
    bucket.take(20, 2.0, 0.0)
    assert bucket.overdrawn_s(2.0, 0.0) == 0
    bucket.take(20, 2.0, 0.0)
    assert bucket.overdrawn_s(2.0, 0.0) == 9.0
    assert bucket.overdrawn_s(2.0, 4.0) == 5.0
    assert not bucket.is_full(2.0, 9.0)
    assert bucket.is_full(2.0, 100.0)
