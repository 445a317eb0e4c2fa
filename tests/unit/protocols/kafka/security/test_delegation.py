"""Delegation tokens: acting as another user for a while."""

import base64
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.administration import User
from mainstem.broker.broker import Broker
from mainstem.protocols.kafka.adapter import KafkaAdapter, SettingsUnusable, check_listening
from mainstem.protocols.kafka.session.settings import KafkaSettings
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.wire.kafka import ApiKey, ErrorCode
from tests.support.clients.http_client import SteadyClock
from tests.support.clients.kafka_client import Client, Operations
from tests.support.worlds.brokers import with_engine
from tests.unit.protocols.kafka.sasl import authenticate, client_final

CREATE, RENEW = ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN
EXPIRE, DESCRIBE = ApiKey.EXPIRE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN
DAY_MS = 86_400_000


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    path = tmp_path / "key"
    path.write_text("a key of more than 16 bytes\n")
    path.chmod(0o600)
    return str(path)


class World:
    """One broker with users, and connections of them."""

    def __init__(self, engine: MemoryEngine, key_file: str | None) -> None:
        self.engine = engine
        self.clock = SteadyClock()
        self.settings = KafkaSettings(delegation_key_file=key_file)

    async def open(self) -> None:
        self.broker = await Broker.open(self.engine, self.clock)
        self.adapter = KafkaAdapter(self.settings, self.broker, Operations())

    async def connect(self, user: str) -> Client:
        client = Client(self.adapter)
        assert await authenticate(client, "PLAIN", f"\0{user}\0secret".encode()) == (0, b"")
        return client

    async def connect_by(
        self, token: Any, mechanism: str = "SCRAM-SHA-256", secret: bytes | None = None
    ) -> Client | None:
        client = Client(self.adapter)
        first = f"n={token.token_id},r=abc,tokenauth=true"
        _, said = await authenticate(client, mechanism, b"n,," + first.encode())
        password = base64.b64encode(token.hmac if secret is None else secret).decode()
        final = client_final(password, mechanism, first, said.decode())
        answer = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=final)
        self.lifetime_ms = answer.session_lifetime_ms
        return None if answer.error_code else client

    async def make(self, name: str, *roles: str) -> None:
        await self.broker.access.set_password(User(name, tags=roles), "secret")


def test_somebody_acts_as_the_owner(key_file: str) -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        world = World(engine, key_file)
        await world.open()
        await world.make("ann")
        await world.make("bob")
        ann = await world.connect("ann")
        renewers = [{"principal_type": "User", "principal_name": "bob"}]
        token = await ann.ask(CREATE, 3, renewers=renewers, max_lifetime_ms=2 * DAY_MS)
        now = world.clock.now_ms()
        assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "ann", "ann")
        assert (token.issue_timestamp_ms, token.expiry_timestamp_ms) == (now, now + DAY_MS)
        assert token.max_timestamp_ms == now + 2 * DAY_MS
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            client = await world.connect_by(token, mechanism)
            assert client is not None
            assert (client.session.peer.user, world.lifetime_ms) == ("ann", DAY_MS)
            refused = await client.ask(CREATE, 3)
            assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, "no token begets a token"
        assert await world.connect_by(token, secret=b"guess") is None
        await world.open()  # what another start would load
        assert await world.connect_by(token) is not None
        bob = await world.connect("bob")
        (shown,) = (await bob.ask(DESCRIBE, 3, owners=None)).tokens
        assert (shown.token_id, shown.hmac, shown.renewers[0].principal_name) == (token.token_id, token.hmac, "bob")
        assert (await bob.ask(DESCRIBE, 3, owners=[])).tokens == []
        world.clock.passed_ms = DAY_MS - 1
        renewed = await bob.ask(RENEW, 2, hmac=token.hmac, renew_period_ms=-1)
        assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, now + 2 * DAY_MS - 1)
        renewed = await bob.ask(RENEW, 2, hmac=token.hmac, renew_period_ms=9 * DAY_MS)
        assert renewed.expiry_timestamp_ms == now + 2 * DAY_MS, "no longer than its life"
        ann = await world.connect("ann")
        ended = await ann.ask(EXPIRE, 2, hmac=token.hmac, expiry_time_period_ms=1_000)
        assert ended.expiry_timestamp_ms == world.clock.now_ms() + 1_000
        world.clock.passed_ms += 1_000
        assert await world.connect_by(token) is None
        assert (await ann.ask(RENEW, 2, hmac=token.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
        assert (await ann.ask(DESCRIBE, 3, owners=None)).tokens == []
        stored = (await engine.load("administration")).entries
        assert all(token.hmac not in value for value in stored.values())

    run()


def test_who_may_not(key_file: str) -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        world = World(engine, key_file)
        await world.open()
        await world.make("ann")
        await world.make("root", "administrator")
        await world.make("eve")
        anonymous = Client(world.adapter)
        await anonymous.create("t")
        for key in (CREATE, RENEW, EXPIRE, DESCRIBE):
            answer = await anonymous.ask(key, 2)
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        ann, eve, root = await world.connect("ann"), await world.connect("eve"), await world.connect("root")
        for_ann = {"owner_principal_type": "User", "owner_principal_name": "ann"}
        assert (await eve.ask(CREATE, 3, **for_ann)).error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        odd = [{"principal_type": "Group", "principal_name": "x"}]
        assert (await ann.ask(CREATE, 3, renewers=odd)).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
        token = await root.ask(CREATE, 3, **for_ann)
        assert (token.principal_name, token.token_requester_principal_name) == ("ann", "root")
        for key in (RENEW, EXPIRE):
            answer = await eve.ask(key, 2, hmac=token.hmac)
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
            assert (await eve.ask(key, 2, hmac=b"x")).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert (await eve.ask(DESCRIBE, 3, owners=None)).tokens == []
        assert len((await root.ask(DESCRIBE, 3, owners=None)).tokens) == 1
        client = await world.connect_by(token)
        assert client is not None
        await world.broker.access.remove_user("ann")
        assert client.session.finished
        await world.make("ann")
        assert await world.connect_by(token) is None, "tokens go with their owner"

    run()


def test_without_a_key_there_are_none(tmp_path: Path) -> None:
    @with_engine
    async def run(engine: MemoryEngine) -> None:
        world = World(engine, None)
        await world.open()
        await world.make("ann")
        ann = await world.connect("ann")
        assert (await ann.ask(CREATE, 3)).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

    run()
    path = tmp_path / "key"
    for content, mode, problem in (
        ("x" * 16, 0o644, "chmod 600"),
        ("short", 0o600, "16 to"),
        ("x" * 5_000, 0o600, "16 to"),
    ):
        path.write_text(content)
        path.chmod(mode)
        with pytest.raises(SettingsUnusable, match=problem):
            check_listening(KafkaSettings(delegation_key_file=str(path)), ["127.0.0.1"])
    with pytest.raises(SettingsUnusable, match="cannot be read"):
        check_listening(KafkaSettings(delegation_key_file=str(tmp_path / "none")), ["127.0.0.1"])
