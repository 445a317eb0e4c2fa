"""CONNECT: who the client is. Without a login it is `anonymous`, where the door lets it in."""

from __future__ import annotations

from typing import Any

from mainstem.broker.users.callers import Caller, LoginRefused
from mainstem.broker.users.door import Door
from mainstem.protocols.pulsar.codec.schema import UINT64_MAX, Kind
from mainstem.protocols.pulsar.errors import ServerError
from mainstem.protocols.pulsar.handlers.calls import Handler, Speaker
from mainstem.protocols.pulsar.session.settings import PulsarSettings

PROTOCOL_VERSION = 21
LISTENER = "pulsar"


class Login:
    """For all connections."""

    def __init__(self, door: Door, settings: PulsarSettings, version: str) -> None:
        self._door = door
        self._settings = settings
        self._version = version

    def handlers(self) -> dict[int, Handler]:
        """By type."""
        return {Kind.CONNECT: self.connect}

    def connect(self, connection: Speaker, said: Any) -> None:
        """The first command: nothing else is looked at before it is known who speaks."""
        connection.is_connected = True
        session, endpoints = connection.session, connection.endpoints
        library, _, version = said.client_version.rpartition("-v")
        session.peer.introduce(library or said.client_version, version)
        session.hold()

        def tell(answer: Caller | LoginRefused) -> None:
            if connection.is_closed:
                return
            if isinstance(answer, LoginRefused):
                connection.say(Kind.ERROR, request_id=UINT64_MAX, error=ServerError.AUTHENTICATION, message=str(answer))
                session.end()
            else:
                connection.enter(answer)
                self._greet(connection, said)
            session.release()

        try:
            match said.auth_method_name:
                case "" | "none":
                    tell(self._door.admit_anonymous(LISTENER, endpoints))
                case "basic":
                    name, _, password = said.auth_data.partition(b":")
                    self._door.ask_password(LISTENER, name.decode("utf-8", "replace"), password, endpoints, tell)
                case "token":
                    self._door.ask_token(LISTENER, said.auth_data.decode("ascii", "replace"), endpoints, tell)
                case "tls":
                    tell(self._door.log_in_with_certificate(LISTENER, endpoints))
                case _:
                    tell(self._door.refuse(LISTENER, endpoints))
        except LoginRefused as refusal:
            tell(refusal)

    def _greet(self, connection: Speaker, said: Any) -> None:
        connection.say(
            Kind.CONNECTED,
            server_version=f"Mainstem {self._version}",
            protocol_version=min(said.protocol_version, PROTOCOL_VERSION),
            max_message_size=self._settings.message_bytes_max,
            feature_flags={"supports_get_partitioned_metadata_without_auto_creation": True},
        )
