"""Who asks: SASL PLAIN, SCRAM or OAUTHBEARER, the certificate of the connection, or nothing where that is let in.

Two ways to carry the messages of a mechanism. After SaslHandshake version 1 each is a SaslAuthenticate request; after version 0
they come bare, with nothing but their size in front, and a refusal is a closed connection.
"""

from __future__ import annotations

import functools
import logging
import struct
from collections.abc import Callable, Coroutine
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.broker.log import Answer
from mainstem.broker.users.callers import Caller, Close, LoginRefused
from mainstem.protocols.kafka.handlers.calls import Body, Call, Served
from mainstem.protocols.kafka.session.machine import ConnectionState, Reply
from mainstem.wire.kafka import ApiKey, ErrorCode
from mainstem.wire.scram import HASHES, MalformedScram, ScramExchange

log = logging.getLogger(__name__)

NAME = "kafka"
PLAIN = "PLAIN"
BEARER = "OAUTHBEARER"
BEARER_REFUSED = b'{"status":"invalid_token"}'
"""RFC 7628: the client says that it has understood, and is refused then."""
FAILED = "Authentication failed: Invalid username or password"
OTHER_PRINCIPAL = "Cannot change principals during re-authentication"
WRAPPED_FROM = 1
_SIZE = struct.Struct(">i")


class Authentication:
    """Where one connection is on its way to being admitted, and who it is then."""

    def __init__(self) -> None:
        self.mechanism: str | None = None
        self.exchange: ScramExchange | None = None
        self.is_refused = False
        """Whether a token was refused, and the client is to acknowledge that."""
        self.is_closed = False
        self._caller: Caller | None = None

    @property
    def caller(self) -> Caller | None:
        """Who was let in."""
        return self._caller

    @property
    def name(self) -> str | None:
        """Who has proven to be it; None: nobody yet."""
        return None if self._caller is None else self._caller.name

    @property
    def expires_ms(self) -> int | None:
        """Until when the proof holds; None: as long as the connection."""
        return None if self._caller is None else self._caller.expires_ms

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


class AuthenticationHandlers:
    """SaslHandshake, SaslAuthenticate, and who is let in without them."""

    def __init__(self, broker: Broker) -> None:
        self._door = broker.door
        self._clock = broker.clock

    @property
    def _mechanisms(self) -> tuple[str, ...]:
        bearer = (BEARER,) if self._door.tokens.are_taken else ()
        return (PLAIN, *HASHES, *bearer)

    def apis(self) -> dict[int, Served]:
        """By key."""
        return {
            ApiKey.SASL_HANDSHAKE: Served(self.handshake, 0, 1),
            ApiKey.SASL_AUTHENTICATE: Served(self.authenticate, 0, 2),
        }

    def admit_silent(self, connection: ConnectionState, reply: Reply) -> bool:
        """Whether a client may ask that has said nothing, but perhaps has a certificate; from now on it is known."""
        endpoints = connection.endpoints
        state: Authentication = connection.get("authentication", Authentication)
        try:
            if endpoints.certificate is not None and endpoints.certificate.user:
                caller = self._door.log_in_with_certificate(NAME, endpoints)
                self._admit(caller, state, connection, reply, caller.name)
            else:
                # It keeps the name that Kafka has for it.
                self._admit(self._door.admit_anonymous(NAME, endpoints), state, connection, reply, connection.user)
        except LoginRefused:
            log.info("a client that did not authenticate is refused")
            return False
        return True

    def handshake(self, call: Call) -> Body:
        """Agree on a mechanism."""
        mechanism = call.body.mechanism
        if mechanism not in self._mechanisms:
            call.reply.end()
            return {"error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "mechanisms": self._mechanisms}
        state: Authentication = call.connection.get("authentication", Authentication)
        state.mechanism = mechanism
        state.is_refused = False
        state.exchange = self._door.begin_scram(NAME, mechanism) if mechanism in HASHES else None
        if call.version < WRAPPED_FROM:
            call.reply.take_tokens(self.take_token)
        return {"error_code": ErrorCode.NONE, "mechanisms": self._mechanisms}

    def authenticate(self, call: Call) -> Body | Coroutine[Any, Any, Body]:
        """One message of the mechanism; a wrong one is answered, and is the last."""
        state: Authentication = call.connection.get("authentication", Authentication)
        if state.mechanism is None:
            call.reply.end()
            return _refused(ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake comes first")
        answer = self._answer(state, bytes(call.body.auth_bytes), call.connection, call.reply)
        if answer.done:
            return self._authenticated(answer.result(), state, call.reply)
        # Nobody who guesses holds up the end of the broker.
        call.reply.on_drain(call.reply.refuse)
        return self._authenticate_later(answer, state, call.reply)

    def take_token(self, token: memoryview, reply: Reply, connection: ConnectionState) -> None:
        """One bare message of the mechanism."""
        state: Authentication = connection.get("authentication", Authentication)

        def respond(answer: Answer[bytes | str]) -> None:
            said = answer.result()
            if state.is_closed:
                return
            if isinstance(said, str):
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
    ) -> Answer[bytes | str]:
        """What the mechanism says to a message; a text: refused. When it was the last, the connection is admitted."""
        exchange, endpoints = state.exchange, connection.endpoints
        answer = Answer[bytes | str]()

        def tell(said: bytes, caller: Caller | LoginRefused) -> None:
            answer.resolve(self._say(said, caller, state, connection, reply))

        if state.mechanism == BEARER:
            token = _bearer(message)
            if token is None or state.is_refused:
                tell(b"", LoginRefused(FAILED) if state.is_refused else self._door.refuse(NAME, endpoints))
            else:
                self._door.ask_token(NAME, token, endpoints, functools.partial(self._tell_bearer, state, answer, tell))
        elif exchange is None:
            plain = _plain(message)
            if plain is None:
                tell(b"", self._door.refuse(NAME, endpoints))
            else:
                self._door.ask_password(NAME, *plain, endpoints, lambda caller: tell(b"", caller))
        elif exchange.has_begun:
            self._door.finish_scram(NAME, exchange, message, endpoints, tell)
        else:
            try:
                answer.resolve(exchange.answer(message)[0])
            except MalformedScram:
                tell(b"", self._door.refuse(NAME, endpoints))
        return answer

    def _tell_bearer(
        self,
        state: Authentication,
        answer: Answer[bytes | str],
        tell: Callable[[bytes, Caller | LoginRefused], None],
        caller: Caller | LoginRefused,
    ) -> None:
        if isinstance(caller, LoginRefused):
            state.is_refused = True
            answer.resolve(BEARER_REFUSED)
        else:
            tell(b"", caller)

    def _say(
        self,
        said: bytes,
        caller: Caller | LoginRefused,
        state: Authentication,
        connection: ConnectionState,
        reply: Reply,
    ) -> bytes | str:
        if isinstance(caller, LoginRefused) or state.is_closed:
            return FAILED
        if state.name not in (None, caller.name):
            return OTHER_PRINCIPAL
        state.mechanism = state.exchange = None
        self._admit(caller, state, connection, reply, caller.name)
        return said

    def _admit(
        self, caller: Caller, state: Authentication, connection: ConnectionState, reply: Reply, name: str
    ) -> None:
        def close(reason: str) -> None:
            log.info("a connection is closed: %s", reason)
            connection.is_authenticated = False
            reply.refuse()

        state.admit(caller, close)
        connection.authenticate(name)

    def _authenticated(self, said: bytes | str, state: Authentication, reply: Reply) -> Body:
        if isinstance(said, str):
            reply.end()
            return _refused(ErrorCode.SASL_AUTHENTICATION_FAILED, said)
        body: Body = {"error_code": ErrorCode.NONE, "error_message": None, "auth_bytes": said}
        if state.mechanism is None and state.expires_ms is not None:
            # KIP-368: before this time is over the client authenticates again.
            body["session_lifetime_ms"] = max(1, state.expires_ms - self._clock.now_ms())
        return body

    async def _authenticate_later(self, answer: Answer[bytes | str], state: Authentication, reply: Reply) -> Body:
        return self._authenticated(await answer, state, reply)


def _plain(message: bytes) -> tuple[str, bytes] | None:
    """Name and password (RFC 4616): before them who to act as, a zero byte between the three; nobody acts as another."""
    parts = message.split(b"\0")
    if len(parts) != 3 or not parts[1] or parts[0] not in (b"", parts[1]):
        return None
    try:
        return parts[1].decode(), parts[2]
    except UnicodeDecodeError:
        return None


def _bearer(message: bytes) -> str | None:
    """The token (RFC 7628); what follows a refusal counts as one, too."""
    if message == b"\x01":
        return ""
    head, *pairs = message.split(b"\x01")
    if not head.startswith(b"n,") or pairs[-2:] != [b"", b""]:
        return None
    found = [pair[len(b"auth=") :] for pair in pairs if pair.startswith(b"auth=")]
    scheme, _, token = found[0].partition(b" ") if len(found) == 1 else (b"", b"", b"")
    return token.strip().decode("ascii", "replace") if scheme.lower() == b"bearer" else None


def _refused(code: ErrorCode, message: str) -> Body:
    return {"error_code": code, "error_message": message, "auth_bytes": b""}
