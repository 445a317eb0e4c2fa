"""The real program with Kafka and HTTP: for tests of stages and of Spark."""

from pathlib import Path

from tests.support.serving.lasting_broker import LastingBroker
from tests.support.serving.ports import lasting_address


class Served(LastingBroker):
    """Serves Kafka and HTTP, and further listeners that a test names."""

    def __init__(
        self, data_dir: Path, *options: str, module: str = "mainstem.cli", listeners: dict[str, str] | None = None
    ) -> None:
        self.kafka, self.http = lasting_address(), lasting_address()
        known = {"kafka": self.kafka, "http": self.http, **(listeners or {})}
        super().__init__(data_dir, known, *options, module=module)
