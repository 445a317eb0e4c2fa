"""Writing to stages and publishing them: see `model.staging` for how they are named, and docs/protocols/http.md.

A stage is written by Produce, several requests on their way at a time. When the broker goes away, whatever it has not
acknowledged is sent again, as long as the timeout allows: each batch says at which position it begins, so what had arrived is
not stored twice. Publishing is asked for again in the same way; a batch that is published already is not published twice.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mainstem.model.staging import SinkKey, StageKey
from mainstem.sdk.acquisitions import SettlementEntry
from mainstem.sdk.client import RETRY_PAUSE_S, Client
from mainstem.sdk.configs import broker_config, topic_configs
from mainstem.sdk.connection import BrokerConnection
from mainstem.sdk.errors import BrokerRefused, BrokerUnreachable, ClientError, ConnectionLost, UnknownTopic
from mainstem.sdk.http_api import ApiRefused, insist
from mainstem.sdk.operations import ALL_IN_SYNC, PRODUCE_TIMEOUT_MS
from mainstem.wire.kafka import ApiKey, ErrorCode

REQUESTS_MAX = 4
"""On their way at a time."""
HTTP_ADDRESS = "mainstem.http.address"
BATCH_BYTES = "max.message.bytes"


class StageRefused(ClientError):
    """The broker refuses a commit for good: `problem` is its stable name."""

    def __init__(self, problem: str, detail: str) -> None:
        super().__init__(f"The broker did not publish the batch: {detail}.")
        self.problem = problem
        self.detail = detail


class StageUnavailable(ClientError):
    """The broker cannot do it now."""

    is_retriable = True


class StagedBatch(NamedTuple):
    """One record batch, and where it is to go."""

    topic: str
    partition: int
    batch: bytearray | memoryview
    is_later: bool = False
    """Its records say when they are due, and are published then."""


class StageEnd(NamedTuple):
    """The attempt of a task that counts, and where its stage ends."""

    task: int
    attempt: str
    end: int


class StageWriter:
    """One stage, written from one thread. The client is its own: answers are awaited later. All is there after `flush`."""

    def __init__(self, client: Client, key: StageKey, *, timeout_s: float) -> None:
        self._client = client
        self._key = key
        self._timeout_s = timeout_s
        self._names: dict[tuple[str, bool], str] = {}
        self._connection: BrokerConnection | None = None
        self._unanswered: deque[Sequence[StagedBatch]] = deque()

    def write(self, batches: Sequence[StagedBatch]) -> None:
        """Send batches, in the order of their positions; of one partition at most one. Waits only when much is on its way."""
        while len(self._unanswered) >= REQUESTS_MAX:
            self._receive()
        self._unanswered.append(batches)
        try:
            if self._connection is None:
                self._send_again()
            else:
                self._send(batches)
        except (BrokerUnreachable, ConnectionLost) as error:
            self._recover(error)

    def flush(self) -> None:
        """Wait until all of it is acknowledged."""
        while self._unanswered:
            self._receive()

    def _receive(self) -> None:
        try:
            assert self._connection is not None
            answer = self._connection.receive()
            self._check(answer)
        except (BrokerUnreachable, ConnectionLost, StageUnavailable) as error:
            self._recover(error)
        else:
            self._unanswered.popleft()

    def _recover(self, error: ClientError) -> None:
        """Connect anew, and send again what was not acknowledged, until the time is over."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            if time.monotonic() >= deadline:
                raise error
            time.sleep(RETRY_PAUSE_S)
            try:
                self._send_again()
                return
            except (BrokerUnreachable, ConnectionLost) as failure:
                error = failure

    def _send_again(self) -> None:
        self._connection = self._client.anywhere()
        for batches in self._unanswered:
            self._send(batches)

    def _send(self, batches: Sequence[StagedBatch]) -> None:
        assert self._connection is not None
        data: list[dict[str, Any]] = []
        for topic, partition, batch, is_later in batches:
            name = self._names.get((topic, is_later))
            if name is None:
                name = self._names[topic, is_later] = self._key.topic_name(topic, is_later=is_later)
            if not data or data[-1]["name"] != name:
                data.append({"name": name, "partition_data": []})
            data[-1]["partition_data"].append({"index": partition, "records": batch})
        body = {"transactional_id": None, "acks": ALL_IN_SYNC, "timeout_ms": PRODUCE_TIMEOUT_MS, "topic_data": data}
        self._connection.send(ApiKey.PRODUCE, body)

    def _check(self, answer: Any) -> None:
        refused = [part for topic in answer.responses for part in topic.partition_responses if part.error_code]
        if not refused:
            return
        # What follows a batch that was refused for the moment is out of order; so it is the first that tells.
        first = refused[0]
        if first.error_code == ErrorCode.NOT_ENOUGH_REPLICAS:
            raise StageUnavailable(first.error_message or "The broker has too much to do; run again later.")
        topic = next(batch.topic for batch in self._unanswered[0] if batch.partition == first.index)
        if first.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(topic, first.index)
        raise BrokerRefused(f"Writing to {topic}-{first.index}", first.error_code, first.error_message)


def batch_bytes_max(client: Client, topic: str) -> int:
    """The largest record batch that a topic takes."""
    return int(topic_configs(client, [topic], [BATCH_BYTES])[topic][BATCH_BYTES])


def http_address(client: Client) -> str:
    """Where the broker that is reached by Kafka serves HTTP: HOST:PORT."""
    address = broker_config(client, HTTP_ADDRESS)
    if not address:
        raise ClientError(
            "The broker serves no HTTP, by which writes are committed: start it with --listen http=HOST:PORT."
        )
    return address


def commit_stages(
    address: str,
    sink: SinkKey,
    batch: int,
    ends: Iterable[StageEnd],
    *,
    lasting: bool,
    timeout_s: float,
    settles: bool = False,
    verdicts: Iterable[SettlementEntry] = (),
) -> bool:
    """Publish a batch, once. Answers whether it was this call, or one before it. Raises StageRefused.

    If it settles, what the batch has acquired is accepted with it, but for the verdicts.
    """
    stages = [{"task": task, "attempt": attempt, "end": end} for task, attempt, end in ends]
    content: dict[str, Any] = {"query": sink.query, "sink": sink.sink, "batch": batch, "stages": stages}
    content["lasting"] = lasting
    if settles:
        content |= {"settles": True, "verdicts": [verdict._asdict() for verdict in verdicts]}
    return bool(_ask(address, "/v1/stages/commit", content, timeout_s)["published"])


def abort_stages(address: str, sink: SinkKey, batch: int, *, is_final: bool, timeout_s: float) -> None:
    """Drop whatever is staged of a batch; finally, if it is the only one of its query."""
    content = {"query": sink.query, "sink": sink.sink, "batch": batch, "final": is_final}
    _ask(address, "/v1/stages/abort", content, timeout_s)


def _ask(address: str, path: str, content: Mapping[str, Any], timeout_s: float) -> Any:
    try:
        return insist(address, path, content, timeout_s=timeout_s)
    except ApiRefused as refusal:
        if refusal.is_retriable:
            raise StageUnavailable(f"The broker at {address} cannot do it now: {refusal.detail}.") from None
        raise StageRefused(refusal.problem, refusal.detail) from None
