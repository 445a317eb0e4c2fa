"""Who a client's certificate names is who it is: Kafka without SASL, AMQP by EXTERNAL."""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pika
import pytest
from pika.exceptions import AMQPError

from tests.support.serving import certificates
from tests.support.serving.program import running

PATIENCE_S = 30
LISTENERS = ("kafka+tls", "amqp+tls", "management", "http")


class Served:
    def __init__(self, addresses: dict[str, list[str]], directory: Path) -> None:
        self.addresses = addresses
        self.directory = directory

    def of(self, listener: str) -> str:
        return self.addresses[listener][0]

    def ask(self, method: str, address: str, content: Any = None) -> Any:
        body = None if content is None else json.dumps(content).encode()
        proof = base64.b64encode(b"guest:guest").decode()
        headers = {"authorization": f"Basic {proof}", "content-type": "application/json"}
        request = urllib.request.Request(f"http://{address}", body, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            text = reply.read()
        return json.loads(text) if text.strip() else None

    def connect(self, name: str | None, credentials: Any) -> pika.BlockingConnection:
        identity = None if name is None else certificates.client(name)
        host, _, port = self.of("amqp+tls").rpartition(":")
        context = certificates.client_context(self.directory, identity)
        options = pika.SSLOptions(context, "localhost")
        return pika.BlockingConnection(
            pika.ConnectionParameters(host, int(port), credentials=credentials, ssl_options=options)
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("certificates")
    options = [word for name in LISTENERS for word in ("--listen", f"{name}=127.0.0.1:0")]
    options += certificates.write(directory)
    options += ["--set", "tls.client_certificates=optional", "--set", "tls.user_from=common_name"]
    with running(directory / "data", *options) as program:
        found = Served(program.wait_ready(), directory)
        management = found.of("management")
        found.ask("PUT", f"{management}/api/users/ana", {"tags": ""})
        allowed = {"configure": "^ana", "write": ".*", "read": ".*"}
        found.ask("PUT", f"{management}/api/permissions/%2F/ana", allowed)
        yield found


def test_amqp_by_external(served: Served) -> None:
    with served.connect("ana", pika.credentials.ExternalCredentials()) as connection:
        channel = connection.channel()
        channel.queue_declare("ana.q", auto_delete=True)
        with pytest.raises(AMQPError, match="refused for user 'ana'"):
            channel.queue_declare("other")
    with pytest.raises(AMQPError):
        served.connect(None, pika.credentials.ExternalCredentials())
    with pytest.raises(AMQPError):
        served.connect("guest", pika.credentials.ExternalCredentials())
    with served.connect("ana", pika.PlainCredentials("guest", "guest")) as connection:
        connection.channel().queue_declare("other", auto_delete=True)


def test_kafka_by_certificate(served: Served) -> None:
    certificate, key = certificates.client("ana").write(served.directory, "kafka")
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": served.of("kafka+tls"),
            "security.protocol": "SSL",
            "ssl.ca.location": str(served.directory / "ca.crt"),
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(key),
        }
    )
    producer.produce("t", b"x")
    assert producer.flush(PATIENCE_S) == 0
    connections = served.ask("GET", f"{served.of('http')}/v1/connections?protocol=kafka")["connections"]
    assert {one["user"] for one in connections} == {"ana"}
    served.ask("PATCH", f"{served.of('http')}/v1/users/ana", {"disabled": True})
    try:
        assert served.ask("GET", f"{served.of('http')}/v1/connections?protocol=kafka")["connections"] == []
    finally:
        served.ask("PATCH", f"{served.of('http')}/v1/users/ana", {"disabled": False})
