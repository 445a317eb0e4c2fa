"""One client that publishes batch after batch, or reads page after page, over HTTP or Kafka."""

from __future__ import annotations

import json
from typing import Protocol

from mainstem.cli.terminal.broker import Broker, path_of

PAGE_RECORDS_MAX = 1_000


class Load(Protocol):
    """One client."""

    def work(self) -> int:
        """One request, until it is answered: what was published is durable. Answers how many records it was about."""

    def close(self) -> None:
        """Leave the broker."""


class HttpLoad:
    """Publishes JSON, or reads the newest records."""

    def __init__(self, broker: Broker, topic: str, batch: int, size: int, *, reads: bool) -> None:
        path = path_of("v1", "topics", topic, "records")
        self._broker = broker
        self._records = min(batch, PAGE_RECORDS_MAX) if reads else batch
        body = json.dumps({"records": [{"text": "v" * size} for _ in range(batch)]}).encode()
        self._request: tuple[str, str, bytes | None, dict[str, str]] = (
            ("GET", f"{path}?newest={self._records}", None, {})
            if reads
            else ("POST", path, body, {"content-type": "application/json"})
        )

    def work(self) -> int:
        """One request."""
        self._broker.try_send(*self._request)
        return self._records

    def close(self) -> None:
        """Leave the broker."""
        self._broker.close()


class KafkaLoad:
    """Sends one batch to one partition and waits until it is durable; or fetches, and begins again at the end."""

    def __init__(self, address: str, topic: str, partition: int, batch: int, size: int, *, reads: bool) -> None:
        # Late: this module is loaded for `--help`, too.
        from mainstem.sdk import operations
        from mainstem.sdk.client import Client
        from mainstem.sdk.values import encode_values

        self._operations = operations
        self._client = Client(address, client_id="mainstem-bench")
        self._at = operations.TopicPartition(topic, partition)
        self._batch = encode_values([b"v" * size] * batch)
        self._records = batch
        self._reads = reads
        self._offset = 0

    def work(self) -> int:
        """One request."""
        from mainstem.sdk.values import end_of

        connection = self._client.leader(self._at)
        if not self._reads:
            self._operations.produce(connection, self._at, self._batch)
            return self._records
        before = self._offset
        fetched = self._operations.fetch(connection, self._at, before)
        following = end_of(fetched.batches)
        self._offset = following if following < fetched.last_stable else fetched.start
        return max(0, following - before)

    def close(self) -> None:
        """Leave the broker."""
        self._client.close()
