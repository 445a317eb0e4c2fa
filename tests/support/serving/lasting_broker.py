"""The real program, restarted at will on the same data and ports."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from tests.support.serving.program import Program

ROOT = Path(__file__).parents[3]


class LastingBroker:
    """`mainstem serve`. It keeps its ports over restarts, as clients expect of a broker."""

    def __init__(self, data_dir: Path, listeners: dict[str, str], *options: str, module: str = "mainstem.cli") -> None:
        self._data_dir = data_dir
        self._options = [part for name, address in listeners.items() for part in ("--listen", f"{name}={address}")]
        self._options += options
        self._module = module
        self.start()

    def start(self) -> None:
        environment = {"PYTHONPATH": str(ROOT)}  # the module may be one of the tests
        self.program = Program(self._data_dir, *self._options, environment=environment, module=self._module)
        self.program.wait_ready()

    def kill(self) -> None:
        """End the process as a power cut would."""
        self.program.signal(signal.SIGKILL)
        self.program.process.communicate()

    def restart(self) -> None:
        self.kill()
        self.start()

    def stop(self) -> None:
        self.program.signal(signal.SIGTERM)
        status, _, err = self.program.wait_end()
        assert status == 0, err
        assert "Traceback" not in err, err

    def close(self) -> None:
        """Stop the broker if it runs."""
        if self.program.process.poll() is None:
            self.stop()


AnyBroker = TypeVar("AnyBroker", bound=LastingBroker)


@contextlib.contextmanager
def closing(broker: AnyBroker) -> Iterator[AnyBroker]:
    """Stop the broker at the end; kill it if the test fails before that."""
    try:
        yield broker
        broker.close()
    finally:
        if broker.program.process.poll() is None:
            broker.kill()
