"""OAUTHBEARER: tokens, and connections that end with them."""

import json
from pathlib import Path

from joserfc import jwt
from joserfc.jwk import RSAKey

from mainstem.broker.broker import Broker
from mainstem.broker.users import tokens
from mainstem.broker.users.settings import UserSettings
from mainstem.broker.users.tokens import TokenSettings
from mainstem.wire.kafka import ApiKey, ErrorCode
from tests.support.clients.kafka_client import Client, Connect, with_adapter
from tests.unit.protocols.kafka.sasl import authenticate

KEY = RSAKey.generate_key(2048, {"kid": "k"})


def govern(broker: Broker, path: Path) -> None:
    path.write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    broker.door.govern(UserSettings(), TokenSettings(keys=str(path), issuer="i", audience="a"))


def message(broker: Broker, user: str = "ann", lasts_s: int = 600, extension: bytes = b"") -> bytes:
    claims = {"iss": "i", "aud": "a", "sub": user, "exp": broker.clock.now_ms() // 1000 + lasts_s}
    token = jwt.encode({"alg": "RS256", "kid": "k"}, claims, KEY)
    return b"n,,\x01auth=Bearer " + token.encode() + b"\x01" + extension + b"\x01"


async def lifetime_ms(client: Client, said: bytes) -> int:
    await client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER")
    answer = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=said)
    assert (answer.error_code, answer.auth_bytes) == (0, b"")
    lasts: int = answer.session_lifetime_ms
    return lasts


def test_a_token_lets_in_for_its_time(tmp_path: Path) -> None:
    @with_adapter
    async def run(connect: Connect, broker: Broker) -> None:
        refused = await connect().ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER")
        assert refused.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM, "no keys are set"
        govern(broker, tmp_path / "keys")
        client = connect()
        assert 620_000 < await lifetime_ms(client, message(broker, extension=b"a=b\x01")) <= 630_000
        await client.create("t")
        assert client.session.peer.user == "ann"
        # KIP-368: the same connection proves itself again, as the same user.
        assert await lifetime_ms(client, message(broker, lasts_s=900)) > 900_000
        await client.ask(ApiKey.METADATA, 9)
        assert (await authenticate(client, "OAUTHBEARER", message(broker, "bob")))[
            0
        ] == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.session.finished

    run()


def test_a_connection_ends_with_its_token(tmp_path: Path) -> None:
    @with_adapter
    async def run(connect: Connect, broker: Broker) -> None:
        govern(broker, tmp_path / "keys")
        client, renewed = connect(), connect()
        # It has expired, but not for longer than clocks may differ.
        for one in (client, renewed):
            assert 0 < await lifetime_ms(one, message(broker, lasts_s=1 - tokens.LEEWAY_S)) <= 1_000
        await lifetime_ms(renewed, message(broker))
        await client.wait_closed()
        assert not renewed.session.finished
        await renewed.create("t")

    run()


def test_what_is_no_token_is_refused(tmp_path: Path) -> None:
    @with_adapter
    async def run(connect: Connect, broker: Broker) -> None:
        govern(broker, tmp_path / "keys")
        good = message(broker)
        client = connect()
        code, said = await authenticate(client, "OAUTHBEARER", good[:-10] + b"\x01\x01")
        assert (code, json.loads(said)) == (0, {"status": "invalid_token"})
        answer = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\x01")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.session.finished
        client = connect()
        await authenticate(client, "OAUTHBEARER", b"\x01")
        answer = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=good)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED, "a second try needs a second connection"
        for wrong in (b"", b"n,,", good[:-1], b"y" + good[1:], good.replace(b"Bearer", b"Basic"), b"\xff\x01\x01"):
            client = connect()
            code, _ = await authenticate(client, "OAUTHBEARER", wrong)
            if code == 0:
                code = (await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\x01")).error_code
            assert code == ErrorCode.SASL_AUTHENTICATION_FAILED, wrong
            assert client.session.finished

    run()
