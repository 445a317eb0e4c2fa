"""The administration over HTTP, beside pulsar-client."""

import time

import pulsar
import pytest
from pulsar import ConsumerType, InitialPosition, MessageId

from tests.clients.pulsar.admin_client import ask
from tests.support.serving.pulsar import PulsarServer

pytestmark = [pytest.mark.conformance, pytest.mark.system, pytest.mark.slow]

PATIENCE_MS = 30_000


def topic_path(name: str) -> str:
    return f"admin/v2/persistent/public/default/{name}"


def test_tenants_and_namespaces(broker: PulsarServer, client: pulsar.Client, name: str) -> None:
    assert ask(broker, "PUT", f"admin/v2/namespaces/{name}/n") == 404
    assert (
        ask(broker, "PUT", f"admin/v2/tenants/{name}", {"adminRoles": ["a"], "allowedClusters": ["standalone"]}) is None
    )
    assert ask(broker, "PUT", f"admin/v2/tenants/{name}", {}) == 409
    assert ask(broker, "GET", f"admin/v2/tenants/{name}")["adminRoles"] == ["a"]
    assert ask(broker, "PUT", f"admin/v2/namespaces/{name}/n") is None
    assert ask(broker, "PUT", f"admin/v2/namespaces/{name}/n") == 409
    assert ask(broker, "GET", f"admin/v2/namespaces/{name}") == [f"{name}/n"]
    producer = client.create_producer(f"persistent://{name}/n/t")
    producer.send(b"x")
    assert ask(broker, "GET", f"admin/v2/namespaces/{name}/n/topics") == [f"persistent://{name}/n/t"]
    assert ask(broker, "DELETE", f"admin/v2/namespaces/{name}/n") == 409
    producer.close()
    assert ask(broker, "DELETE", f"admin/v2/persistent/{name}/n/t") is None
    assert ask(broker, "DELETE", f"admin/v2/tenants/{name}") == 409
    assert ask(broker, "DELETE", f"admin/v2/namespaces/{name}/n") is None
    assert ask(broker, "DELETE", f"admin/v2/tenants/{name}") is None
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(f"persistent://{name}/n/t")


def test_partitions(broker: PulsarServer, client: pulsar.Client, name: str) -> None:
    path = topic_path(name)
    assert ask(broker, "PUT", f"{path}/partitions", 0) == 412
    assert ask(broker, "PUT", f"{path}/partitions", 3) is None
    assert ask(broker, "PUT", f"{path}/partitions", 3) == 409
    assert ask(broker, "POST", f"{path}/partitions", 4) is None
    assert ask(broker, "GET", f"{path}/partitions")["partitions"] == 4
    assert len(client.get_topic_partitions(name)) == 4
    consumer = client.subscribe(name, "s", consumer_type=ConsumerType.Shared)
    producer = client.create_producer(name)
    for number in range(20):
        producer.send(b"%d" % number)
    found = [consumer.receive(PATIENCE_MS) for _ in range(20)]
    assert {one.data() for one in found} == {b"%d" % number for number in range(20)}
    stats = ask(broker, "GET", f"{path}/partitioned-stats")
    assert (len(stats["partitions"]), stats["subscriptions"]["s"]["msgBacklog"]) == (4, 20)
    assert ask(broker, "DELETE", path) == 412
    assert ask(broker, "DELETE", f"{path}?force=true") is None


def test_subscriptions_and_their_backlog(broker: PulsarServer, client: pulsar.Client, name: str) -> None:
    path = topic_path(name)
    producer = client.create_producer(name)
    assert ask(broker, "PUT", f"{path}/subscription/s", "earliest") is None
    assert ask(broker, "PUT", f"{path}/subscription/s", "earliest") == 409
    for number in range(10):
        producer.send(b"%d" % number)
    assert ask(broker, "GET", f"{path}/subscriptions") == ["s"]
    assert ask(broker, "GET", f"{path}/stats")["subscriptions"]["s"]["msgBacklog"] == 10
    assert ask(broker, "GET", f"{path}/subscription/s/position/3") == 2
    assert ask(broker, "POST", f"{path}/subscription/s/skip/4") is None
    assert ask(broker, "GET", f"{path}/stats")["subscriptions"]["s"]["msgBacklog"] == 6
    last = ask(broker, "GET", f"{path}/lastMessageId")
    assert last["entryId"] == 9
    assert ask(broker, "POST", f"{path}/subscription/s/resetcursor", {**last, "entryId": 1}) is None
    assert ask(broker, "GET", f"{path}/stats")["subscriptions"]["s"]["msgBacklog"] == 9
    assert ask(broker, "POST", f"{path}/subscription/s/resetcursor/0") is None
    consumer = client.subscribe(name, "s")
    assert consumer.receive(PATIENCE_MS).data() == b"0"
    assert ask(broker, "DELETE", f"{path}/subscription/s") == 412
    assert ask(broker, "POST", f"{path}/subscription/none/skip_all") == 404
    consumer.close()
    assert ask(broker, "POST", f"{path}/subscription/s/skip_all") is None
    assert ask(broker, "GET", f"{path}/stats")["subscriptions"]["s"]["msgBacklog"] == 0
    assert ask(broker, "DELETE", f"{path}/subscription/s") is None
    assert ask(broker, "GET", f"{path}/subscriptions") == []


def test_a_topic_that_was_ended(broker: PulsarServer, client: pulsar.Client, name: str) -> None:
    producer = client.create_producer(name)
    producer.send(b"last")
    assert ask(broker, "POST", f"{topic_path(name)}/terminate")["entryId"] == 0
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(name)
    reader = client.create_reader(name, MessageId.earliest)
    assert reader.read_next(PATIENCE_MS).data() == b"last"


def test_a_compacted_view(broker: PulsarServer, client: pulsar.Client, name: str) -> None:
    producer = client.create_producer(name, batching_enabled=True, batching_max_publish_delay_ms=20)
    for number in range(9):
        producer.send_async(b"%d" % number, None, partition_key=f"k{number % 3}")
    producer.flush()
    assert ask(broker, "PUT", f"{topic_path(name)}/compaction") is None
    while ask(broker, "GET", f"{topic_path(name)}/compaction")["status"] != "SUCCESS":
        time.sleep(0.02)
    producer.send(b"later", partition_key="k0")
    reader = client.create_reader(name, MessageId.earliest, is_read_compacted=True)
    assert [reader.read_next(PATIENCE_MS).data() for _ in range(4)] == [b"6", b"7", b"8", b"later"]
    whole = client.create_reader(name, MessageId.earliest)
    assert whole.read_next(PATIENCE_MS).data() == b"0"


def test_deduplication_by_the_name_of_a_producer(broker: PulsarServer, client: pulsar.Client, name: str) -> None:
    path = f"{topic_path(name)}/deduplicationEnabled"
    client.create_producer(name).close()
    assert ask(broker, "POST", path, body=True) is None
    reader = client.create_reader(name, MessageId.earliest)
    for _ in range(2):
        producer = client.create_producer(name, producer_name="p", initial_sequence_id=-1, batching_enabled=False)
        for number in range(1, 6):  # The client takes 0 for none.
            producer.send(b"%d" % number, sequence_id=number)
        assert producer.last_sequence_id() == 5
        producer.close()
    assert [reader.read_next(PATIENCE_MS).data() for _ in range(5)] == [b"%d" % number for number in range(1, 6)]
    assert not reader.has_message_available()


def test_policies_and_what_is_refused(broker: PulsarServer, name: str) -> None:
    base = "admin/v2/namespaces/public/default"
    assert ask(broker, "POST", f"{base}/messageTTL", 60) is None
    assert ask(broker, "GET", f"{base}/messageTTL") == 60
    assert ask(broker, "GET", base)["message_ttl_in_seconds"] == 60
    assert ask(broker, "DELETE", f"{base}/messageTTL") is None
    assert ask(broker, "GET", f"{base}/messageTTL") is None
    assert ask(broker, "POST", f"{base}/messageTTL", "x") == 400
    assert ask(broker, "POST", f"{base}/replication", ["standalone", "other"]) == 412
    assert ask(broker, "POST", f"{base}/persistence", {}) == 501
    assert ask(broker, "GET", "admin/v3/functions/public/default") == 501
    assert ask(broker, "GET", "admin/v2/nothing") == 404
    assert ask(broker, "GET", "admin/v2/clusters") == ["standalone"]
    assert ask(broker, "GET", "admin/v2/brokers/health") == b"ok"


def test_lookup_over_http(broker: PulsarServer, name: str) -> None:
    client = pulsar.Client(f"http://{broker.admin}", logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe(name, "s", initial_position=InitialPosition.Earliest)
    client.create_producer(name).send(b"x")
    assert consumer.receive(PATIENCE_MS).data() == b"x"
    client.close()


def test_a_key_is_for_one_consumer_at_a_time(client: pulsar.Client, name: str) -> None:
    consumers = [client.subscribe(name, "s", consumer_type=ConsumerType.KeyShared) for _ in range(3)]
    producer = client.create_producer(name, batching_enabled=True, batching_max_publish_delay_ms=10)
    for number in range(300):
        producer.send_async(b"%d" % number, None, partition_key=f"k{number % 20}")
    producer.flush()
    owners: dict[str, int] = {}
    found: dict[str, list[int]] = {}
    while sum(map(len, found.values())) < 300:
        for number, consumer in enumerate(consumers):
            try:
                one = consumer.receive(100)
            except pulsar.Timeout:
                continue
            key = one.partition_key()
            assert owners.setdefault(key, number) == number
            found.setdefault(key, []).append(int(one.data()))
            consumer.acknowledge(one)
    assert len(set(owners.values())) > 1
    assert all(numbers == sorted(numbers) for numbers in found.values())
