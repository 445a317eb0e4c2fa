"""The real program, with a Kafka listener on a free port, restarted at will on the same data."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.system.ports import lasting_address
from tests.system.program import Program

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


class Broker:
    """`mainstem serve`. It keeps its port over restarts, as clients expect of a broker."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self._data_dir = data_dir
        self._options = options
        self.address = lasting_address()
        self.start()

    def start(self) -> None:
        listen = ("--listen", f"kafka={self.address}", "--listen", "http=off", "--listen", "amqp=off")
        self.program = Program(self._data_dir, *listen, *self._options)
        self.program.wait_ready()

    def kill(self) -> None:
        """As if the power had gone, for the process."""
        self.program.signal(signal.SIGKILL)
        self.program.process.communicate()

    def stop(self) -> None:
        self.program.signal(signal.SIGTERM)
        status, _, err = self.program.wait_end()
        assert status == 0, err
        assert "Traceback" not in err, err

    def close(self) -> None:
        if self.program.process.poll() is None:
            self.stop()


@contextlib.contextmanager
def serving(data_dir: Path, *options: str) -> Iterator[Broker]:
    broker = Broker(data_dir, *options)
    try:
        yield broker
        broker.close()
    finally:
        if broker.program.process.poll() is None:
            broker.program.process.kill()
            broker.program.process.communicate()


def collect(receive: Callable[[], list[object]], count: int, attempts: int = 120) -> list[object]:
    """Ask until so many have come, or nothing has for so many attempts; each attempt waits for itself."""
    found: list[object] = []
    in_vain = 0
    while in_vain < attempts:
        received = receive()
        in_vain = 0 if received else in_vain + 1
        found += received
        if len(found) >= count:
            return found
    raise AssertionError(f"{len(found)} of {count} came")
