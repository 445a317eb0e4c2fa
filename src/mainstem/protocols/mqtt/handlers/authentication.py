"""Who a client is: by name and password, by a token in place of a password, by SCRAM in AUTH packets of version 5, by the
certificate of its connection, or by nothing where that is let in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainstem.broker.users.callers import Caller, LoginRefused
from mainstem.protocols.mqtt.codec.encoding import encode_auth
from mainstem.protocols.mqtt.codec.packets import Auth, Connect
from mainstem.protocols.mqtt.errors import MqttError, Reason, protocol_error
from mainstem.wire.scram import HASHES, MalformedScram, ScramExchange

if TYPE_CHECKING:
    from mainstem.model.endpoints import Endpoints
    from mainstem.protocols.mqtt.handlers.node import Node
    from mainstem.protocols.mqtt.session.machine import MqttSession


class Authentication:
    """Of one connection. `admit` is told who it is, once for CONNECT and once for each time that the client proves it again."""

    __slots__ = (
        "_admit",
        "_door",
        "_endpoints",
        "_exchange",
        "_mqtt",
        "_node",
        "method",
    )

    def __init__(
        self, node: Node, mqtt: MqttSession, endpoints: Endpoints, admit: Callable[[Caller, bytes], None]
    ) -> None:
        self._node = node
        self._door = node.broker.door
        self._mqtt = mqtt
        self._endpoints = endpoints
        self._admit = admit
        self.method = ""
        self._exchange: ScramExchange | None = None

    def begin(self, packet: Connect, user: str | None) -> None:
        """CONNECT. Raises MqttError."""
        self.method = packet.properties.get("authentication_method", "")
        if self.method:
            self._begin_scram()
            self._step(packet.properties.get("authentication_data", b""))
        elif user is None:
            certificate = self._endpoints.certificate
            names_user = certificate is not None and bool(certificate.user)
            admit = self._door.log_in_with_certificate if names_user else self._door.admit_anonymous
            try:
                caller = admit(self._node.listener, self._endpoints)
            except LoginRefused as refusal:
                raise MqttError(Reason.NOT_AUTHORIZED, str(refusal)) from None
            self._admit(caller, b"")
        else:
            self._door.ask_password(
                self._node.listener,
                user,
                packet.password or b"",
                self._endpoints,
                lambda answer: self._tell(b"", answer, Reason.BAD_USER_NAME_OR_PASSWORD),
            )

    def go_on(self, packet: Auth) -> None:
        """AUTH: the next message of the client, or the first of another proof. Raises MqttError."""
        if not self.method or packet.properties.get("authentication_method") != self.method:
            raise protocol_error("AUTH of another method than CONNECT")
        if packet.reason == Reason.REAUTHENTICATE:
            if not self._mqtt.is_running or self._exchange is not None:
                raise protocol_error("there is nothing to prove again yet")
            self._begin_scram()
        elif packet.reason != Reason.CONTINUE_AUTHENTICATION or self._exchange is None:
            raise protocol_error("AUTH goes on with what has begun")
        self._step(packet.properties.get("authentication_data", b""))

    def _begin_scram(self) -> None:
        if self.method not in HASHES:
            raise MqttError(Reason.BAD_AUTHENTICATION_METHOD, f"methods are {', '.join(HASHES)}")
        self._exchange = self._door.begin_scram(self._node.listener, self.method)

    def _step(self, data: bytes) -> None:
        exchange = self._exchange
        assert exchange is not None
        if exchange.has_begun:
            self._door.finish_scram(
                self._node.listener,
                exchange,
                data,
                self._endpoints,
                lambda said, answer: self._tell(said, answer, Reason.NOT_AUTHORIZED),
            )
            return
        said = b""
        if data:  # a client that has said nothing yet is asked to begin
            try:
                said = exchange.answer(data)[0]
            except MalformedScram:
                self._door.refuse(self._node.listener, self._endpoints)
                raise MqttError(Reason.NOT_AUTHORIZED, "the proof cannot be read") from None
        facts = {"authentication_method": self.method, "authentication_data": said}
        packet = encode_auth(Reason.CONTINUE_AUTHENTICATION, facts)
        if self._mqtt.is_running:
            self._mqtt.say(packet)
        else:
            self._mqtt.challenge(packet)

    def _tell(self, said: bytes, answer: Caller | LoginRefused, reason: Reason) -> None:
        self._exchange = None
        if self._mqtt.finished:
            return
        if isinstance(answer, LoginRefused):
            self._mqtt.fail(reason, str(answer))
        else:
            self._admit(answer, said)
