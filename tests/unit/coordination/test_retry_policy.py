"""How long to wait, and when to give up."""

import msgspec
import pytest

from mainstem.coordination.schedules.delay_levels import DELAY_LEVELS_MS, level_delay_ms
from mainstem.coordination.subscriptions.retry_policy import ROCKETMQ, RetryPolicy


def waits(policy: RetryPolicy, random: float = 0.0) -> list[int]:
    found: list[int] = []
    while (delay := policy.next_delay_ms(len(found) + 1, lambda: random)) is not None:
        found.append(delay)
    return found


def test_fixed_linear_exponential() -> None:
    assert waits(RetryPolicy(kind="fixed", delay_ms=70, attempts_max=4)) == [70, 70, 70]
    assert waits(RetryPolicy(kind="linear", delay_ms=10, step_ms=5, delay_ms_max=18, attempts_max=5)) == [
        10,
        15,
        18,
        18,
    ]
    assert waits(RetryPolicy(kind="exponential", delay_ms=10, factor=3, delay_ms_max=100, attempts_max=5)) == [
        10,
        30,
        90,
        100,
    ]
    assert waits(RetryPolicy(kind="exponential", delay_ms=10, jitter=0.5, attempts_max=3), random=1.0) == [5, 10]
    assert waits(RetryPolicy(attempts_max=1)) == []


def test_a_long_series_stays_at_its_limit() -> None:
    policy = RetryPolicy(kind="exponential", delay_ms=1, factor=100, attempts_max=10_000)
    assert policy.next_delay_ms(9_999, lambda: 0.0) == policy.delay_ms_max


def test_rocketmq() -> None:
    seconds = [wait // 1000 for wait in waits(ROCKETMQ)]
    assert seconds == [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600]
    assert RetryPolicy(kind="rocketmq", attempts_max=99).next_delay_ms(16, lambda: 0.0) == 7_200_000
    assert len(DELAY_LEVELS_MS) == 18
    assert [level_delay_ms(level) for level in (-1, 0, 1, 3, 18, 99)] == [0, 0, 1_000, 10_000, 7_200_000, 7_200_000]


@pytest.mark.parametrize(
    "wrong", [{"delay_ms": -1}, {"attempts_max": 0}, {"jitter": 1.5}, {"factor": 0.5}, {"kind": "often"}]
)
def test_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, RetryPolicy)
