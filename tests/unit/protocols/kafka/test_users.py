"""Users that are made over the protocol."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.broker import Broker
from mainstem.protocols.kafka.adapter import KafkaAdapter
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.wire.kafka import ApiKey, ErrorCode
from tests.support.clients.kafka_client import Client, Connect, Operations, with_adapter
from tests.support.worlds.brokers import with_broker
from tests.unit.protocols.kafka.sasl import authenticate, client_final

SHA_256, SHA_512 = 1, 2


def upsertion(name: str, password: str = "pw", mechanism: int = SHA_256, iterations: int = 8_192) -> dict[str, Any]:
    hash_name = "sha256" if mechanism == SHA_256 else "sha512"
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), b"pepper", iterations)
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": b"pepper",
        "salted_password": salted,
    }


async def alter(client: Client, *upsertions: Any, deletions: Any = ()) -> dict[str, int]:
    answer = await client.ask(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, upsertions=list(upsertions), deletions=list(deletions)
    )
    return {result.user: result.error_code for result in answer.results}


async def describe(client: Client, *names: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    users = [{"name": name} for name in names] or None
    answer = await client.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=users)
    assert answer.error_code == 0
    return {
        result.user: (result.error_code, [(info.mechanism, info.iterations) for info in result.credential_infos])
        for result in answer.results
    }


@with_adapter
async def test_users_come_and_go(connect: Connect) -> None:
    client = connect()
    assert await describe(client) == {}
    assert await alter(client, upsertion("a"), upsertion("a", mechanism=SHA_512), upsertion("b")) == {"a": 0, "b": 0}
    assert await describe(client) == {"a": (0, [(1, 8_192), (2, 8_192)]), "b": (0, [(1, 8_192)])}
    assert (await describe(client, "c"))["c"][0] == ErrorCode.RESOURCE_NOT_FOUND
    assert (await describe(client, "a", "a"))["a"] == (ErrorCode.DUPLICATE_RESOURCE, [])
    gone = [{"name": "a", "mechanism": SHA_512}, {"name": "b", "mechanism": SHA_256}]
    assert await alter(client, deletions=gone) == {"a": 0, "b": 0}
    assert await describe(client) == {"a": (0, [(1, 8_192)])}


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ([upsertion("")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("a", iterations=4_095)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("a", iterations=16_385)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("a") | {"salt": b""}], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("a") | {"mechanism": 3}], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([upsertion("a"), upsertion("a")], ErrorCode.DUPLICATE_RESOURCE),
    ],
)
def test_what_is_refused_changes_nothing(changed: list[dict[str, Any]], code: ErrorCode) -> None:
    @with_adapter
    async def run(connect: Connect) -> None:
        client = connect()
        answer = await alter(client, *changed, upsertion("other"))
        assert answer == {changed[0]["name"]: code, "other": 0}
        assert list(await describe(client)) == ["other"]
        missing = await alter(client, deletions=[{"name": "x", "mechanism": SHA_256}])
        assert missing == {"x": ErrorCode.RESOURCE_NOT_FOUND}

    run()


async def log_in(client: Client, name: str, password: str, mechanism: str = "SCRAM-SHA-256") -> int:
    first = f"n={name},r=abc"
    await client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism)
    answer = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"n,," + first.encode())
    if answer.error_code == 0:
        final = client_final(password, mechanism, first, answer.auth_bytes.decode())
        answer = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=final)
    code: int = answer.error_code
    return code


def test_they_are_admitted_by_what_was_stored(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("secret\n")

    @with_broker
    async def run(broker: Broker) -> None:
        settings = KafkaSettings(user="me", password_file=str(path))
        adapter = KafkaAdapter(settings, broker, Operations())
        admin = Client(adapter)
        assert await authenticate(admin, "PLAIN", b"\0me\0secret") == (0, b"")
        assert await alter(admin, upsertion("a", "first")) == {"a": 0}
        assert await alter(admin, upsertion("me")) == {"me": ErrorCode.UNACCEPTABLE_CREDENTIAL}
        # What another start would load.
        broker.scram_users._users.clear()
        await broker.scram_users.load()
        failed = ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await log_in(Client(adapter), "a", "first") == 0
        assert await log_in(Client(adapter), "a", "second") == failed
        assert await log_in(Client(adapter), "a", "first", "SCRAM-SHA-512") == failed
        assert await log_in(Client(adapter), "b", "first") == failed
        assert (await authenticate(Client(adapter), "PLAIN", b"\0a\0first"))[0] == failed
        await alter(admin, deletions=[{"name": "a", "mechanism": SHA_256}])
        assert await log_in(Client(adapter), "a", "first") == failed

    run()


def test_a_user_who_is_deleted_is_thrown_out(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret")

    @with_adapter(user="root", password_file=str(password))
    async def run(connect: Connect) -> None:
        root = connect()
        await authenticate(root, "PLAIN", b"\0root\0secret")
        await alter(root, upsertion("a"), upsertion("b"))
        clients = {}
        for name in ("a", "b"):
            client = clients[name] = connect()
            _, said = await authenticate(client, "SCRAM-SHA-256", f"n,,n={name},r=x".encode())
            final = client_final("pw", "SCRAM-SHA-256", f"n={name},r=x", said.decode())
            assert (await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=final)).error_code == 0
        await alter(root, deletions=[{"name": "a", "mechanism": SHA_256}])
        assert clients["a"].session.finished
        await clients["b"].create("t")

    run()
