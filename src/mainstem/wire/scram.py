"""SCRAM (RFC 5802), the server's side, for SHA-256 and SHA-512 (RFC 7677). Pure: salt and nonce are passed in."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from mainstem.wire.errors import MalformedBytes

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
HASHES = {SHA_256: "sha256", SHA_512: "sha512"}
"""The mechanisms, in the order in which a password is checked against them."""
ITERATIONS = 16_384
TOOLS_ITERATIONS = 4_096
"""What Kafka's own tool makes."""
SALT_BYTES = 16
LETTERS = b"0123456789abcdefghijklmnopqrstuvwxyz"


class MalformedScram(MalformedBytes):
    """The bytes are not the message of SCRAM that was due."""


class WrongCredentials(Exception):
    """The proof is not the user's."""


class Verifier(msgspec.Struct, frozen=True, array_like=True):
    """What a server keeps instead of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def derive(password: bytes, mechanism: str, salt: bytes, iterations: int = ITERATIONS) -> Verifier:
    """From a password. It is made to be slow: a thread does it."""
    return from_salted(hashlib.pbkdf2_hmac(HASHES[mechanism], password, salt, iterations), mechanism, salt, iterations)


def from_salted(salted: bytes, mechanism: str, salt: bytes, iterations: int) -> Verifier:
    """From what a client has derived of the password."""
    hash_name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    return Verifier(salt, iterations, stored_key, hmac.digest(salted, b"Server Key", hash_name))


def invented(secret: bytes, mechanism: str, user: str, iterations: int = ITERATIONS) -> Verifier:
    """What is told to who is not here: always the same, and like that of a user, so that names cannot be found out."""
    hash_name = HASHES[mechanism]
    seed = hmac.digest(secret, f"{mechanism} {user}".encode(), "sha512")
    salt = seed[1 : 1 + SALT_BYTES]
    if seed[0] % 2:
        # Kafka's own tool salts with letters and digits.
        iterations = TOOLS_ITERATIONS
        salt = bytes(LETTERS[byte % len(LETTERS)] for byte in seed[1:27])
    key = hmac.digest(secret, seed, hash_name)
    return Verifier(salt, iterations, key, key)


FindVerifier: TypeAlias = "Callable[[str, bool], Verifier]"
"""That of a user, or, where the second argument says so, of a delegation token; an invented one of a stranger."""


class ScramExchange:
    """One authentication: two messages of the client, two answers."""

    def __init__(self, mechanism: str, find: FindVerifier, nonce: str) -> None:
        self._hash_name = HASHES[mechanism]
        self._find = find
        self._nonce = nonce
        self._first: tuple[str, str, str] | None = None
        self.user = ""
        """Who the client says it is."""
        self.is_token = False
        """Whether that is the name of a delegation token (Kafka's extension `tokenauth`)."""

    @property
    def has_begun(self) -> bool:
        """Whether the first message was answered, and the next one is the proof."""
        return self._first is not None

    def answer(self, message: bytes) -> tuple[bytes, bool]:
        """The next answer, and whether the client has proven itself. Raises MalformedScram, WrongCredentials."""
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise MalformedScram("not text") from None
        if self._first is None:
            return self._answer_first(text), False
        return self._answer_final(text, *self._first), True

    def _answer_first(self, text: str) -> bytes:
        flag, _, rest = text.partition(",")
        authorization, _, bare = rest.partition(",")
        if flag not in ("n", "y") or (authorization and not authorization.startswith("a=")):
            raise MalformedScram("channel binding is not offered")
        attributes = _attributes(bare)
        if "n" not in attributes or "r" not in attributes or "m" in attributes:
            raise MalformedScram("user and nonce are needed, extensions are not known")
        if authorization not in ("", f"a={attributes['n']}"):
            raise MalformedScram("nobody acts in another name")
        self.user = attributes["n"].replace("=2C", ",").replace("=3D", "=")
        self.is_token = attributes.get("tokenauth") == "true"
        self._verifier = self._find(self.user, self.is_token)
        nonce = attributes["r"] + self._nonce
        salt = base64.b64encode(self._verifier.salt).decode()
        answer = f"r={nonce},s={salt},i={self._verifier.iterations}"
        self._first = (bare, answer, f"{flag},{authorization},")
        return answer.encode()

    def _answer_final(self, text: str, client_first: str, server_first: str, header: str) -> bytes:
        without_proof, separator, proof_text = text.rpartition(",p=")
        attributes = _attributes(without_proof)
        nonce = _attributes(server_first)["r"]
        if not separator or attributes.get("c") != base64.b64encode(header.encode()).decode():
            raise MalformedScram("the binding is not that of the first message")
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except binascii.Error:
            raise MalformedScram("the proof is not base64") from None
        known = self._verifier
        said = f"{client_first},{server_first},{without_proof}".encode()
        signature = hmac.digest(known.stored_key, said, self._hash_name)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        is_proven = hmac.compare_digest(hashlib.new(self._hash_name, client_key).digest(), known.stored_key)
        if not is_proven or len(proof) != len(signature) or attributes.get("r") != nonce:
            raise WrongCredentials
        return b"v=" + base64.b64encode(hmac.digest(known.server_key, said, self._hash_name))


def _attributes(text: str) -> dict[str, str]:
    parts = [part.partition("=") for part in text.split(",")]
    return {name: value for name, _, value in parts}
