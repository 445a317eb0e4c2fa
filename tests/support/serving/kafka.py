"""The real program with a Kafka listener, and what Kafka clients need to come back to it quickly."""

from contextlib import AbstractContextManager
from pathlib import Path

from tests.support.serving.lasting_broker import LastingBroker, closing
from tests.support.serving.ports import lasting_address

PATIENCE_S = 30
QUICK_RETURN = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    # Otherwise it forgets its one broker when that is away, and with it now and then a request that was under way.
    "metadata.recovery.strategy": "none",
    "log_level": 2,
}
"""For clients of librdkafka that see their broker end: they come back at once, and do not complain."""
QUICK_GROUPS = ("--set", "kafka.group_initial_delay_ms=0")
"""Groups of tests do not wait for members that never come."""
QUICK_BEATS = ("--set", "kafka.share_group_heartbeat_interval_ms=100")
"""Members of share groups soon know their partitions."""


class Broker(LastingBroker):
    """Serves Kafka alone."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.address = lasting_address()
        super().__init__(data_dir, {"kafka": self.address, "http": "off", "amqp": "off"}, *options)


def serving(data_dir: Path, *options: str) -> AbstractContextManager[Broker]:
    """A broker until the end of the block."""
    return closing(Broker(data_dir, *options))
