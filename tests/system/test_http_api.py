"""The HTTP API of the real program, beside a Kafka client of the same broker."""

import functools
import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.schema_check import mismatches
from tests.support.serving.program import ANY_PORT, PATIENCE_S, Program, running

pytestmark = [pytest.mark.system, pytest.mark.conformance]

EVENTS = "text/event-stream"


class Reply:
    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def json(self) -> Any:
        return json.loads(self.body)


def ask(address: str, method: str, path: str, content: Any = None) -> Reply:
    body = None if content is None else json.dumps(content).encode()
    headers = {} if content is None else {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{address}{path}", body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return Reply(reply.status, reply.headers, reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.headers, error.read())


class Addresses:
    def __init__(self, program: Program) -> None:
        found = program.wait_ready()
        (self.http,) = found["http"]
        (self.kafka,) = found["kafka"]

    @functools.cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.kafka})

    def ask(self, method: str, path: str, content: Any = None) -> Reply:
        return ask(self.http, method, path, content)

    def get(self, path: str) -> Any:
        reply = self.ask("GET", path)
        assert reply.status == 200, reply.body
        return reply.json()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    options = ("--listen", ANY_PORT, "--set", "kafka.group_initial_delay_ms=0")
    with running(tmp_path_factory.mktemp("http") / "data", *options) as program:
        yield Addresses(program)


def produce(broker: Addresses, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0


def test_a_topic_made_over_http_is_seen_by_a_kafka_client(broker: Addresses) -> None:
    content = {"name": "made.here", "partitions": 3, "config": {"retention.ms": 86_400_000}}
    assert broker.ask("POST", "/v1/topics", content).status == 201
    topic = broker.admin.list_topics("made.here", PATIENCE_S).topics["made.here"]
    assert (topic.error, len(topic.partitions)) == (None, 3)
    assert broker.ask("PATCH", "/v1/topics/made.here", {"partitions": 4}).status == 200
    assert len(broker.admin.list_topics("made.here", PATIENCE_S).topics["made.here"].partitions) == 4
    assert broker.ask("DELETE", "/v1/topics/made.here").status == 204
    assert "made.here" not in broker.admin.list_topics(timeout=PATIENCE_S).topics


def test_a_topic_made_by_a_kafka_client_is_seen_over_http(broker: Addresses) -> None:
    wish = NewTopic("made-there", 2, 1, config={"cleanup.policy": "compact"})
    broker.admin.create_topics([wish])["made-there"].result(PATIENCE_S)
    topic = broker.get("/v1/topics/made-there")
    assert topic["partition_count"] == 2
    assert topic["config"]["cleanup.policy"] == {"value": "compact", "source": "topic"}
    assert "made-there" in [entry["name"] for entry in broker.get("/v1/topics")["topics"]]
    again = broker.ask("POST", "/v1/topics", {"name": "made-there"})
    assert (again.status, again.json()["type"]) == (409, "urn:mainstem:problem:topic-exists")


def test_what_a_kafka_client_sends_moves_the_facts(broker: Addresses) -> None:
    assert broker.ask("POST", "/v1/topics", {"name": "facts"}).status == 201
    produce(broker, "facts", "one", "two")
    (partition,) = broker.get("/v1/topics/facts")["partitions"]
    assert (partition["start"], partition["end"], partition["stable"]) == (0, 2, 2)
    assert partition["bytes"] > 0
    position = broker.get("/v1/topics/facts/partitions/0?offset=1")["position"]
    assert position["lag_messages"] == 1
    assert 0 <= position["lag_seconds"] < PATIENCE_S
    metrics = broker.ask("GET", "/metrics").body.decode()
    assert "mainstem_stored_bytes " in metrics
    assert 'mainstem_received_bytes_total{address="' + broker.kafka + '",listener="kafka"}' in metrics
    assert 'mainstem_requests_total{operation="Produce",protocol="kafka"}' in metrics
    assert 'mainstem_request_seconds_count{operation="Metadata",protocol="kafka"}' in metrics


def test_a_group_of_kafka_consumers_shows_its_lag(broker: Addresses) -> None:
    assert broker.ask("POST", "/v1/topics", {"name": "lagging"}).status == 201
    produce(broker, "lagging", *map(str, range(5)))
    consumer = Consumer(
        {"bootstrap.servers": broker.kafka, "group.id": "readers", "enable.auto.commit": False, "client.id": "it"}
    )
    try:
        consumer.commit(offsets=[TopicPartition("lagging", 0, 2)], asynchronous=False)
    finally:
        consumer.close()
    group = broker.get("/v1/groups/readers")
    assert (group["name"], group["lag_messages"]) == ("readers", 3)
    assert 0 < group["lag_seconds"] < PATIENCE_S
    (offset,) = group["offsets"]
    assert (offset["topic"], offset["partition"], offset["offset"], offset["end"]) == ("lagging", 0, 2, 5)
    assert "readers" in [entry["name"] for entry in broker.get("/v1/groups")["groups"]]
    assert (
        'mainstem_group_lag_messages{group="readers",topic="lagging"} 3.0'
        in broker.ask("GET", "/metrics").body.decode()
    )


def test_members_of_a_group_are_shown_with_what_they_work_on(broker: Addresses) -> None:
    assert broker.ask("POST", "/v1/topics", {"name": "shared", "partitions": 2}).status == 201
    produce(broker, "shared", "one")
    consumer = Consumer(
        {
            "bootstrap.servers": broker.kafka,
            "group.id": "workers",
            "client.id": "worker",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe(["shared"])
        assert consumer.poll(PATIENCE_S).value() == b"one"
        group = broker.get("/v1/groups/workers")
        assert (group["state"], group["assigned_by"], group["generation"]) == ("stable", "members", 1)
        (member,) = group["members"]
        assert member["client_id"] == "worker"
        assert member["assigned"] == [{"topic": "shared", "partitions": [0, 1]}]
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    group = broker.get("/v1/groups/workers")
    assert (group["state"], group["members"], group["lag_messages"]) == ("empty", [], 0)


def test_every_path_of_the_document_answers_as_it_says(broker: Addresses) -> None:
    assert broker.ask("POST", "/v1/topics", {"name": "described"}).status == 201
    document = broker.get("/openapi.json")
    for path, methods in document["paths"].items():
        asked = path.replace("{name}", "described").replace("{partition}", "0")
        if EVENTS in methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {}):
            # It goes on for ever: its head is all there is to see.
            with urllib.request.urlopen(f"http://{broker.http}{asked}", timeout=PATIENCE_S) as events:
                assert events.headers["content-type"].partition(";")[0] == EVENTS
            continue
        reply = broker.ask("GET", asked)
        if "get" not in methods:
            assert reply.status == 405, path
            continue
        described = methods["get"]["responses"].get(str(reply.status), {}).get("content", {})
        media_type = reply.headers["content-type"].partition(";")[0]
        assert media_type in described, f"{path} {reply.status}"
        if media_type != "text/plain":
            assert mismatches(reply.json(), described[media_type]["schema"], document) == []


def test_a_browser_led_astray_is_not_answered(broker: Addresses) -> None:
    request = urllib.request.Request(f"http://{broker.http}/v1/topics", headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=PATIENCE_S)
    with refused.value as reply:
        assert reply.code == 421


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_answered_is_there_after_a_restart(tmp_path: Path, end: signal.Signals) -> None:
    with running(tmp_path / "data", "--listen", ANY_PORT) as program:
        broker = Addresses(program)
        broker.ask("POST", "/v1/topics", {"name": "kept", "partitions": 2, "config": {"retention.bytes": 1 << 30}})
        broker.ask("POST", "/v1/topics", {"name": "gone"})
        broker.ask("PATCH", "/v1/topics/kept", {"partitions": 3, "config": {"max.message.bytes": 5_000}})
        assert broker.ask("DELETE", "/v1/topics/gone").status == 204
        before = broker.get("/v1/topics/kept"), broker.get("/v1/node")["cluster_id"]
        program.signal(end)
        program.wait_end()
    with running(tmp_path / "data", "--listen", ANY_PORT) as program:
        broker = Addresses(program)
        assert (broker.get("/v1/topics/kept"), broker.get("/v1/node")["cluster_id"]) == before
        assert broker.ask("GET", "/v1/topics/gone").status == 404
        assert len(broker.admin.list_topics("kept", PATIENCE_S).topics["kept"].partitions) == 3
