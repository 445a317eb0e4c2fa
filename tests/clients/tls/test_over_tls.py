"""Unmodified clients over TLS against the real program: clear text and TLS beside each other, certificates of clients."""

import asyncio
import json
import signal
import ssl
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pika
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka.admin import AdminClient

from tests.support.serving import certificates
from tests.support.serving.program import Program, running

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in an old way
    import kafka

PATIENCE_S = 30
PASSWORD = "secret, with = and ü"


class Served(NamedTuple):
    """A broker with every listener of this file, and the files of its clients."""

    program: Program
    addresses: dict[str, list[str]]
    directory: Path

    def of(self, listener: str) -> str:
        return self.addresses[listener][0]

    @property
    def ca(self) -> str:
        return str(self.directory / "ca.crt")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("tls")
    password = directory / "password"
    password.write_text(PASSWORD)
    password.chmod(0o600)
    listeners = [f"{name}+tls=127.0.0.1:0" for name in ("kafka", "amqp", "http", "management")]
    options = [word for one in (*listeners, "http=127.0.0.1:0") for word in ("--listen", one)]
    options += certificates.write(directory)
    options += [
        "--set",
        "tls.client_certificates=optional",
        "--set",
        "tls.client_certificates_by_listener=http+tls=required",
    ]
    options += ["--set", "amqp.user=ana", "--set", f"amqp.password_file={password}"]
    with running(directory / "data", *options) as program:
        yield Served(program, program.wait_ready(), directory)


def test_ready_names_each_listener(served: Served) -> None:
    assert {"kafka", "kafka+tls", "amqp+tls", "http+tls", "http"} <= set(served.addresses)


def librdkafka(served: Served, **settings: object) -> dict[str, Any]:
    return {
        "bootstrap.servers": served.of("kafka+tls"),
        "security.protocol": "SSL",
        "ssl.ca.location": served.ca,
        **settings,
    }


def test_librdkafka_writes_and_reads_and_is_told_the_port_of_tls(served: Served) -> None:
    told = AdminClient(librdkafka(served)).list_topics(timeout=PATIENCE_S).brokers[1]
    assert f"{told.host}:{told.port}" == served.of("kafka+tls")
    plain = AdminClient({"bootstrap.servers": served.of("kafka")}).list_topics(timeout=PATIENCE_S).brokers[1]
    assert f"{plain.host}:{plain.port}" == served.of("kafka")
    producer = confluent_kafka.Producer(librdkafka(served, **{"linger.ms": 5}))
    values = [b"%d " % number + b"x" * 3000 for number in range(2000)]
    for value in values:
        producer.produce("over-tls", value)
    assert producer.flush(PATIENCE_S) == 0
    consumer = confluent_kafka.Consumer(librdkafka(served, **{"group.id": "g", "auto.offset.reset": "earliest"}))
    consumer.subscribe(["over-tls"])
    found = []
    while len(found) < len(values):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        found.append(message.value())
    assert sorted(found) == sorted(values)
    consumer.close()


def test_librdkafka_does_not_trust_a_stranger(served: Served) -> None:
    (served.directory / "other.crt").write_bytes(certificates.other_authority().certificate_pem())
    settings = librdkafka(served, **{"log_level": 0}) | {"ssl.ca.location": str(served.directory / "other.crt")}
    with pytest.raises(confluent_kafka.KafkaException):
        AdminClient(settings).list_topics(timeout=3)


def test_kafka_python(served: Served) -> None:
    settings = {
        "bootstrap_servers": served.of("kafka+tls"),
        "security_protocol": "SSL",
        "ssl_cafile": served.ca,
    }
    producer = kafka.KafkaProducer(**settings)
    producer.send("by-kafka-python", b"hello").get(PATIENCE_S)
    producer.close()
    consumer = kafka.KafkaConsumer("by-kafka-python", auto_offset_reset="earliest", group_id=None, **settings)
    assert next(iter(consumer)).value == b"hello"
    consumer.close()


def test_aiokafka_with_a_certificate(served: Served) -> None:
    certificate, key = certificates.client("ana").write(served.directory, "aio")

    async def produce() -> None:
        context = create_ssl_context(cafile=served.ca, certfile=str(certificate), keyfile=str(key))
        producer = AIOKafkaProducer(
            bootstrap_servers=served.of("kafka+tls"), security_protocol="SSL", ssl_context=context
        )
        await producer.start()
        try:
            await producer.send_and_wait("by-aiokafka", b"hello")
        finally:
            await producer.stop()

    asyncio.run(produce())


def test_pika_with_a_password(served: Served) -> None:
    host, _, port = served.of("amqp+tls").rpartition(":")
    parameters = pika.ConnectionParameters(
        host,
        int(port),
        credentials=pika.PlainCredentials("ana", PASSWORD),
        ssl_options=pika.SSLOptions(certificates.client_context(served.directory), "localhost"),
    )
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("by-pika")
        channel.confirm_delivery()
        body = b"y" * (3 << 20)
        channel.basic_publish("", "by-pika", body)
        assert channel.basic_get("by-pika", auto_ack=True)[2] == body
        shown = {one["protocol"]: one["encrypted"] for one in listed(served)}
        assert (shown["amqp"], shown["http"]) == (True, False)


def listed(served: Served) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"http://{served.of('http')}/v1/connections", timeout=PATIENCE_S) as reply:
        return json.load(reply)["connections"]


def test_http_asks_for_a_certificate_where_it_is_required(served: Served) -> None:
    address = f"https://localhost:{served.of('http+tls').rpartition(':')[2]}/v1/node"
    context = certificates.client_context(served.directory, certificates.client("ana"))
    with urllib.request.urlopen(address, timeout=PATIENCE_S, context=context) as reply:
        node = json.load(reply)
    assert {"name": "http+tls", "address": served.of("http+tls")}.items() <= next(
        one for one in node["listeners"] if one["name"] == "http+tls"
    ).items()
    with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
        urllib.request.urlopen(
            address, timeout=PATIENCE_S, context=certificates.client_context(served.directory)
        ).read()


def test_it_drains_over_tls(tmp_path: Path) -> None:
    options = ["--listen", "kafka+tls=127.0.0.1:0", "--listen", "http=off", *certificates.write(tmp_path)]
    with running(tmp_path / "data", *options) as program:
        served = Served(program, program.wait_ready(), tmp_path)
        producer = confluent_kafka.Producer(librdkafka(served, **{"log_level": 0}))
        done: list[object] = []
        producer.produce("drained", b"x", on_delivery=lambda error, _: done.append(error))
        assert producer.flush(PATIENCE_S) == 0
        assert done == [None]
        program.signal(signal.SIGTERM)
        status, _, err = program.wait_end()
        assert status == 0, err
        assert "Traceback" not in err
        assert "cut" not in err


def test_a_signal_has_certificates_read_again(tmp_path: Path) -> None:
    options = ["--listen", "http+tls=127.0.0.1:0", *certificates.write(tmp_path)]
    with running(tmp_path / "data", *options) as program:
        address = program.wait_ready()["http+tls"][0]
        host, _, port = address.rpartition(":")
        before = ssl.get_server_certificate((host, int(port)))
        certificates.server("next").write(tmp_path, "server")
        program.signal(signal.SIGHUP)
        while ssl.get_server_certificate((host, int(port))) == before:
            assert program.process.poll() is None
