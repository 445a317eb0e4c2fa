"""Only the one user is admitted."""

import base64
from pathlib import Path

import pytest

from mainstem.broker.administration import User
from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.broker.users import logins
from mainstem.protocols.kafka.adapter import KafkaAdapter, SettingsUnusable, check_listening
from mainstem.protocols.kafka.handlers.security.authentication import FAILED
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.kafka import ApiKey, ErrorCode
from mainstem.wire.scram import HASHES, MalformedScram, ScramExchange, WrongCredentials, derive
from tests.support.clients.kafka_client import Client, Connect, Operations, batch, with_adapter
from tests.support.worlds.brokers import with_broker, with_engine
from tests.unit.protocols.kafka.sasl import authenticate, client_final


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_text("secret\n")
    return str(path)


def test_plain(password_file: str) -> None:
    @with_adapter(user="me", password_file=password_file)
    async def run(connect: Connect) -> None:
        client = connect()
        keys = {entry.api_key for entry in (await client.ask(ApiKey.API_VERSIONS, 4)).api_keys}
        assert ApiKey.SASL_HANDSHAKE in keys
        assert await authenticate(client, "PLAIN", b"\0me\0secret") == (0, b"")
        await client.create("t")
        for wrong in (b"\0me\0wrong", b"\0you\0secret", b"me\0secret", b"", b"root\0me\0secret"):
            client = connect()
            code, _ = await authenticate(client, "PLAIN", wrong)
            assert code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert client.session.finished

    run()


def test_nothing_else_is_answered_before(password_file: str) -> None:
    @with_adapter(user="me", password_file=password_file)
    async def run(connect: Connect) -> None:
        for key, version in ((ApiKey.METADATA, 9), (ApiKey.PRODUCE, 9), (ApiKey.FETCH, 12), (ApiKey.CREATE_TOPICS, 5)):
            client = connect()
            client.send(key, version)
            assert client.session.finished
            assert not client.output
        client = connect()
        refused = await client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="GSSAPI")
        assert refused.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert "SCRAM-SHA-512" in refused.mechanisms
        client = connect()
        early = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0me\0secret")
        assert early.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert client.session.finished

    run()


@pytest.mark.parametrize("mechanism", HASHES)
def test_scram(mechanism: str) -> None:
    def exchange() -> ScramExchange:
        return ScramExchange(
            mechanism, lambda user, _: {"me": derive(b"secret", mechanism, b"salt", 10)}[user], "server"
        )

    first = "n=me,r=client"
    good = exchange()
    server_first, is_proven = good.answer(b"n,," + first.encode())
    assert (server_first.startswith(b"r=clientserver,s="), is_proven) == (True, False)
    final, is_proven = good.answer(client_final("secret", mechanism, first, server_first.decode()))
    assert (final[:2], is_proven) == (b"v=", True)
    bad = exchange()
    bad.answer(b"n,," + first.encode())
    with pytest.raises(WrongCredentials):
        bad.answer(client_final("guess", mechanism, first, server_first.decode()))
    for malformed in (
        b"",
        b"p=tls-unique,,n=me,r=x",
        b"n,,n=me",
        b"n,,r=x",
        b"\xff",
        b"n,b=1,n=me,r=x",
        b"n,a=root,n=me,r=x",
    ):
        with pytest.raises(MalformedScram):
            exchange().answer(malformed)


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_stranger_is_answered_as_a_user_is(password_file: str, mechanism: str) -> None:
    @with_adapter(user="me", password_file=password_file)
    async def run(connect: Connect) -> None:
        async def first(name: str) -> tuple[int, dict[str, str]]:
            code, said = await authenticate(connect(), mechanism, f"n,,n={name},r=x".encode())
            return code, dict(part.split("=", 1) for part in said.decode().split(","))

        shapes = set()
        for name in ("me", *(f"user-{number}" for number in range(40))):
            code, said = await first(name)
            assert code == 0
            again = (await first(name))[1]
            assert (said["s"], said["i"]) == (again["s"], again["i"]), "always the same"
            shapes.add((len(base64.b64decode(said["s"])), said["i"]))
        assert shapes == {(26, "4096"), (16, "16384")}
        for name in ("me", "you"):
            client = connect()
            _, said_bytes = await authenticate(client, mechanism, f"n,,n={name},r=x".encode())
            final = client_final("guess", mechanism, f"n={name},r=x", said_bytes.decode())
            answer = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=final)
            assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, FAILED)
            assert client.session.finished

    run()


def test_what_strangers_are_told_outlives_a_restart_once_there_are_users(password_file: str) -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        broker = await Broker.open(engine, LoopClock())
        before = broker.access.strangers_secret
        await broker.access.put(User("ann"))
        assert broker.access.strangers_secret == before
        assert (await Broker.open(engine, LoopClock())).access.strangers_secret == before

    run()


def test_who_guesses_waits(password_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "WAIT_S", 0.02)

    @with_adapter(user="me", password_file=password_file)
    async def run(connect: Connect) -> None:
        for _ in range(logins.FREE_OF_PAIR):
            assert (await authenticate(connect(), "PLAIN", b"\0me\0wrong"))[0] == ErrorCode.SASL_AUTHENTICATION_FAILED
        waiting = connect()
        await waiting.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        waiting.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0me\0secret")
        bare = connect()
        await bare.ask(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")
        bare.send_bytes(frame(b"\0me\0secret"))
        leaving = connect()
        await leaving.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        leaving.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0me\0secret")
        assert not waiting.output
        assert not bare.output
        leaving.session.drain()
        assert leaving.session.finished, "the end of the broker does not wait"
        assert await bare.receive() == b""
        waiting.pump()
        assert waiting.output
        await bare.create("t")

    run()


def test_the_vector_of_rfc_7677() -> None:
    verifier = derive(b"pencil", "SCRAM-SHA-256", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4_096)
    exchange = ScramExchange("SCRAM-SHA-256", lambda *_: verifier, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    server_first, _ = exchange.answer(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert server_first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final, is_proven = exchange.answer(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert (final, is_proven) == (b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", True)


def test_beyond_this_machine_only_with_a_user_or_by_name(password_file: str) -> None:
    check_listening(KafkaSettings(), ["127.0.0.1", "::1", "localhost"])
    for host in ("0.0.0.0", "::", "10.0.0.1", "broker.example"):
        with pytest.raises(SettingsUnusable, match="anybody"):
            check_listening(KafkaSettings(), ["127.0.0.1", host])
        check_listening(KafkaSettings(anybody_from_anywhere=True), [host])
        check_listening(KafkaSettings(user="me", password_file=password_file), [host])
    with pytest.raises(SettingsUnusable, match="password_file"):
        check_listening(KafkaSettings(user="me"), ["127.0.0.1"])
    with pytest.raises(SettingsUnusable, match="cannot be read"):
        check_listening(KafkaSettings(user="me", password_file=password_file + "x"), ["127.0.0.1"])
    with pytest.raises(SettingsUnusable, match=r"kafka\.user"):
        check_listening(KafkaSettings(password_file=password_file), ["127.0.0.1"])


def frame(token: bytes) -> bytes:
    return len(token).to_bytes(4, "big") + token


def test_tokens_without_requests_around_them(password_file: str) -> None:
    """SaslHandshake version 0, as clients before 1.0 speak it."""

    @with_adapter(user="me", password_file=password_file)
    async def run(connect: Connect) -> None:
        client = connect()
        assert (await client.ask(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")).error_code == 0
        client.send_bytes(frame(b"\0me\0secret"))
        assert await client.receive() == b""
        await client.create("plain")
        for mechanism in HASHES:
            client = connect()
            await client.ask(ApiKey.SASL_HANDSHAKE, 0, mechanism=mechanism)
            client.send_bytes(frame(b"n,,n=me,r=abc"))
            server_first = (await client.receive()).decode()
            client.send_bytes(frame(client_final("secret", mechanism, "n=me,r=abc", server_first)))
            assert (await client.receive()).startswith(b"v=")
            await client.create(mechanism)
        for wrong in (b"\0me\0wrong", b"\0\0\0\0\0\0\0\0\0\0", b"", b"\0"):
            client = connect()
            await client.ask(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")
            client.send_bytes(frame(wrong))
            await client.wait_closed()
            assert not client.output

    run()


@with_adapter
async def test_users_log_in_where_nobody_needs_to(connect: Connect, broker: Broker) -> None:
    await broker.access.set_password(User("ann"), "secret")
    anonymous = connect()
    await anonymous.create("t")
    for mechanism, message in (("PLAIN", b"\0ann\0secret"), ("PLAIN", b"ann\0ann\0secret")):
        client = connect()
        assert await authenticate(client, mechanism, message) == (0, b"")
        await client.produce("t", batch(b"x"))
        assert client.session.peer.user == "ann"
    wrong = connect()
    assert (await authenticate(wrong, "PLAIN", b"\0ann\0wrong"))[0] == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert wrong.session.finished
    other = await broker.access.set_password(User("bob"), "secret")
    client = connect()
    await authenticate(client, "PLAIN", b"\0ann\0secret")
    answer = await authenticate(client, "PLAIN", f"\0{other.name}\0secret".encode())
    assert answer[0] == ErrorCode.SASL_AUTHENTICATION_FAILED, "a connection stays with its user"
    await broker.access.put(User("anonymous", is_disabled=True))
    assert anonymous.session.finished
    refused = connect()
    refused.send(ApiKey.METADATA, 9)
    assert refused.session.finished


def test_who_says_nothing_is_let_in_from_here_alone() -> None:
    async def run(broker: Broker, peer: str, **settings: bool) -> bool:
        client = Client(KafkaAdapter(KafkaSettings(**settings), broker, Operations()), peer=peer)
        client.send(ApiKey.API_VERSIONS, 3)
        await client.receive()
        client.send(ApiKey.METADATA, 9)
        return not client.session.finished

    @with_broker
    async def main(broker: Broker) -> None:
        for here in ("", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"):
            assert await run(broker, here)
        for elsewhere in ("10.0.0.1", "2001:db8::1", "fe80::1%eth0"):
            assert not await run(broker, elsewhere)
            assert await run(broker, elsewhere, anybody_from_anywhere=True)

    main()
