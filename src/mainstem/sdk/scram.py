"""SCRAM (RFC 5802), the client's side: proves a password without showing it, and that the server knows it too."""

from __future__ import annotations

import base64
import hashlib
import hmac

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN = 4_096
ITERATIONS_MAX = 1_000_000
"""A server cannot make us count for ever."""

NO_BINDING = "n,,"


class ScramFailed(Exception):
    """The server's message is not what SCRAM has in this place, or the server does not know the password."""


class ScramClient:
    """One authentication. The nonce is passed in."""

    def __init__(self, user: str, password: str, mechanism: str, nonce: str) -> None:
        self._hash = HASHES[mechanism]
        self._password = password
        self._nonce = nonce
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._expected = b""

    def first(self) -> bytes:
        """What the client says first."""
        return (NO_BINDING + self._first_bare).encode()

    def final(self, answer: bytes) -> bytes:
        """The proof, given the server's first answer."""
        server_first = answer.decode("utf-8", "replace")
        fields = _attributes(server_first)
        try:
            nonce, salt, iterations = fields["r"], base64.b64decode(fields["s"]), int(fields["i"])
        except (KeyError, ValueError):
            raise ScramFailed("the server's first message cannot be read") from None
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramFailed("the server's nonce does not continue ours")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ScramFailed(f"the server wants {iterations} iterations")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        stored_key = hashlib.new(self._hash, client_key).digest()
        without_proof = f"c={base64.b64encode(NO_BINDING.encode()).decode()},r={nonce}"
        said = f"{self._first_bare},{server_first},{without_proof}".encode()
        signature = hmac.digest(stored_key, said, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._expected = hmac.digest(hmac.digest(salted, b"Server Key", self._hash), said, self._hash)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, answer: bytes) -> None:
        """Whether the server has proven itself too."""
        given = _attributes(answer.decode("utf-8", "replace")).get("v", "")
        if not hmac.compare_digest(base64.b64encode(self._expected).decode(), given):
            raise ScramFailed("the server did not prove that it knows the password")


def _attributes(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in text.split(","))}
