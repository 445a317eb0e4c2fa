"""Who may ask: one user, known by a password, by SASL PLAIN or SCRAM."""

from __future__ import annotations

import base64
import hmac
import logging
import os
from collections.abc import Callable

from mainstem.protocols.kafka.codec.scram import HASHES, Credentials, MalformedScram, ScramExchange, WrongCredentials
from mainstem.protocols.kafka.handlers.requests import Body, Call, Served
from mainstem.wire.kafka import ApiKey, ErrorCode

log = logging.getLogger(__name__)

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *HASHES)
FAILED = "Authentication failed: Invalid username or password"


class Authentication:
    """Where one connection is on its way to being admitted."""

    def __init__(self) -> None:
        self.mechanism: str | None = None
        self.exchange: ScramExchange | None = None

    def close(self) -> None:
        """Nothing is held."""


class AuthenticationHandlers:
    """SaslHandshake, SaslAuthenticate."""

    def __init__(self, user: str, password: str, random: Callable[[int], bytes] = os.urandom) -> None:
        self._user = user
        self._password = password
        self._random = random
        self._credentials = {mechanism: Credentials.of(password, mechanism, random(16)) for mechanism in HASHES}

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.SASL_HANDSHAKE: Served(self.handshake, 1, 1),
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
        if mechanism in HASHES:
            nonce = base64.b64encode(self._random(18)).decode()
            state.exchange = ScramExchange(self._user, self._credentials[mechanism], nonce)
        return {"error_code": ErrorCode.NONE, "mechanisms": MECHANISMS}

    def authenticate(self, call: Call) -> Body:
        """One message of the mechanism; a wrong one is answered, and is the last."""
        state: Authentication = call.connection.get("authentication", Authentication)
        if state.mechanism is None:
            call.reply.end()
            return _refused(ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake comes first")
        try:
            answer, is_proven = self._answer(state, bytes(call.body.auth_bytes))
        except (WrongCredentials, MalformedScram) as error:
            log.warning("a client failed to authenticate: %s", error or "wrong credentials")
            call.reply.end()
            return _refused(ErrorCode.SASL_AUTHENTICATION_FAILED, FAILED)
        if is_proven:
            state.mechanism = state.exchange = None
            call.connection.is_admitted = True
        return {"error_code": ErrorCode.NONE, "error_message": None, "auth_bytes": answer}

    def _answer(self, state: Authentication, message: bytes) -> tuple[bytes, bool]:
        if state.exchange is not None:
            return state.exchange.answer(message)
        # RFC 4616: authorization identity, authentication identity and password, a zero byte between them.
        identity, _, rest = message.partition(b"\0")
        user, separator, password = rest.partition(b"\0")
        is_user = hmac.compare_digest(user, self._user.encode())
        is_password = hmac.compare_digest(password, self._password.encode())
        if not separator or not is_user or not is_password or identity not in (b"", user):
            raise WrongCredentials
        return b"", True


def _refused(code: ErrorCode, message: str) -> Body:
    return {"error_code": code, "error_message": message, "auth_bytes": b""}
