"""A broker with all that statements ask for."""

import base64
import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.clients.confluent import send_records
from tests.support.serving.program import Program

PATIENCE_S = 120


class Everything:
    """A broker with Kafka, AMQP and HTTP."""

    def __init__(self, data_dir: Path) -> None:
        self.program = Program(data_dir, "--listen", "http=127.0.0.1:0")
        ready = self.program.wait_ready()
        self.address, self.amqp, self.http = (ready[name][0] for name in ("kafka", "amqp", "http"))
        self.management = ready["management"][0]

    def post(self, path: str, content: dict[str, Any], method: str = "POST") -> None:
        asked = urllib.request.Request(
            f"http://{self.http}{path}",
            json.dumps(content).encode(),
            {"content-type": "application/json"},
            method=method,
        )
        urllib.request.urlopen(asked, timeout=30).close()

    def create_host(self, name: str) -> None:
        asked = urllib.request.Request(f"http://{self.management}/api/vhosts/{name}", b"{}", method="PUT")
        asked.add_header("content-type", "application/json")
        asked.add_header("authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        urllib.request.urlopen(asked, timeout=30).close()

    def create(self, name: str, partitions: int = 1, **config: Any) -> None:
        said = {key.replace("_", "."): value for key, value in config.items()}
        self.post("/v1/topics", {"name": name, "partitions": partitions, "config": said})

    def send(self, topic: str, *values: str | bytes, key: bytes | None = None) -> None:
        encoded = [value.encode() if isinstance(value, str) else value for value in values]
        send_records(self, topic, [(key, value, None) for value in encoded])

    def kill(self) -> None:
        self.program.process.kill()
        self.program.process.communicate()


def command(broker: Everything, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "mainstem.cli", "sql", "--address", broker.address, *arguments]
