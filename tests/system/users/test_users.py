"""One user, made in one protocol, logs in by all of them."""

import base64
import hashlib
import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pika
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from pika.exceptions import AMQPError

from tests.support.serving.program import ANY_PORT, PATIENCE_S, running
from tests.system.commands import Shell

SALT = bytes.fromhex("908dc60e")
RABBIT_HASH = base64.b64encode(SALT + hashlib.sha256(SALT + b"test12").digest()).decode()
"""As RabbitMQ's page about passwords makes it of `test12`."""
ALL = {"configure": ".*", "write": ".*", "read": ".*"}


class Served(NamedTuple):
    addresses: dict[str, list[str]]
    shell: Shell

    def host(self, protocol: str) -> tuple[str, int]:
        host, _, port = self.addresses[protocol][0].rpartition(":")
        return host, int(port)

    # Logins, each by the protocol's own client

    def by_kafka(self, mechanism: str, user: str, password: str) -> bool:
        client = AdminClient(
            {
                "bootstrap.servers": self.addresses["kafka"][0],
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.username": user,
                "sasl.password": password,
                "log_level": 0,
            }
        )
        try:
            return client.list_topics(timeout=2) is not None
        except KafkaException:
            return False

    def by_amqp(self, user: str, password: str) -> bool:
        host, port = self.host("amqp")
        try:
            pika.BlockingConnection(
                pika.ConnectionParameters(host, port, credentials=pika.PlainCredentials(user, password))
            ).close()
        except AMQPError:
            return False
        return True

    def by_management(self, user: str, password: str) -> bool:
        return self.ask("management", "GET", "/api/whoami", user=f"{user}:{password}")[0] == 200

    def by_http(self, user: str, password: str) -> bool:
        return self.ask("http", "GET", "/v1/node", user=f"{user}:{password}")[0] == 200

    def logins(self) -> dict[str, Callable[[str, str], bool]]:
        return {
            "PLAIN": lambda *who: self.by_kafka("PLAIN", *who),
            "SCRAM-SHA-256": lambda *who: self.by_kafka("SCRAM-SHA-256", *who),
            "SCRAM-SHA-512": lambda *who: self.by_kafka("SCRAM-SHA-512", *who),
            "amqp": self.by_amqp,
            "management": self.by_management,
            "http": self.by_http,
        }

    def let_in(self, user: str, password: str) -> set[str]:
        return {name for name, login in self.logins().items() if login(user, password)}

    def refuse(self, user: str, password: str) -> bool:
        """Not asked of librdkafka, which guesses again and again until it is slowed."""
        logins = self.logins()
        return not any(logins[name](user, password) for name in ("amqp", "management", "http"))

    def ask(self, protocol: str, method: str, path: str, content: Any = None, user: str = "guest:guest") -> Any:
        connection = http.client.HTTPConnection(*self.host(protocol), timeout=PATIENCE_S)
        proof = base64.b64encode(user.encode()).decode()
        headers = {"authorization": f"Basic {proof}", "content-type": "application/json"}
        connection.request(method, path, None if content is None else json.dumps(content), headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, json.loads(body) if body.strip() else None

    def permit(self, user: str) -> None:
        assert self.ask("management", "PUT", f"/api/permissions/%2F/{user}", ALL)[0] in (201, 204)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home: Path = tmp_path_factory.mktemp("users")
    options = [word for name in ("kafka", "amqp", "management") for word in ("--listen", f"{name}=127.0.0.1:0")]
    with running(home / "data", "--listen", ANY_PORT, *options) as program:
        addresses = program.wait_ready()
        yield Served(addresses, Shell(addresses["http"][0], home))


EVERYWHERE = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "amqp", "management", "http"}


def test_made_by_kafka(served: Served) -> None:
    admin = AdminClient({"bootstrap.servers": served.addresses["kafka"][0]})
    made = [
        UserScramCredentialUpsertion("kim", ScramCredentialInfo(mechanism, 8_192), b"secret")
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    ]
    admin.alter_user_scram_credentials(made)["kim"].result(PATIENCE_S)
    served.permit("kim")
    assert served.shell.lines("user", "roles", "kim", "--role", "administrator")[0]["roles"] == ["administrator"]
    assert served.let_in("kim", "secret") == EVERYWHERE
    assert served.refuse("kim", "wrong")
    assert served.by_amqp("guest", "guest")
    assert admin.list_topics(timeout=PATIENCE_S) is not None


def test_made_by_the_management_api(served: Served) -> None:
    wish = {"password": "secret", "tags": "administrator"}
    assert served.ask("management", "PUT", "/api/users/mia", wish)[0] == 201
    served.permit("mia")
    assert served.let_in("mia", "secret") == EVERYWHERE
    assert served.refuse("mia", "wrong")


def test_made_by_a_command(served: Served) -> None:
    made = json.loads(served.shell.run("user", "create", "cas", "--role", "administrator", given="secret\n"))
    assert made["proofs"] == ["password", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    served.permit("cas")
    assert served.let_in("cas", "secret") == EVERYWHERE
    served.shell.run("user", "password", "cas", given="other\n")
    assert served.refuse("cas", "secret")
    assert served.let_in("cas", "other") == EVERYWHERE
    served.shell.run("user", "disable", "cas")
    assert served.refuse("cas", "other")
    served.shell.run("user", "enable", "cas")
    served.shell.run("user", "logout", "cas")
    assert served.by_http("cas", "other")
    assert [user["name"] for user in served.shell.lines("user", "list", "--search", "ca")] == ["cas"]
    served.shell.run("user", "delete", "cas", status=2)
    served.shell.run("user", "delete", "cas", "--yes")
    served.shell.run("user", "show", "cas", status=3)


def test_definitions_of_rabbitmq_come_and_go(served: Served) -> None:
    user = {
        "name": "rab",
        "password_hash": RABBIT_HASH,
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": ["administrator"],
        "limits": {},
    }
    permission = {"user": "rab", "vhost": "/", **ALL}
    definitions = {"users": [user], "permissions": [permission]}
    assert served.ask("management", "POST", "/api/definitions", definitions)[0] == 204
    assert served.let_in("rab", "test12") >= {"PLAIN", "amqp", "management", "http"}
    assert served.refuse("rab", "test13")
    assert served.let_in("rab", "test12") == EVERYWHERE, "the first right login has told what SCRAM needs"
    exported = served.ask("management", "GET", "/api/definitions")[1]
    assert user in exported["users"]
    assert permission in exported["permissions"]
    assert served.ask("management", "POST", "/api/definitions", exported)[0] == 204
    assert served.let_in("rab", "test12") == EVERYWHERE


def test_who_does_not_log_in_goes_on_working(served: Served) -> None:
    producer = Producer({"bootstrap.servers": served.addresses["kafka"][0]})
    producer.produce("t", b"x")
    assert producer.flush(PATIENCE_S) == 0
    assert served.by_amqp("guest", "guest")
    connection = http.client.HTTPConnection(*served.host("http"), timeout=PATIENCE_S)
    connection.request("GET", "/v1/node")
    assert connection.getresponse().status == 200
    connection.close()
