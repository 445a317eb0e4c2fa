"""The real program, with a Kafka listener on a free port, restarted at will on the same data."""

import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.system.program import Program

PATIENCE_S = 30


class Broker:
    """`mainstem serve`. It keeps its port over restarts, as clients expect of a broker."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self._data_dir = data_dir
        self._options = options
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.start()

    def start(self) -> None:
        listen = ("--listen", f"kafka={self.address}", "--listen", "http=off")
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
    """Ask until so many have come; each attempt waits for itself."""
    found: list[object] = []
    for _ in range(attempts):
        found += receive()
        if len(found) >= count:
            return found
    raise AssertionError(f"{len(found)} of {count} came")
