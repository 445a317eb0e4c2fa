"""kafka-python."""

import time
import warnings

from tests.clients.kafka.kafka_python import MARKS
from tests.support.serving.kafka import Broker

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of its own making, when it is imported
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import NewTopic

pytestmark = MARKS


def test_what_is_sent_is_received(broker: Broker) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics([NewTopic("kp", 2, 1, topic_configs={"retention.ms": "-1"})])
    producer = KafkaProducer(bootstrap_servers=broker.address, acks="all", compression_type="gzip", linger_ms=2)
    for i in range(300):
        producer.send("kp", value=b"v%d" % i, key=b"k", headers=[("h", b"x")], partition=i % 2, timestamp_ms=1_000 + i)
    producer.flush(30)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=broker.address, consumer_timeout_ms=10_000)
    places = [TopicPartition("kp", 0), TopicPartition("kp", 1)]
    consumer.assign(places)
    consumer.seek_to_beginning()
    received = []
    for record in consumer:
        received.append(record)
        if len(received) == 300:
            break
    assert sorted(int(r.value[1:]) for r in received) == list(range(300))
    assert all(
        (r.key, list(r.headers), r.timestamp) == (b"k", [("h", b"x")], 1_000 + int(r.value[1:])) for r in received
    )
    assert consumer.end_offsets(places) == dict.fromkeys(places, 150)
    assert consumer.beginning_offsets(places) == dict.fromkeys(places, 0)
    found = consumer.offsets_for_times({places[0]: 1_100})
    assert found[places[0]].offset == 50
    consumer.close()
    assert "kp" in admin.list_topics()
    admin.delete_topics(["kp"])
    assert "kp" not in admin.list_topics()
    admin.close()


def test_producers_of_a_partition(broker: Broker) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics([NewTopic("kp-producers", 1, 1)])
    place = TopicPartition("kp-producers", 0)
    assert admin.describe_producers([place])[place].active_producers == []
    plain = KafkaProducer(bootstrap_servers=broker.address, enable_idempotence=True)
    for _ in range(3):
        plain.send("kp-producers", b"v").get(30)
    bound = KafkaProducer(bootstrap_servers=broker.address, transactional_id="kp-producers")
    bound.init_transactions()
    bound.begin_transaction()
    bound.send("kp-producers", b"t").get(30)
    first, second = admin.describe_producers([place])[place].active_producers
    assert (first.last_sequence, first.current_transaction_start_offset) == (2, -1)
    assert (second.last_sequence, second.current_transaction_start_offset) == (0, 3)
    now_ms = time.time() * 1000
    assert all(now_ms - 60_000 < p.last_timestamp <= now_ms for p in (first, second))
    bound.abort_transaction()
    _, second = admin.describe_producers([place])[place].active_producers
    assert second.current_transaction_start_offset == -1
    for client in (plain, bound, admin):
        client.close()
