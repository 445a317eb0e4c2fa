"""Who may ask: the user of the settings, by SASL PLAIN or SCRAM, and those that were made over the protocol, by SCRAM.

Two ways to carry the messages of a mechanism. After SaslHandshake version 1 each is a SaslAuthenticate request; after version 0
they come bare, with nothing but their size in front, and a refusal is a closed connection.
"""

from __future__ import annotations

import base64
import hmac
import logging
import os
import struct
from collections.abc import Callable

from mainstem.broker.clients.scram_users import ScramUsers
from mainstem.protocols.kafka.codec.scram import HASHES, Credentials, MalformedScram, ScramExchange, WrongCredentials
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.session.machine import ConnectionState, Reply
from mainstem.wire.kafka import ApiKey, ErrorCode

log = logging.getLogger(__name__)

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *HASHES)
FAILED = "Authentication failed: Invalid username or password"
WRAPPED_FROM = 1
_SIZE = struct.Struct(">i")


class Authentication:
    """Where one connection is on its way to being admitted."""

    def __init__(self) -> None:
        self.mechanism: str | None = None
        self.exchange: ScramExchange | None = None

    def close(self) -> None:
        """Nothing is held."""


class NoAuthentication:
    """SaslHandshake, SaslAuthenticate, where nobody needs to say who he is: answered as Kafka does."""

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.SASL_HANDSHAKE: Served(self.refuse, 0, 1),
            ApiKey.SASL_AUTHENTICATE: Served(self.refuse, 0, 2),
        }

    def refuse(self, call: Call) -> Body:
        """Not here."""
        return {"error_code": ErrorCode.ILLEGAL_SASL_STATE}


class AuthenticationHandlers:
    """SaslHandshake, SaslAuthenticate."""

    def __init__(
        self, user: str, password: str, users: ScramUsers, random: Callable[[int], bytes] = os.urandom
    ) -> None:
        self._user = user
        self._password = password
        self._users = users
        self._random = random
        self._credentials = {mechanism: Credentials.of(password, mechanism, random(16)) for mechanism in HASHES}

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.SASL_HANDSHAKE: Served(self.handshake, 0, 1),
            ApiKey.SASL_AUTHENTICATE: Served(self.authenticate, 0, 2),
        }

    def handshake(self, call: Call) -> Body:
        """Agree on a mechanism."""
        mechanism = call.body.mechanism
        if mechanism not in MECHANISMS:
            call.reply.end()
            return {"error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "mechanisms": MECHANISMS}
        state: Authentication = call.connection.get("authentication", Authentication)
        state.mechanism = mechanism
        state.exchange = None
        if mechanism in HASHES:
            nonce = base64.b64encode(self._random(18)).decode()
            state.exchange = ScramExchange(lambda user: self._find(user, mechanism), nonce)
        if call.version < WRAPPED_FROM:
            call.reply.take_tokens(self.take_token)
        return {"error_code": ErrorCode.NONE, "mechanisms": MECHANISMS}

    def _find(self, user: str, mechanism: str) -> Credentials | None:
        if user == self._user:
            return self._credentials[mechanism]
        secret = self._users.get(user).get(mechanism)
        if secret is None:
            return None
        return Credentials(HASHES[mechanism], secret.salt, secret.iterations, secret.stored_key, secret.server_key)

    def authenticate(self, call: Call) -> Body:
        """One message of the mechanism; a wrong one is answered, and is the last."""
        state: Authentication = call.connection.get("authentication", Authentication)
        if state.mechanism is None:
            call.reply.end()
            return _refused(ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake comes first")
        try:
            answer = self._answer(state, bytes(call.body.auth_bytes), call.connection)
        except (WrongCredentials, MalformedScram) as error:
            log.warning("a client failed to authenticate: %s", error or "wrong credentials")
            call.reply.end()
            return _refused(ErrorCode.SASL_AUTHENTICATION_FAILED, FAILED)
        return {"error_code": ErrorCode.NONE, "error_message": None, "auth_bytes": answer}

    def take_token(self, token: memoryview, reply: Reply, connection: ConnectionState) -> None:
        """One bare message of the mechanism."""
        state: Authentication = connection.get("authentication", Authentication)
        try:
            answer = self._answer(state, bytes(token), connection)
        except (WrongCredentials, MalformedScram) as error:
            log.warning("a client failed to authenticate: %s", error or "wrong credentials")
            reply.refuse()
            return
        if state.mechanism is None:
            reply.take_tokens(None)
        reply.send(_SIZE.pack(len(answer)), answer)

    def _answer(self, state: Authentication, message: bytes, connection: ConnectionState) -> bytes:
        """What the mechanism says to a message. When it was the last, the connection is admitted."""
        if state.exchange is None:
            user, answer = self._check_plain(message), b""
        else:
            answer, is_proven = state.exchange.answer(message)
            if not is_proven:
                return answer
            user = state.exchange.user
        state.mechanism = state.exchange = None
        connection.authenticate(user)
        return answer

    def _check_plain(self, message: bytes) -> str:
        # RFC 4616: authorization identity, authentication identity and password, a zero byte between them.
        identity, _, rest = message.partition(b"\0")
        user, separator, password = rest.partition(b"\0")
        is_user = hmac.compare_digest(user, self._user.encode())
        is_password = hmac.compare_digest(password, self._password.encode())
        if not separator or not is_user or not is_password or identity not in (b"", user):
            raise WrongCredentials
        return self._user


def _refused(code: ErrorCode, message: str) -> Body:
    return {"error_code": code, "error_message": message, "auth_bytes": b""}
