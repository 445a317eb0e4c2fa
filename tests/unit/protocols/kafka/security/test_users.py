"""Users that are made over the protocol."""

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainstem.broker.administration import User
from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.users.callers import LoginRefused
from mainstem.coordination.administration.passwords import hash_password
from mainstem.model.endpoints import UNKNOWN
from mainstem.protocols.kafka.adapter import KafkaAdapter
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.storage.contract import Mutation
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.kafka import ApiKey, ErrorCode
from mainstem.wire.scram import derive
from tests.support.clients.kafka_client import Client, Connect, Operations, with_adapter
from tests.support.worlds.brokers import with_broker, with_engine
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
        failed = ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await log_in(Client(adapter), "a", "first") == 0
        assert await log_in(Client(adapter), "a", "second") == failed
        assert await log_in(Client(adapter), "a", "first", "SCRAM-SHA-512") == failed
        assert await log_in(Client(adapter), "b", "first") == failed
        assert await authenticate(Client(adapter), "PLAIN", b"\0a\0first") == (0, b"")
        assert (await authenticate(Client(adapter), "PLAIN", b"\0a\0second"))[0] == failed
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


@with_engine
async def test_users_of_an_earlier_version_are_taken_over(engine: MemoryEngine) -> None:
    def stored(password: str, mechanism: str) -> list[Any]:
        verifier = derive(password.encode(), mechanism, b"pepper", 4_096)
        return [verifier.salt, verifier.iterations, verifier.stored_key, verifier.server_key]

    encode = msgspec.msgpack.encode
    old = {"name": "both", "password_hash": hash_password(b"rabbit", b"salt"), "tags": ["management"]}
    await engine.alter(
        (),
        [
            Mutation("administration", encode(["user", ["both"]]), encode(old)),
            Mutation("scram_users", b"both", encode({"SCRAM-SHA-256": stored("kafka", "SCRAM-SHA-256")})),
            Mutation("scram_users", b"guest", encode({"SCRAM-SHA-512": stored("kafka", "SCRAM-SHA-512")})),
            Mutation("scram_users", b"only", encode({"SCRAM-SHA-512": stored("kafka", "SCRAM-SHA-512")})),
            Mutation("scram_users", b"n" * 300, encode({"SCRAM-SHA-512": stored("kafka", "SCRAM-SHA-512")})),
        ],
    )
    for _ in range(2):
        broker = await Broker.open(engine, LoopClock())
        assert list((await engine.load("scram_users")).entries) == [b"n" * 300]
        adapter = KafkaAdapter(KafkaSettings(), broker, Operations())
        assert await describe(Client(adapter)) == {
            "both": (0, [(SHA_256, 4_096)]),
            "guest": (0, [(SHA_512, 4_096)]),
            "only": (0, [(SHA_512, 4_096)]),
        }
        assert broker.access.get("both").tags == ("management",)
        assert await log_in(Client(adapter), "both", "kafka") == 0
        assert await log_in(Client(adapter), "only", "kafka", "SCRAM-SHA-512") == 0
        passwords = {"both": b"rabbit", "only": b"kafka", "guest": b"guest"}
        for name, password in passwords.items():
            caller = await broker.door.log_in_with_password("amqp", name, password, UNKNOWN)
            assert caller.name == name
            with pytest.raises(LoginRefused):
                await broker.door.log_in_with_password("amqp", name, b"other", UNKNOWN)
        assert broker.access.admit("guest").may("default", "read", "q")


@with_adapter
async def test_a_password_set_by_kafka_is_the_only_one(connect: Connect, broker: Broker) -> None:
    async def may(password: bytes) -> bool:
        try:
            await broker.door.log_in_with_password("amqp", "ann", password, UNKNOWN)
        except LoginRefused:
            return False
        return True

    await broker.access.set_password(User("ann", tags=("management",)), "first")
    assert (await may(b"first"), await log_in(connect(), "ann", "first")) == (True, 0)
    await alter(connect(), upsertion("ann", "second"))
    assert (await may(b"first"), await may(b"second")) == (False, True)
    both = [{"name": "ann", "mechanism": mechanism} for mechanism in (SHA_256, SHA_512)]
    assert await alter(connect(), deletions=both) == {"ann": 0}
    assert not await may(b"second")
    assert not broker.access.get("ann").has_password
