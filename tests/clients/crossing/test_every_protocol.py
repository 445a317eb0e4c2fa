"""One topic, one message by the client of each protocol, and each client reads all of them. None of the clients is changed."""

import contextlib
import http.client
import json
import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pika
import pulsar
import pytest
import stomp
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rocketmq import ClientConfiguration, Credentials, FilterExpression, Message, SimpleConsumer
from rocketmq import Producer as RocketmqProducer

from tests.support.serving.lasting_broker import LastingBroker, closing
from tests.support.serving.ports import lasting_address

pytestmark = [pytest.mark.conformance, pytest.mark.system, pytest.mark.slow]

PATIENCE_S = 40
TOPIC = "orders"
LISTENERS = ("kafka", "amqp", "http", "mqtt", "stomp", "pulsar", "rocketmq")


class Broker(LastingBroker):
    """Listens for every protocol."""

    def __init__(self, data_dir: Path) -> None:
        self.addresses = {name: lasting_address() for name in LISTENERS}
        super().__init__(data_dir, self.addresses, "--set", "storage.disk_hard_mark=0.99")

    def port(self, name: str) -> int:
        return int(self.addresses[name].rpartition(":")[2])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with closing(Broker(tmp_path_factory.mktemp("crossing") / "data")) as running:
        yield running


@pytest.fixture(scope="module")
def sent(broker: Broker) -> set[bytes]:
    """What each client publishes to the topic; subscriptions that begin at its end are there before."""
    admin = AdminClient({"bootstrap.servers": broker.addresses["kafka"]})
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(PATIENCE_S)
    with amqp(broker) as connection:
        connection.channel().queue_declare(TOPIC, durable=True)  # It begins at the end of the topic.
    for publish in (by_kafka, by_amqp, by_stomp, by_rocketmq, by_pulsar, by_http):
        publish(broker)
    return {b"kafka", b"amqp", b"stomp", b"rocketmq", b"pulsar", b"http"}


def amqp(broker: Broker) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port("amqp")))


def by_kafka(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.addresses["kafka"]})
    producer.produce(TOPIC, b"kafka", key=b"k")
    assert producer.flush(PATIENCE_S) == 0


def by_amqp(broker: Broker) -> None:
    with amqp(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", TOPIC, b"amqp", pika.BasicProperties(delivery_mode=2))


def by_stomp(broker: Broker) -> None:
    connection = stomp.Connection12([("127.0.0.1", broker.port("stomp"))])
    receipts = Receipts()
    connection.set_listener("", receipts)
    connection.connect(wait=True)
    connection.send(f"/queue/{TOPIC}", "stomp", receipt="1")
    assert receipts.found.get(timeout=PATIENCE_S) == "1"
    connection.disconnect()


class Receipts(stomp.ConnectionListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.found: queue.Queue[str] = queue.Queue()
        self.messages: queue.Queue[bytes] = queue.Queue()

    def on_receipt(self, frame: Any) -> None:
        self.found.put(frame.headers["receipt-id"])

    def on_message(self, frame: Any) -> None:
        self.messages.put(frame.body.encode())


def by_rocketmq(broker: Broker) -> None:
    producer = RocketmqProducer(ClientConfiguration(broker.addresses["rocketmq"], Credentials()), [TOPIC])
    producer.startup()
    message = Message()
    message.topic, message.body = TOPIC, b"rocketmq"
    producer.send(message)
    producer.shutdown()


def by_pulsar(broker: Broker) -> None:
    client = pulsar_client(broker)
    producer = client.create_producer(TOPIC)
    producer.send(b"pulsar")
    client.close()


def by_http(broker: Broker) -> None:
    ask(broker, "POST", f"/v1/topics/{TOPIC}/records", {"records": [{"text": "http"}]})


def ask(broker: Broker, method: str, path: str, content: Any = None) -> Any:
    with contextlib.closing(http.client.HTTPConnection(broker.addresses["http"], timeout=PATIENCE_S)) as connection:
        connection.request(method, path, json.dumps(content), {"content-type": "application/json"})
        answer = connection.getresponse()
        found = json.loads(answer.read())
        assert answer.status in (200, 201), found
        return found


def pulsar_client(broker: Broker) -> pulsar.Client:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    return pulsar.Client(f"pulsar://{broker.addresses['pulsar']}", operation_timeout_seconds=PATIENCE_S, logger=quiet)


def until_all(sent: set[bytes], more: Callable[[], list[bytes]]) -> None:
    found: list[bytes] = []
    until = time.monotonic() + PATIENCE_S
    while set(found) != sent or len(found) < len(sent):
        assert time.monotonic() < until, f"missing {sent - set(found)}"
        found += more()
    assert sorted(found) == sorted(sent), "each once"


def test_kafka_reads_all(broker: Broker, sent: set[bytes]) -> None:
    settings = {"bootstrap.servers": broker.addresses["kafka"], "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([TOPIC])
    until_all(sent, lambda: [message.value() for message in consumer.consume(10, 1) if message.error() is None])
    consumer.close()


def test_pulsar_reads_all(broker: Broker, sent: set[bytes]) -> None:
    client = pulsar_client(broker)
    reader = client.create_reader(f"{TOPIC}-partition-0", pulsar.MessageId.earliest)
    until_all(sent, lambda: [reader.read_next(PATIENCE_S * 1000).data()])
    client.close()


def test_http_reads_all(broker: Broker, sent: set[bytes]) -> None:
    records = ask(broker, "GET", f"/v1/topics/{TOPIC}/records?limit=50")["records"]
    assert sorted(record["text"].encode() for record in records) == sorted(sent)


def test_rocketmq_reads_all(broker: Broker, sent: set[bytes]) -> None:
    configuration = ClientConfiguration(broker.addresses["rocketmq"], Credentials())
    consumer = SimpleConsumer(configuration, "group", {TOPIC: FilterExpression("*")}, await_duration=1)
    consumer.startup()

    def more() -> list[bytes]:
        messages = consumer.receive(16, 15)
        for message in messages:
            consumer.ack(message)
        return [message.body for message in messages]

    until_all(sent, more)
    consumer.shutdown()


def test_queue_consumers_share_all(broker: Broker, sent: set[bytes]) -> None:
    """AMQP and STOMP consumers of the queue of that name: each message goes to one of them."""
    with amqp(broker) as connection:
        channel = connection.channel()
        channel.queue_purge(TOPIC)
        for publish in (by_kafka, by_amqp, by_stomp, by_rocketmq, by_pulsar, by_http):
            publish(broker)
        taken: list[bytes] = []
        until = time.monotonic() + PATIENCE_S
        while len(taken) < 3:
            assert time.monotonic() < until
            method, _, body = channel.basic_get(TOPIC)
            if method is not None:
                channel.basic_ack(method.delivery_tag)
                taken.append(body)
    subscriber = stomp.Connection12([("127.0.0.1", broker.port("stomp"))])
    receipts = Receipts()
    subscriber.set_listener("", receipts)
    subscriber.connect(wait=True)
    subscriber.subscribe(f"/queue/{TOPIC}", id="1", ack="auto")
    rest = [receipts.messages.get(timeout=PATIENCE_S) for _ in range(3)]
    subscriber.disconnect()
    assert sorted(taken + rest) == sorted(sent)


def test_mqtt_crosses_both_ways(broker: Broker) -> None:
    """MQTT's topics are keys of one topic."""
    messages: queue.Queue[tuple[str, bytes]] = queue.Queue()
    ready: queue.Queue[int] = queue.Queue()
    device = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    device.on_message = lambda _c, _u, message: messages.put((message.topic, message.payload))
    device.on_subscribe = lambda _c, _u, mid, _codes, _properties: ready.put(mid)
    device.connect("127.0.0.1", broker.port("mqtt"))
    device.loop_start()
    device.subscribe("fleet/#", qos=1)
    ready.get(timeout=PATIENCE_S)
    device.publish("fleet/7", b"from a device", qos=1).wait_for_publish(PATIENCE_S)
    assert messages.get(timeout=PATIENCE_S) == ("fleet/7", b"from a device")
    producer = Producer({"bootstrap.servers": broker.addresses["kafka"]})
    producer.produce("mqtt", b"to a device", key=b"fleet/7")
    assert producer.flush(PATIENCE_S) == 0
    assert messages.get(timeout=PATIENCE_S) == ("fleet/7", b"to a device")
    device.loop_stop()
    client = pulsar_client(broker)
    names = [f"mqtt-partition-{number}" for number in range(8)]
    readers = [client.create_reader(name, pulsar.MessageId.earliest) for name in names]
    found = {(message.partition_key(), message.data()) for reader in readers for message in read_rest(reader)}
    assert found == {("fleet/7", b"from a device"), ("fleet/7", b"to a device")}
    client.close()


def read_rest(reader: pulsar.Reader) -> Iterator[pulsar.Message]:
    while reader.has_message_available():
        yield reader.read_next(PATIENCE_S * 1000)
