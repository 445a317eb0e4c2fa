"""How long to wait, and when to give up."""

import msgspec
import pytest

from mainstem.coordination.schedules.delay_levels import DELAY_LEVELS_MS, level_delay_ms
from mainstem.coordination.subscriptions.retry_policy import ROCKETMQ, RetryPolicy, read_retry, write_retry


def waits(policy: RetryPolicy, random: float = 0.0) -> list[int]:
    found: list[int] = []
    while (delay := policy.next_delay_ms(len(found) + 1, lambda: random)) is not None:
        found.append(delay)
    return found


def test_fixed_linear_exponential() -> None:
    assert waits(RetryPolicy(kind="fixed", delay_ms=70, retries_max=3)) == [70, 70, 70]
    assert waits(RetryPolicy(kind="linear", delay_ms=10, step_ms=5, delay_ms_max=18, retries_max=4)) == [
        10,
        15,
        18,
        18,
    ]
    assert waits(RetryPolicy(kind="exponential", delay_ms=10, factor=3, delay_ms_max=100, retries_max=4)) == [
        10,
        30,
        90,
        100,
    ]
    assert waits(RetryPolicy(kind="exponential", delay_ms=10, jitter=0.5, retries_max=2), random=1.0) == [5, 10]
    assert waits(RetryPolicy(retries_max=0)) == []


def test_a_long_series_stays_at_its_limit() -> None:
    policy = RetryPolicy(kind="exponential", delay_ms=1, factor=100, retries_max=9999)
    assert policy.next_delay_ms(9_999, lambda: 0.0) == policy.delay_ms_max


def test_rocketmq() -> None:
    seconds = [wait // 1000 for wait in waits(ROCKETMQ)]
    assert seconds == [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
    assert RetryPolicy(kind="rocketmq", retries_max=98).next_delay_ms(16, lambda: 0.0) == 7_200_000
    assert len(DELAY_LEVELS_MS) == 18
    assert [level_delay_ms(level) for level in (-1, 0, 1, 3, 18, 99)] == [0, 0, 1_000, 10_000, 7_200_000, 7_200_000]


def test_a_policy_is_read_as_it_is_written() -> None:
    for policy in (
        ROCKETMQ,
        RetryPolicy(delay_ms=500, retries_max=3),
        RetryPolicy(kind="exponential", delay_ms=10, factor=1.5, jitter=0.25, delay_ms_max=60_000),
    ):
        assert read_retry(write_retry(policy)) == policy
    assert write_retry(RetryPolicy(delay_ms=500)) == "fixed delay_ms=500"


@pytest.mark.parametrize(
    "text",
    ["", "often", "fixed delay_ms", "fixed delay=1", "fixed delay_ms=x", "fixed delay_ms=-1", "fixed kind=linear"],
)
def test_what_is_no_policy_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_retry(text)


@pytest.mark.parametrize(
    "wrong", [{"delay_ms": -1}, {"retries_max": -1}, {"jitter": 1.5}, {"factor": 0.5}, {"kind": "often"}]
)
def test_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, RetryPolicy)
