"""Tokens that others have signed."""

import asyncio
import base64
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from mainstem.broker.administration import User
from mainstem.broker.broker import Broker
from mainstem.broker.users import tokens as module
from mainstem.broker.users.callers import LoginRefused
from mainstem.broker.users.settings import UserSettings
from mainstem.broker.users.tokens import TokenSettings
from mainstem.model.endpoints import UNKNOWN
from tests.support.worlds.brokers import with_broker

ISSUER, AUDIENCE = "https://issuer.example", "mainstem"
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
EDWARDS = OKPKey.generate_key("Ed25519", {"kid": "edwards"})
OTHER = RSAKey.generate_key(2048, {"kid": "other"})


def write(path: Path, text: str) -> None:
    path.write_text(text)


def key_set(*keys: Any) -> str:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]})


def settings(keys: str, **others: Any) -> TokenSettings:
    return TokenSettings(keys=keys, issuer=ISSUER, audience=AUDIENCE, **others)


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_text(key_set(RSA, EC, EDWARDS))
    return path


def make(broker: Broker, key: Any = RSA, algorithm: str = "RS256", **changed: Any) -> str:
    now = broker.clock.now_ms() // 1000
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": now + 600, **changed}
    header = {"alg": algorithm, "kid": key.kid}
    said = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(header, said, key, algorithms=[algorithm])


def as_secret(token: str) -> str:
    """Signed with the public key as if that were a secret."""
    said = token.split(".")[1]
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"rsa"}').rstrip(b"=").decode()
    signature = hmac.digest(RSA.as_pem(private=False), f"{head}.{said}".encode(), "sha256")
    return f"{head}.{said}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


async def name_of(broker: Broker, token: str) -> str | None:
    try:
        return (await broker.door.log_in_with_token("http", token, UNKNOWN)).name
    except LoginRefused:
        return None


def test_a_token_proves_who_it_names(keys_file: Path) -> None:
    @with_broker
    async def run(broker: Broker) -> None:
        assert await name_of(broker, make(broker)) is None, "without settings none is taken"
        broker.door.govern(UserSettings(), settings(str(keys_file), roles_claim="groups"))
        token = make(broker, groups=["monitoring", 5])
        caller = await broker.door.log_in_with_token("http", token, UNKNOWN)
        assert (caller.name, caller.tags) == ("ann", ("monitoring",))
        assert caller.expires_ms == (broker.clock.now_ms() // 1000 + 630) * 1000
        caller = await broker.door.log_in_with_password("amqp", "", make(broker, groups="a b").encode(), UNKNOWN)
        assert (caller.name, caller.tags) == ("ann", ("a", "b"))
        for key, algorithm in ((EC, "ES256"), (EDWARDS, "Ed25519"), (RSA, "PS256")):
            assert await name_of(broker, make(broker, key, algorithm)) == "ann"
        assert await name_of(broker, make(broker, aud=["other", AUDIENCE])) == "ann"
        assert await name_of(broker, make(broker, exp=2**70)) == "ann"
        await broker.access.put(User("ann", is_disabled=True))
        assert await name_of(broker, make(broker)) is None
        for built_in in ("guest", "anonymous"):
            assert await name_of(broker, make(broker, sub=built_in)) is None

    run()


def test_what_is_not_right_is_refused(keys_file: Path) -> None:
    @with_broker
    async def run(broker: Broker) -> None:
        broker.door.govern(UserSettings(), settings(str(keys_file)))
        now = broker.clock.now_ms() // 1000
        plain = make(broker).split(".")
        unsigned = "eyJhbGciOiJub25lIn0." + plain[1] + "."
        wrong = [
            make(broker, aud="other"),
            make(broker, aud=None),
            make(broker, iss="https://other"),
            make(broker, iss=None),
            make(broker, exp=now - 60),
            make(broker, exp=None),
            make(broker, exp="soon"),
            make(broker, exp=float("inf")),
            make(broker, nbf=now + 60),
            make(broker, sub=""),
            make(broker, sub=5),
            make(broker, sub="x" * 256),
            make(broker, sub=None),
            make(broker, OTHER),
            make(broker, RSA, "RS512"),
            as_secret(make(broker)),
            unsigned,
            ".".join((plain[0], plain[1], plain[2][:-4])),
            ".".join((plain[0], plain[1][:-2], plain[2])),
            "",
            "a.b.c",
            "ey..",
            "e" * 20_000,
            "eyJ" + "[" * 3_000 + ".x.y",
        ]
        for token in wrong:
            assert await name_of(broker, token) is None, token
        assert broker.logins.failures["http"] == len(wrong)
        assert await name_of(broker, make(broker)) == "ann", "nobody is slowed: a token cannot be guessed"

    run()


def test_keys_are_looked_up_again(keys_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 0.0)

    @with_broker
    async def run(broker: Broker) -> None:
        broker.door.govern(UserSettings(), settings(str(keys_file)))
        assert await name_of(broker, make(broker, OTHER)) is None
        write(keys_file, key_set(OTHER))
        assert await name_of(broker, make(broker, OTHER)) == "ann"
        assert await name_of(broker, make(broker)) is None
        write(keys_file, "{}")
        assert await name_of(broker, make(broker)) is None
        assert await name_of(broker, make(broker, OTHER)) == "ann", "the last good ones stay"

    run()


class Issuer(BaseHTTPRequestHandler):
    answer = ""
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("location", "/elsewhere")
        self.end_headers()
        self.wfile.write(self.answer.encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def issuer() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/keys"
    server.shutdown()
    thread.join()
    server.server_close()


def test_keys_from_an_address(issuer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 0.0)

    @with_broker
    async def run(broker: Broker) -> None:
        broker.door.govern(UserSettings(), settings(issuer))
        Issuer.status, Issuer.answer = 302, key_set(RSA)
        assert await name_of(broker, make(broker)) is None, "no detours"
        Issuer.status = 200
        assert await asyncio.gather(*(name_of(broker, make(broker)) for _ in range(3))) == ["ann"] * 3
        Issuer.status, Issuer.answer = 500, ""
        assert await name_of(broker, make(broker, OTHER)) is None
        assert await name_of(broker, make(broker)) == "ann"

    run()


def test_settings_that_cannot_be(tmp_path: Path, keys_file: Path) -> None:
    for wrong in (
        {"issuer": ""},
        {"audience": ""},
        {"algorithms": ("HS256",)},
        {"algorithms": ("none",)},
        {"algorithms": ()},
        {"keys": "http://issuer.example/keys"},
        {"keys": "ftp://127.0.0.1/keys"},
    ):
        with pytest.raises(ValueError, match=r"tokens\.|algorithms|keys"):
            TokenSettings(**{"keys": "f", "issuer": "i", "audience": "a", **wrong})

    @with_broker
    async def run(broker: Broker) -> None:
        secret = OctKey.generate_key(256)
        for content in (
            "",
            "[]",
            "{}",
            '{"keys": 5}',
            '{"keys": [{"kty": "RSA"}]}',
            json.dumps({"keys": [secret.as_dict()]}),
        ):
            write(keys_file, content)
            with pytest.raises(ValueError, match=r"tokens\.keys"):
                broker.door.govern(UserSettings(), settings(str(keys_file)))
        with pytest.raises(ValueError, match="cannot be read"):
            broker.door.govern(UserSettings(), settings(str(tmp_path / "none")))

    run()
