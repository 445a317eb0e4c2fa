"""What all AMQP connections of a broker share."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from mainstem.broker.broker import Broker
from mainstem.broker.users.callers import Caller, LoginRefused
from mainstem.broker.users.door import Told
from mainstem.model.endpoints import Endpoints
from mainstem.protocols.amqp.codec.field_table import Field, Table, decode_table, text
from mainstem.protocols.amqp.errors import AmqpError, fail
from mainstem.protocols.amqp.handlers.dialect import introduce
from mainstem.protocols.amqp.handlers.meters import Meters
from mainstem.protocols.amqp.session import AmqpSettings

if TYPE_CHECKING:
    from mainstem.protocols.amqp.handlers.channel import Channel

log = logging.getLogger(__name__)

NAME = "amqp"
EXTERNAL, ANONYMOUS = "EXTERNAL", "ANONYMOUS"

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
"""Runs a coroutine to its end, on the broker's thread."""

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
COMPATIBLE_VERSION = "4.2.0"
"""The RabbitMQ whose behaviour this is: clients look at it to find out what they can ask for."""


class Node:
    """The broker, the settings, and who is connected."""

    def __init__(
        self,
        broker: Broker,
        settings: AmqpSettings,
        version: str,
        spawn: Spawn,
        meters: Meters,
        *,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.broker = broker
        self.settings = settings
        self.spawn = spawn
        self.meters = meters
        dialect = introduce(broker)
        self.envelopes = dialect.envelopes
        self.connections = dialect.clients
        self.reply_channels: dict[str, Channel] = {}
        """Who listens for direct replies, by the name it was given for that."""
        self._version = version
        self._random = random
        self._connected = 0

    def has_namespace(self, namespace: str) -> bool:
        """Whether there is such a virtual host."""
        return self.broker.namespaces.find(namespace) is not None

    def new_connection_name(self) -> str:
        """By which administrators know one that has no address."""
        self._connected += 1
        return f"amqp-{self._connected}"

    def new_name(self, prefix: str) -> str:
        """A name that nobody can guess."""
        return f"{prefix}{self._random(16).hex()}"

    def server_properties(self) -> Table:
        """What clients are told of the server."""
        return {
            "capabilities": Field("table", {name: Field("bool", True) for name in CAPABILITIES}),
            "cluster_name": text(self.broker.cluster_name),
            "information": text(f"Mainstem {self._version}"),
            "platform": text("Mainstem"),
            "product": text("RabbitMQ"),
            "version": text(COMPATIBLE_VERSION),
        }

    def mechanisms(self, endpoints: Endpoints) -> list[str]:
        """By which a client of this connection may say who it is."""
        external = [EXTERNAL] if endpoints.certificate is not None and endpoints.certificate.user else []
        anonymous = [ANONYMOUS] if self.broker.door.may_be_anonymous(NAME, endpoints) else []
        return [*external, "AMQPLAIN", "PLAIN", *anonymous]

    def _admit(self, admit: Callable[[str, Endpoints], Caller], endpoints: Endpoints) -> Caller | LoginRefused:
        try:
            return admit(NAME, endpoints)
        except LoginRefused as refusal:
            return refusal

    def authenticate(self, mechanism: str, response: bytes, endpoints: Endpoints, tell: Told) -> None:
        """Who it is, now or later. Raises AmqpError for what cannot be understood."""
        if mechanism == "PLAIN":
            user, password = _plain(response)
        elif mechanism == "AMQPLAIN":
            user, password = _amqplain(response)
        elif mechanism == ANONYMOUS:
            tell(self._admit(self.broker.door.admit_unnamed, endpoints))
            return
        elif mechanism == EXTERNAL and EXTERNAL in self.mechanisms(endpoints):
            tell(self._admit(self.broker.door.log_in_with_certificate, endpoints))
            return
        else:
            fail(503, f"unknown authentication mechanism '{mechanism}'")
        self.broker.door.ask_password(NAME, user, password, endpoints, tell)


def _plain(response: bytes) -> tuple[str, bytes]:
    """RFC 4616: who to act as, who it is, password; the first is not used."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        fail(502, "response 'invalid' is not a PLAIN response")
    return parts[1].decode("utf-8", "replace"), parts[2]


def _amqplain(response: bytes) -> tuple[str, bytes]:
    """A field table without its length."""
    try:
        table = decode_table(response, 0, len(response))
    except (AmqpError, IndexError):
        fail(502, "response is not an AMQPLAIN response")
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if login is None or password is None or login.type != "longstr" or password.type != "longstr":
        fail(502, "AMQPLAIN auth info is missing LOGIN or PASSWORD field")
    return login.value.decode("utf-8", "replace"), password.value
