"""Real clients with a user and a password."""

import asyncio
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.clients.kafka.kafka_python import MARKS
from tests.support.serving.kafka import PATIENCE_S, Broker, serving
from tests.support.serving.program import Program

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of its own making, when it is imported
    from kafka import KafkaProducer

pytestmark = MARKS

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory: Path = tmp_path_factory.mktemp("guarded")
    (directory / "password").write_text("secret, with = and ü\n")
    options = ("--set", "kafka.user=me", "--set", f"kafka.password_file={directory / 'password'}")
    with serving(directory / "data", *options) as running:
        yield running


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka(guarded: Broker, mechanism: str) -> None:
    config = {
        "bootstrap.servers": guarded.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "me",
        "log_level": 0,
    }
    producer = Producer({**config, "sasl.password": "secret, with = and ü"})
    errors: list[object] = []
    producer.produce("t", b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert errors == [None]
    stranger = AdminClient({**config, "sasl.password": "guess"})
    with pytest.raises(KafkaException):
        stranger.list_topics(timeout=1)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(guarded: Broker, mechanism: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=guarded.address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username="me",
        sasl_plain_password="secret, with = and ü",
    )
    assert producer.send("t", b"x").get(PATIENCE_S).topic == "t"
    producer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(guarded: Broker, mechanism: str) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=guarded.address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="me",
            sasl_plain_password="secret, with = and ü",
        )
        await producer.start()
        await producer.send_and_wait("t", b"x")
        await producer.stop()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_beyond_this_machine_it_refuses_to_start_without_a_user(tmp_path: Path) -> None:
    program = Program(tmp_path / "data", "--listen", "kafka=0.0.0.0:0", "--listen", "http=off", "--listen", "amqp=off")
    status, out, err = program.wait_end()
    assert (status, out) == (1, "")
    assert "kafka.anybody_from_anywhere=true" in err
    assert not (tmp_path / "data").exists()


@pytest.fixture(scope="module")
def open_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serving(tmp_path_factory.mktemp("open") / "data") as running:
        yield running


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_first_user_changes_nothing_for_who_does_not_log_in(open_broker: Broker, mechanism: str) -> None:
    plain = AdminClient({"bootstrap.servers": open_broker.address})
    change = UserScramCredentialUpsertion("ann", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8_192), b"secret")
    other = UserScramCredentialUpsertion("ann", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8_192), b"secret")
    plain.alter_user_scram_credentials([change, other])["ann"].result(PATIENCE_S)
    for options in (
        {},
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": "ann",
            "sasl.password": "secret",
        },
    ):
        producer = Producer({"bootstrap.servers": open_broker.address, **options})
        errors: list[object] = []
        producer.produce("t", b"x", on_delivery=lambda error, _, errors=errors: errors.append(error))
        assert producer.flush(PATIENCE_S) == 0
        assert errors == [None]
