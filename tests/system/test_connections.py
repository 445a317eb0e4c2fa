"""Clients of other makes, as the list of connections shows them; and what one sees when it is closed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from confluent_kafka.admin import AdminClient

from tests.system.commands import Shell, serving

pytestmark = pytest.mark.system


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Shell, dict[str, list[str]]]]:
    with serving(tmp_path) as found:
        yield found


def test_clients_of_every_protocol_are_listed_and_closed(served: tuple[Shell, dict[str, list[str]]]) -> None:
    shell, addresses = served
    admin = AdminClient({"bootstrap.servers": addresses["kafka"][0], "client.id": "billing"})
    admin.list_topics(timeout=10)
    parameters = pika.URLParameters(f"amqp://{addresses['amqp'][0]}")
    parameters.client_properties = {"connection_name": "worker-1"}
    worker = pika.BlockingConnection(parameters)
    found: dict[str, dict[str, Any]] = {
        one["client"]: one for one in shell.lines("connection", "list") if one["protocol"] != "http"
    }
    assert found["billing"]["protocol"] == "kafka"
    assert found["billing"]["library"] == "confluent-kafka-python"
    assert found["billing"]["received_bytes"] > 0
    amqp = found["worker-1"]
    assert (amqp["protocol"], amqp["user"], amqp["namespace"]) == ("amqp", "guest", "default")
    assert amqp["library"].startswith("Pika")
    assert amqp["address"].startswith("127.0.0.1:")
    assert shell.lines("connection", "list", "--search", "worker-1", "--sort", "sent")[0]["id"] == amqp["id"]
    assert shell.lines("connection", "show", amqp["id"])[0]["client"] == "worker-1"
    assert "would be closed" in shell.run("connection", "close", amqp["id"], "--dry-run")
    shell.run("connection", "close", amqp["id"], status=2)
    assert shell.run("connection", "close", amqp["id"], "--yes") == f"Connection {amqp['id']} is closed.\n"
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        worker.process_data_events(time_limit=10)
    assert closed.value.reply_code == 320
    shell.run("connection", "show", "amqp-999", status=3)
    assert "no connection amqp-999" in shell.errors
