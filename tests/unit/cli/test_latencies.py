"""Percentiles of latencies, in constant memory."""

from hypothesis import given
from hypothesis import strategies as st

from mainstem.cli.load.latencies import Latencies


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=200), st.sampled_from([50, 90, 99, 99.9]))
def test_a_percentile_is_within_two_percent(seconds: list[float], percent: float) -> None:
    halves = Latencies(), Latencies()
    for number, one in enumerate(seconds):
        halves[number % 2].add(one)
    halves[0].merge(halves[1])
    found = halves[0].percentile(percent)
    line = sorted(seconds)
    exact = next(one for number, one in enumerate(line, 1) if number >= len(line) * percent / 100)
    assert found is not None
    assert abs(found / exact - 1) < 0.02


def test_nothing_has_no_percentile() -> None:
    assert Latencies().percentile(50) is None
