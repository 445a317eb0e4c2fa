"""Tokens in the hands of unmodified clients, and what else needs no password."""

import asyncio
import http.client
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AsyncTokens
from confluent_kafka import Producer
from joserfc import jwt
from joserfc.jwk import RSAKey
from pika.exceptions import AMQPError, ConnectionClosedByBroker

from tests.support.serving.program import ANY_PORT, PATIENCE_S, running

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of its own making, when it is imported
    from kafka import KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider as Tokens

KEY = RSAKey.generate_key(2048, {"kid": "k"})
ISSUER, AUDIENCE = "https://issuer.example", "mainstem"


def token(user: str = "ann", **changed: object) -> str:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "exp": int(time.time()) + 600, "roles": ["administrator"]}
    return jwt.encode({"alg": "RS256", "kid": "k"}, claims | changed, KEY)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    home: Path = tmp_path_factory.mktemp("tokens")
    (home / "keys").write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    options = [word for name in ("kafka", "amqp", "management") for word in ("--listen", f"{name}=127.0.0.1:0")]
    said = {"keys": home / "keys", "issuer": ISSUER, "audience": AUDIENCE, "roles_claim": "roles"}
    options += [word for name, value in said.items() for word in ("--set", f"tokens.{name}={value}")]
    with running(home / "data", "--listen", ANY_PORT, *options) as program:
        yield program.wait_ready()


def ask(address: str, method: str, path: str, proof: str, content: object = None) -> int:
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
    headers = {"authorization": f"Bearer {proof}", "content-type": "application/json"}
    connection.request(method, path, None if content is None else json.dumps(content), headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_librdkafka(addresses: dict[str, list[str]]) -> None:
    given = lambda _: (token(), time.time() + 600)  # noqa: E731
    producer = Producer(
        {
            "bootstrap.servers": addresses["kafka"][0],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": given,
        }
    )
    producer.poll(0)
    errors: list[object] = []
    producer.produce("t", b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert errors == [None]


def test_kafka_python(addresses: dict[str, list[str]]) -> None:
    class Given(Tokens):  # type: ignore[misc]
        def token(self) -> str:
            return token()

    producer = KafkaProducer(
        bootstrap_servers=addresses["kafka"][0],
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Given(),
    )
    assert producer.send("t", b"x").get(PATIENCE_S).topic == "t"
    producer.close()


def test_aiokafka(addresses: dict[str, list[str]]) -> None:
    class Given(AsyncTokens):  # type: ignore[misc]
        async def token(self) -> str:
            return token()

    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=addresses["kafka"][0],
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Given(),
        )
        await producer.start()
        await producer.send_and_wait("t", b"x")
        await producer.stop()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_http_and_management(addresses: dict[str, list[str]]) -> None:
    for address, path in ((addresses["http"][0], "/v1/node"), (addresses["management"][0], "/api/whoami")):
        assert ask(address, "GET", path, token()) == 200
        assert ask(address, "GET", path, token(aud="other")) == 401
        assert ask(address, "GET", path, token(exp=int(time.time()) - 60)) == 401
        assert ask(address, "GET", path, "x") == 401


def connect(address: str, credentials: object) -> pika.BlockingConnection:
    host, _, port = address.rpartition(":")
    return pika.BlockingConnection(pika.ConnectionParameters(host, int(port), credentials=credentials))


def test_a_token_as_password_and_a_new_one(addresses: dict[str, list[str]]) -> None:
    allowed = {"configure": ".*", "write": ".*", "read": ".*"}
    management = addresses["management"][0]
    assert ask(management, "PUT", "/api/users/ann", token(), {"tags": ""}) == 201
    assert ask(management, "PUT", "/api/permissions/%2F/ann", token(), allowed) == 201
    address = addresses["amqp"][0]
    with connect(address, pika.PlainCredentials("", token())) as connection:
        connection.channel().queue_declare("tokens", auto_delete=True)
        connection.update_secret(token(), "renewed")
        with pytest.raises(ConnectionClosedByBroker) as refused:
            connection.update_secret(token("bob"), "somebody else's")
        assert refused.value.reply_code == 530
    with pytest.raises(AMQPError):
        connect(address, pika.PlainCredentials("ann", token(aud="other")))
    short = token(exp=int(time.time()) - 28)
    with connect(address, pika.PlainCredentials("ann", short)) as connection:
        with pytest.raises(ConnectionClosedByBroker) as ended:
            connection.sleep(PATIENCE_S)
        assert ended.value.reply_code == 320


class Anonymous:
    """pika's own list of mechanisms has it not."""

    TYPE = "ANONYMOUS"

    def response_for(self, start: object) -> tuple[str, bytes]:
        assert "ANONYMOUS" in start.mechanisms.decode().split()  # type: ignore[attr-defined]
        return "ANONYMOUS", b""

    def erase_credentials(self) -> None: ...


def test_amqp_without_a_name(addresses: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pika.credentials, "VALID_TYPES", [*pika.credentials.VALID_TYPES, Anonymous])
    with connect(addresses["amqp"][0], Anonymous()) as connection:
        connection.channel().queue_declare("unnamed", auto_delete=True)
