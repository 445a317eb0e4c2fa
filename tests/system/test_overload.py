"""A short overload: more than the broker can take costs nobody anything that was taken, and freezes nobody.

`make bench ARGS=overload` is the long one, with the bounds on times. Here other tests run beside, so only loss and memory count.
"""

from pathlib import Path

import pytest

from benchmarks.overload import amqp_load, kafka_load
from benchmarks.overload.broker import serving

RESIDENT_MB_MAX = 1_024
LOG_LINES_MAX = 20
DRAIN_SECONDS_MAX = 15.0
"""`limits.drain_timeout_ms` and the end of the process."""


@pytest.mark.parametrize(("queues", "publishers", "messages"), [(10, 4, 20_000), (200, 8, 10_000), (1_500, 20, 3_000)])
def test_publishers_without_confirms_to_many_queues(
    tmp_path: Path, queues: int, publishers: int, messages: int
) -> None:
    with serving(tmp_path) as broker:
        outcome = amqp_load.flood(broker, queues=queues, publishers=publishers, messages=messages, size=100)
        assert outcome.stored == outcome.sent
        assert broker.resident_mb_max < RESIDENT_MB_MAX
        assert broker.log_lines() < LOG_LINES_MAX
        assert broker.end() < DRAIN_SECONDS_MAX


@pytest.mark.parametrize(("size", "messages", "acks"), [(10_000, 5_000, 0), (1_000_000, 120, 0), (1_000_000, 120, -1)])
def test_producers_faster_than_the_disk(tmp_path: Path, size: int, messages: int, acks: int) -> None:
    with serving(tmp_path) as broker:
        outcome = kafka_load.flood(broker, producers=10, messages=messages, size=size, acks=acks)
        assert outcome.stored == outcome.sent
        assert broker.resident_mb_max < RESIDENT_MB_MAX
        assert broker.log_lines() < LOG_LINES_MAX
        assert broker.end() < DRAIN_SECONDS_MAX
