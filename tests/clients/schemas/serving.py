"""A broker with a schema registry, and what tests ask of it."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.serving.ports import lasting_address
from tests.support.serving.served import Served

PATIENCE_S = 30


class RegistryBroker(Served):
    """`mainstem serve` with Kafka, HTTP and the registry's own listener."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.registry = lasting_address()
        super().__init__(data_dir, *options, listeners={"schema-registry": self.registry})

    @property
    def address(self) -> str:
        """Of its Kafka listener."""
        return self.kafka

    @property
    def urls(self) -> list[str]:
        """Both places where the registry is."""
        return [f"http://{self.registry}", f"http://{self.http}/registry"]

    def ask(self, method: str, path: str, content: Any = None) -> "Reply":
        return ask(self.urls[0], method, path, content)


class Reply(NamedTuple):
    status: int
    content: Any


def ask(url: str, method: str, path: str, content: Any = None) -> Reply:
    body = None if content is None else json.dumps(content).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    request = urllib.request.Request(url + path, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return Reply(reply.status, json.load(reply))
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, json.load(error))
