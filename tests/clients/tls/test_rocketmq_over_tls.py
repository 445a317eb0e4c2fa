"""RocketMQ's Python client: TLS and clear text on one port, as its clients expect."""

from pathlib import Path

import pytest
from rocketmq import ClientConfiguration, Credentials, Message, Producer

from tests.support.serving import certificates
from tests.support.serving.program import running


def test_one_port_serves_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--listen", "http=off", *certificates.write(tmp_path)]
    # The client trusts the authorities of gRPC, and takes no others.
    monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", str(tmp_path / "ca.crt"))
    with running(tmp_path / "data", *options) as program:
        address = program.wait_ready()["rocketmq"][0]
        for is_encrypted in (False, True):
            producer = Producer(ClientConfiguration(address, Credentials()), ("both",), tls_enable=is_encrypted)
            producer.startup()
            message = Message()
            message.topic, message.body = "both", b"hello"
            assert producer.send(message).message_id
            producer.shutdown()
