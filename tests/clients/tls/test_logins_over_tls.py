"""Who a client is over TLS: by SASL inside, or by the certificate itself."""

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from confluent_kafka.admin import AdminClient

from tests.support.serving import certificates
from tests.support.serving.program import running

PATIENCE_S = 30
PASSWORD = "secret, with = and ü"


class Served:
    """A broker that knows its clients by the common names of their certificates, and one user of its settings."""

    def __init__(self, directory: Path, addresses: dict[str, list[str]]) -> None:
        self.directory = directory
        self.addresses = addresses

    def kafka(self, **settings: object) -> AdminClient:
        ca = str(self.directory / "ca.crt")
        return AdminClient({"bootstrap.servers": self.addresses["kafka+tls"][0], "ssl.ca.location": ca, **settings})

    def users(self, protocol: str) -> set[str]:
        address = self.addresses["http"][0]
        with urllib.request.urlopen(f"http://{address}/v1/connections", timeout=PATIENCE_S) as reply:
            return {one["user"] for one in json.load(reply)["connections"] if one["protocol"] == protocol}


def serve(directory: Path, *options: str) -> Any:
    listeners = [word for name in ("kafka+tls", "amqp+tls", "http") for word in ("--listen", f"{name}=127.0.0.1:0")]
    return running(directory / "data", *listeners, *certificates.write(directory), *options)


@pytest.fixture(scope="module")
def by_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("certificates")
    options = ["--set", "tls.client_certificates=required", "--set", "tls.user_from=common_name"]
    with serve(directory, *options) as program:
        yield Served(directory, program.wait_ready())


def test_a_kafka_client_is_the_user_of_its_certificate(by_certificate: Served) -> None:
    certificate, key = certificates.client("ana").write(by_certificate.directory, "ana")
    files = {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
    admin = by_certificate.kafka(**{"security.protocol": "SSL", **files})
    ends = time.monotonic() + PATIENCE_S
    while "ana" not in by_certificate.users("kafka"):  # it comes and goes while it learns where the broker is
        assert admin.list_topics(timeout=PATIENCE_S).brokers
        assert time.monotonic() < ends


def test_pika_is_let_in_by_external(by_certificate: Served) -> None:
    host, _, port = by_certificate.addresses["amqp+tls"][0].rpartition(":")
    context = certificates.client_context(by_certificate.directory, certificates.client("guest2"))
    options = pika.SSLOptions(context, "localhost")
    parameters = pika.ConnectionParameters(
        host, int(port), credentials=pika.credentials.ExternalCredentials(), ssl_options=options
    )
    # Nobody gave anything to that user: it is known by its name, and refused on the virtual host.
    with pytest.raises(pika.exceptions.AMQPConnectionError) as caught:
        pika.BlockingConnection(parameters)
    assert "refused for user" in repr(caught.value)
    assert "guest2" in repr(caught.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_sasl_within_tls(tmp_path: Path, mechanism: str) -> None:
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    password.chmod(0o600)
    with serve(tmp_path, "--set", "kafka.user=ana", "--set", f"kafka.password_file={password}") as program:
        served = Served(tmp_path, program.wait_ready())
        login = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.username": "ana"}
        admin = served.kafka(**{**login, "sasl.password": PASSWORD})
        assert admin.list_topics(timeout=PATIENCE_S).brokers
