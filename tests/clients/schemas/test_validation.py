"""Topics that take only records whose schema is registered as theirs."""

import pytest
from confluent_kafka import KafkaError, Producer

from tests.clients.schemas.serving import PATIENCE_S, RegistryBroker, ask
from tests.support.clients.confluent import create
from tests.support.serving.program import post

pytestmark = pytest.mark.conformance


def register(broker: RegistryBroker, subject: str, schema: str) -> bytes:
    found = broker.ask("POST", f"/subjects/{subject}/versions", {"schema": schema})
    return b"\0" + int(found.content["id"]).to_bytes(4, "big")


def errors_of(
    broker: RegistryBroker, topic: str, *records: tuple[bytes | None, bytes | None], **config: str
) -> list[int | None]:
    """What became of each record of one batch."""
    found: list[int | None] = []
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 200, "message.timeout.ms": 5_000, **config})
    for key, value in records:
        producer.produce(topic, value, key, on_delivery=lambda error, _: found.append(error and error.code()))
    assert producer.flush(PATIENCE_S) == 0
    return found


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_records_without_a_registered_schema_are_refused(broker: RegistryBroker, codec: str) -> None:
    topic = f"checked-{codec}"
    create(broker, topic, confluent_value_schema_validation="true")
    right = register(broker, f"{topic}-value", '"string"')
    other = register(broker, "other-value", '"long"')
    compression = {"compression.type": codec}
    assert (
        errors_of(broker, topic, (None, right + b"\x02a"), (None, None), (b"any key", right), **compression)
        == [None] * 3
    )
    invalid = KafkaError.INVALID_RECORD
    for value in (b"plain", b"", other + b"x", b"\0\x7f\0\0\0x"):
        assert errors_of(broker, topic, (None, value), **compression) == [invalid], value
    assert invalid in errors_of(broker, topic, (None, right), (None, b"plain"), **compression)
    ask(broker.urls[0], "DELETE", f"/subjects/{topic}-value")
    assert errors_of(broker, topic, (None, right + b"x"), **compression) == [invalid]


def test_keys_are_checked_on_their_own(broker: RegistryBroker) -> None:
    create(broker, "keyed", confluent_key_schema_validation="true")
    right = register(broker, "keyed-key", '"string"')
    assert errors_of(broker, "keyed", (right + b"\x02a", b"anything")) == [None]
    assert errors_of(broker, "keyed", (b"a", b"anything")) == [KafkaError.INVALID_RECORD]


def test_http_is_told_why(broker: RegistryBroker) -> None:
    create(broker, "checked-http", confluent_value_schema_validation="true")
    with pytest.raises(AssertionError, match="names no schema"):
        post(broker.http, "/v1/topics/checked-http/records", {"records": [{"value": "plain"}]})
