"""CONNECT: version, user, virtual host, heart-beats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem.broker.users.callers import Caller, LoginRefused
from mainstem.protocols.stomp.codec.escapes import V1_0, VERSIONS
from mainstem.protocols.stomp.codec.frames import Head, encode_frame
from mainstem.protocols.stomp.errors import StompError, invalid_header
from mainstem.protocols.stomp.handlers.node import NAME
from mainstem.protocols.stomp.mapping.words import namespace_of

if TYPE_CHECKING:
    from mainstem.protocols.stomp.handlers.connection import StompConnection

HEARTBEAT_MS_MAX = (1 << 31) - 1


def log_in(connection: StompConnection, head: Head | None) -> None:
    """Answer CONNECT, or let the default user in without an answer. Raises StompError."""
    headers: Mapping[str, str] = {} if head is None else head.headers
    settings, session = connection.node.settings, connection.session
    version = _version(headers.get("accept-version", V1_0))
    hears_s, speaks_s = _heartbeats(headers.get("heart-beat", "0,0"))
    user = headers.get("login", settings.default_user)
    if not user:
        raise StompError("Bad CONNECT", "Access refused: no login\n")
    if "passcode" in headers or "login" in headers:
        password = headers.get("passcode", connection.node.default_password)
    else:
        password = connection.node.default_password
    host = headers.get("host", settings.default_virtual_host)
    session.hold()

    def tell(caller: Caller | LoginRefused) -> None:
        if not session.finished:
            try:
                if isinstance(caller, LoginRefused):
                    raise StompError("Bad CONNECT", f"Access refused for user '{user}'\n")
                _enter(connection, caller, host)
                session.connected(version, hears_s, speaks_s)
                if head is not None:
                    _greet(connection, version, hears_s, speaks_s)
            except StompError as error:
                session.fail(error)
        session.release()

    door, endpoints = connection.node.broker.door, connection.endpoints
    if "login" not in headers and endpoints.certificate is not None and endpoints.certificate.user:
        try:
            tell(door.log_in_with_certificate(NAME, endpoints))
        except LoginRefused as refusal:
            tell(refusal)
        return
    door.ask_password(NAME, user, password.encode(), endpoints, tell)


def _version(accepted: str) -> str:
    common = [version for version in VERSIONS if version in [one.strip() for one in accepted.split(",")]]
    if not common:
        raise StompError("Version mismatch", f"Supported versions are {','.join(VERSIONS)}\n")
    return common[-1]


def _heartbeats(text: str) -> tuple[int, int]:
    """How often the client sends and wants to hear something, in seconds: we look at the time once a second."""
    numbers = [part.strip() for part in text.split(",")]
    if len(numbers) != 2 or not all(number.isascii() and number.isdecimal() for number in numbers):
        invalid_header("'heart-beat' is two numbers")
    sends_ms, wants_ms = (min(int(number[:12]), HEARTBEAT_MS_MAX) for number in numbers)
    return _seconds(sends_ms), _seconds(wants_ms)


def _seconds(ms: int) -> int:
    return max(ms // 1_000, 1) if ms else 0


def _enter(connection: StompConnection, caller: Caller, host: str) -> None:
    """The virtual host to work in. Raises StompError."""
    broker = connection.node.broker
    namespace = namespace_of(host)
    found = broker.namespaces.find(namespace)
    if found is None and connection.node.is_machine(host):
        # The standard recommends to send the name that one has connected to; stomp.py does.
        host = connection.node.settings.default_virtual_host
        namespace = namespace_of(host)
        found = broker.namespaces.find(namespace)
    if found is None or not caller.may_enter(namespace):
        raise StompError("Bad CONNECT", f"Virtual host '{host}' access denied")
    callers = broker.access.callers
    limit = found.limits.get("max-connections", -1)
    if 0 <= limit <= sum(other.namespace == namespace for others in callers.values() for other in others):
        raise StompError("Bad CONNECT", "Connection refused: vhost connection limit reached")
    user = broker.access.find(caller.name)
    limit = -1 if user is None else user.limits.get("max-connections", -1)
    if 0 <= limit <= len(callers.get(caller.name, ())):
        raise StompError("Bad CONNECT", "Connection refused: user connection limit reached")
    connection.enter(caller, host, namespace)


def _greet(connection: StompConnection, version: str, hears_s: int, speaks_s: int) -> None:
    headers = [
        ("server", connection.node.server),
        ("session", connection.session_id),
        ("heart-beat", f"{speaks_s * 1_000},{hears_s * 1_000}"),
        ("version", version),
    ]
    connection.session.say(encode_frame("CONNECTED", headers, version=version))
