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
from collections.abc import Callable, Coroutine
from typing import Any

from mainstem.broker.clients.scram_users import ScramUsers
from mainstem.broker.log import Answer
from mainstem.broker.users.access import Access
from mainstem.broker.users.callers import Caller, Close
from mainstem.protocols.kafka.codec.scram import (
    HASHES,
    Credentials,
    MalformedScram,
    ScramExchange,
    WrongCredentials,
    invented,
)
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.session.machine import ConnectionState, Reply
from mainstem.wire.kafka import ApiKey, ErrorCode

log = logging.getLogger(__name__)

NAME = "kafka"
PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *HASHES)
FAILED = "Authentication failed: Invalid username or password"
WRAPPED_FROM = 1
_SIZE = struct.Struct(">i")


class Authentication:
    """Where one connection is on its way to being admitted, and who it is then."""

    def __init__(self) -> None:
        self.mechanism: str | None = None
        self.exchange: ScramExchange | None = None
        self.is_closed = False
        self._caller: Caller | None = None

    def admit(self, caller: Caller, close: Close) -> None:
        """The client has proven who it is."""
        self._leave()
        self._caller = caller
        caller.hold(close)

    def end_behind(self, name: str, reply: Reply) -> None:
        """If the connection is this user's, its end comes after this answer."""
        if self._caller is not None and self._caller.name == name:
            self._caller.hold(lambda _: reply.end())

    def close(self) -> None:
        """The connection is gone."""
        self.is_closed = True
        self._leave()

    def _leave(self) -> None:
        if self._caller is not None:
            self._caller.leave()
            self._caller = None


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
        self,
        user: str,
        password: str,
        access: Access,
        users: ScramUsers,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._user = user
        self._password = password
        self._access = access
        self._users = users
        self._random = random
        self._credentials = {
            mechanism: Credentials.of(password, mechanism, made.salt, made.iterations)
            for mechanism in HASHES
            for made in (invented(access.strangers_secret, mechanism, user),)
        }

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

    def _find(self, user: str, mechanism: str) -> Credentials:
        if user == self._user:
            return self._credentials[mechanism]
        secret = self._users.get(user).get(mechanism)
        if secret is None:
            return invented(self._access.strangers_secret, mechanism, user)
        return Credentials(HASHES[mechanism], secret.salt, secret.iterations, secret.stored_key, secret.server_key)

    def authenticate(self, call: Call) -> Body | Coroutine[Any, Any, Body]:
        """One message of the mechanism; a wrong one is answered, and is the last."""
        state: Authentication = call.connection.get("authentication", Authentication)
        if state.mechanism is None:
            call.reply.end()
            return _refused(ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake comes first")
        answer = self._answer(state, bytes(call.body.auth_bytes), call.connection, call.reply)
        if answer.done:
            return _authenticated(answer.result(), call.reply)
        # Nobody who guesses holds up the end of the broker.
        call.reply.on_drain(call.reply.refuse)
        return _authenticate_later(answer, call.reply)

    def take_token(self, token: memoryview, reply: Reply, connection: ConnectionState) -> None:
        """One bare message of the mechanism."""
        state: Authentication = connection.get("authentication", Authentication)

        def respond(answer: Answer[bytes | None]) -> None:
            said = answer.result()
            if state.is_closed:
                return
            if said is None:
                reply.refuse()
                return
            if state.mechanism is None:
                reply.take_tokens(None)
            reply.send(_SIZE.pack(len(said)), said)

        answer = self._answer(state, bytes(token), connection, reply)
        if not answer.done:
            reply.on_drain(reply.refuse)
        answer.on_done(respond)

    def _answer(
        self, state: Authentication, message: bytes, connection: ConnectionState, reply: Reply
    ) -> Answer[bytes | None]:
        """What the mechanism says to a message; None: refused. When it was the last, the connection is admitted."""
        exchange = state.exchange
        try:
            if exchange is not None and not exchange.has_begun:
                return Answer.of(exchange.answer(message)[0])
        except MalformedScram:
            self._access.logins.failed(NAME, "", connection.host)
            return Answer.of(None)
        proof = _Proof(exchange, message) if exchange is not None else None
        user, check = (proof.user, proof.check) if proof is not None else self._plain(message)
        answer = Answer[bytes | None]()

        def proven(is_right: bool) -> None:
            if is_right and not state.is_closed:
                state.mechanism = state.exchange = None
                self._admit(user, state, connection, reply)
            answer.resolve((proof.said if proof is not None else b"") if is_right else None)

        self._access.logins.prove(NAME, user, connection.host, check, proven)
        return answer

    def _admit(self, user: str, state: Authentication, connection: ConnectionState, reply: Reply) -> None:
        def close(reason: str) -> None:
            log.info("a connection is closed: %s", reason)
            connection.is_authenticated = False
            reply.refuse()

        state.admit(self._access.admit(user, connection.host, is_superuser=user == self._user), close)
        connection.authenticate(user)

    def _plain(self, message: bytes) -> tuple[str, Callable[[], bool]]:
        # RFC 4616: authorization identity, authentication identity and password, a zero byte between them.
        identity, _, rest = message.partition(b"\0")
        user, separator, password = rest.partition(b"\0")

        def check() -> bool:
            is_user = hmac.compare_digest(user, self._user.encode())
            is_password = hmac.compare_digest(password, self._password.encode())
            return bool(separator) and is_user and is_password and identity in (b"", user)

        return user.decode("utf-8", "replace"), check


class _Proof:
    """The last message of SCRAM."""

    def __init__(self, exchange: ScramExchange, message: bytes) -> None:
        self._exchange = exchange
        self._message = message
        self.user = exchange.user
        self.said = b""

    def check(self) -> bool:
        """Whether it is right; then `said` is the answer."""
        try:
            self.said, _ = self._exchange.answer(self._message)
        except (WrongCredentials, MalformedScram):
            return False
        return True


def _authenticated(said: bytes | None, reply: Reply) -> Body:
    if said is None:
        reply.end()
        return _refused(ErrorCode.SASL_AUTHENTICATION_FAILED, FAILED)
    return {"error_code": ErrorCode.NONE, "error_message": None, "auth_bytes": said}


async def _authenticate_later(answer: Answer[bytes | None], reply: Reply) -> Body:
    return _authenticated(await answer, reply)


def _refused(code: ErrorCode, message: str) -> Body:
    return {"error_code": code, "error_message": message, "auth_bytes": b""}
