"""A Kafka session with its real handlers, over a broker that always answers the same."""

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from mainstem.broker.broker import Broker
from mainstem.broker.catalog.topics import Topic
from mainstem.broker.clients.quotas import CLIENT, CONSUMED_BYTES, PRODUCED_BYTES, ClientQuotas, entity_of
from mainstem.broker.errors import UnknownProducer, UnknownStage
from mainstem.broker.heavy_work import HeavyWork
from mainstem.broker.intake import Intake
from mainstem.broker.log import Answer, Commit, CommitResult, Committed, LogEnd, ReadResult
from mainstem.coordination.catalog.catalog import TopicEntry
from mainstem.protocols.kafka.handlers.calls import Served
from mainstem.protocols.kafka.handlers.cluster.cluster import ClusterHandlers
from mainstem.protocols.kafka.handlers.records.fetch import FetchHandler
from mainstem.protocols.kafka.handlers.records.produce import ProduceHandler
from mainstem.protocols.kafka.handlers.requests import Requests
from mainstem.protocols.kafka.handlers.throttles import Throttles
from mainstem.protocols.kafka.mapping import Endpoint
from mainstem.protocols.kafka.session.machine import KafkaSession
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.server.request_meters import RequestMeters
from mainstem.storage.contract import Engine
from mainstem.transport.session import Wake
from mainstem.wire.kafka import ApiKey, encode_request
from mainstem.wire.record_batch import Record, encode_batch

SETTINGS = KafkaSettings(request_bytes_max=2_000, requests_in_flight_max=3)
BATCH = bytes(encode_batch([Record(0, 1, b"k", b"v"), Record(1, 2, None, b"w", (("h", b"x"),))]))
TOPIC = Topic(TopicEntry("default", "t", uuid.UUID(int=7).bytes, (11, 12), {}))


class StubWatch:
    def add(self, log: int) -> LogEnd:
        return LogEnd(2, 2)

    def remove(self, log: int) -> None: ...

    def close(self) -> None: ...


class StubTopics:
    by_id: Mapping[uuid.UUID, Topic] = {TOPIC.id: TOPIC}

    def named(self) -> Mapping[str, Topic]:
        return {"t": TOPIC}


class StubTransactions:
    """There are none."""

    def commit_for(self, name: str, *_: object, **options: object) -> Commit:
        raise UnknownProducer(name)


class StubTimer:
    def cancel(self) -> None: ...


class StubClock:
    """Time passes when the broker is settled, and then much of it: a fetch that waits is ended, limits are forgotten."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.seconds = 0.0

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self.seconds

    def call_later(self, seconds: float, function: Callable[[], None]) -> StubTimer:
        self.due.append(function)
        return StubTimer()


class StubEngine:
    """Stores nothing."""

    async def alter(self, *_: object) -> None: ...

    def is_above(self, pending_bytes: int) -> bool:
        return False


class StubStages:
    def destination(self, name: str) -> object:
        raise UnknownStage(name)


class StubBroker:
    """Knows one topic, stores nothing, and answers at once."""

    def __init__(self) -> None:
        self.topics = StubTopics()
        self.transactions = StubTransactions()
        self.stages = StubStages()
        self.heavy_work = HeavyWork()
        self.clock = StubClock()
        self.cluster_id = "cluster"
        self.node, self.term = 1, 0
        self.intake = Intake(cast(Engine, StubEngine()))
        self.client_quotas = ClientQuotas(cast(Engine, StubEngine()))

    def publish(self, commits: Sequence[Commit]) -> Answer[list[CommitResult]]:
        return Answer.of([Committed((5,)) for _ in commits])

    def read(self, log: int, offset: int, max_bytes: int, *_: object) -> Answer[ReadResult]:
        batches = [BATCH] if offset < 2 else []
        return Answer.of(ReadResult(batches, 0, 2, 2, 2))

    def watch(self, callback: object) -> StubWatch:
        return StubWatch()

    def settle(self) -> None:
        due, self.clock.due = self.clock.due, []
        self.clock.seconds += 1_000
        for function in due:
            function()


class LateBroker(StubBroker):
    """The same, answering when settled."""

    def __init__(self) -> None:
        super().__init__()
        self._owed: list[tuple[Answer[Any], Any]] = []

    def publish(self, commits: Sequence[Commit]) -> Answer[list[CommitResult]]:
        answer: Answer[list[CommitResult]] = Answer()
        self._owed.append((answer, super().publish(commits).result()))
        return answer

    def read(self, log: int, offset: int, max_bytes: int, *_: object) -> Answer[ReadResult]:
        answer: Answer[ReadResult] = Answer()
        self._owed.append((answer, super().read(log, offset, max_bytes).result()))
        return answer

    def settle(self) -> None:
        owed, self._owed = self._owed, []
        for answer, value in owed:
            answer.resolve(value)
        super().settle()


class ThrottlingBroker(StubBroker):
    """The same, for clients that are over their limits with every request."""

    def __init__(self) -> None:
        super().__init__()
        everybody = entity_of([(CLIENT, None)])
        asyncio.run(self.client_quotas.alter({everybody: {PRODUCED_BYTES: 1.0, CONSUMED_BYTES: 1.0}}))


def opener(stub: StubBroker) -> Callable[[Wake], KafkaSession]:
    broker = cast(Broker, stub)
    cluster = ClusterHandlers(
        broker, SETTINGS, lambda _: Endpoint("localhost", 9092), lambda _: {1: Endpoint("localhost", 9092)}
    )
    sync = (ApiKey.API_VERSIONS, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    served: dict[int, Served] = {key: cluster.apis()[key] for key in sync}
    cluster.announce(served)

    meters = RequestMeters()

    def open_session(wake: Wake) -> KafkaSession:
        # What a client has used up is its own, in each conversation.
        requests = Requests(
            ProduceHandler(broker),
            FetchHandler(broker, SETTINGS),
            served,
            spawn=lambda work: work.close(),
            throttles=Throttles(broker),
            meter=lambda operation, untimed: meters.meter("kafka", operation, untimed),
        )
        return KafkaSession(wake, SETTINGS, requests.handle)

    return open_session


def framed(key: int, version: int, body: dict[str, Any], correlation_id: int) -> bytes:
    request = encode_request(key, version, body, correlation_id=correlation_id, client_id="test")
    return len(request).to_bytes(4, "big") + bytes(request)


def produce(version: int, acks: int, topic: str = "t") -> dict[str, Any]:
    partitions = [{"index": 0, "records": BATCH}, {"index": 1, "records": BATCH}, {"index": 2, "records": BATCH}]
    data = {"name": topic, "topic_id": TOPIC.id, "partition_data": partitions}
    return {"acks": acks, "timeout_ms": 1, "topic_data": [data]}


def fetch(max_wait_ms: int, *offsets: int) -> dict[str, Any]:
    partitions = [
        {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1000}
        for index, offset in enumerate(offsets)
    ]
    topics = [{"topic": "t", "topic_id": TOPIC.id, "partitions": partitions}]
    return {"max_wait_ms": max_wait_ms, "min_bytes": 1, "max_bytes": 1000, "topics": topics}


CONVERSATION = b"".join(
    (
        framed(ApiKey.API_VERSIONS, 3, {"client_software_name": "x", "client_software_version": "1"}, 1),
        framed(ApiKey.PRODUCE, 3, produce(3, acks=1), 2),
        framed(ApiKey.PRODUCE, 8, produce(8, acks=-1, topic="unknown"), 3),
        framed(ApiKey.PRODUCE, 5, produce(5, acks=0, topic="t") | {"topic_data": []}, 4),
        framed(ApiKey.PRODUCE, 13, produce(13, acks=1), 5),
        framed(ApiKey.FETCH, 4, fetch(0, 0, 2), 6),
        framed(ApiKey.FETCH, 18, fetch(500, 2), 7),
        framed(ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": ["g"]}, 8),
        framed(ApiKey.PRODUCE, 9, produce(9, acks=1), 9),
        framed(ApiKey.DESCRIBE_CLUSTER, 0, {}, 10),
    )
)
OVERSIZE = (
    (2_001).to_bytes(4, "big"),
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    (7).to_bytes(4, "big"),
    b"GET / HTTP/1.1\r\n",
)
