"""The client of a SASL exchange."""

import base64
import hashlib
import hmac

from mainstem.wire.kafka import ApiKey
from mainstem.wire.scram import HASHES
from tests.support.clients.kafka_client import Client


async def authenticate(client: Client, mechanism: str, *messages: bytes) -> tuple[int, bytes]:
    agreed = await client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism)
    assert agreed.error_code == 0
    answer = None
    for message in messages:
        answer = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message)
    assert answer is not None
    return answer.error_code, answer.auth_bytes


def client_final(password: str, mechanism: str, first: str, server_first: str) -> bytes:
    """The client's side of RFC 5802."""
    name = HASHES[mechanism]
    fields = dict(part.split("=", 1) for part in server_first.split(","))
    salted = hashlib.pbkdf2_hmac(name, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", name)
    without_proof = f"c=biws,r={fields['r']}"
    said = f"{first},{server_first},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(name, client_key).digest(), said, name)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    return f"{without_proof},p={proof}".encode()
