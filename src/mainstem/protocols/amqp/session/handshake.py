"""From the protocol header to the open virtual host: who it is, which sizes hold, where it works."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mainstem.protocols.amqp.codec.field_table import Field
from mainstem.protocols.amqp.codec.methods import Method
from mainstem.protocols.amqp.errors import ConnectionError_, not_allowed
from mainstem.protocols.amqp.session.settings import FRAME_BYTES_MIN
from mainstem.protocols.amqp.session.state import AmqpState

if TYPE_CHECKING:
    from mainstem.protocols.amqp.session.machine import AmqpSession

log = logging.getLogger(__name__)

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
ACCEPTED_HEADERS = (PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09")
"""Of 0-9-1, and of 0-9, which is near enough."""
LOCALES = "en_US"


def greet(session: AmqpSession, header: bytes) -> int:
    """Answer the protocol header; answers how much of it was used."""
    if header not in ACCEPTED_HEADERS:
        session.say(PROTOCOL_HEADER)
        session.end()
        return 0
    session.enter(AmqpState.STARTING)
    session.send(
        0,
        "connection.start",
        version_major=0,
        version_minor=9,
        server_properties=session.connection.properties(),
        mechanisms=" ".join(session.connection.mechanisms()),
        locales=LOCALES,
    )
    return len(header)


def log_in(session: AmqpSession, method: Method) -> None:
    """connection.start-ok."""
    session.client_properties = method["client_properties"]
    capabilities = session.client_properties.get("capabilities")
    if capabilities is not None and capabilities.type == "table":
        session.capabilities = frozenset(
            name for name, field in capabilities.value.items() if field == Field("bool", True)
        )
    mechanism = method["mechanism"]
    session.hold()

    def answer(is_proven: bool) -> None:
        if not session.finished:
            _answer_login(session, mechanism, is_proven)
        session.release()

    session.connection.login(mechanism, method["response"], answer)


def _answer_login(session: AmqpSession, mechanism: str, is_proven: bool) -> None:
    if not is_proven:
        if "authentication_failure_close" in session.capabilities:
            told = ConnectionError_(
                403,
                f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile.",
            )
            session.send(0, "connection.close", reply_code=403, reply_text=told.text)
        session.end()
        return
    session.enter(AmqpState.TUNING)
    settings = session.settings
    session.send(
        0,
        "connection.tune",
        channel_max=settings.channel_max,
        frame_max=settings.frame_bytes_max,
        heartbeat=settings.heartbeat_s,
    )


def tune(session: AmqpSession, method: Method) -> None:
    """connection.tune-ok."""
    frame_max, channel_max = method["frame_max"], method["channel_max"]
    _check_negotiated("frame_max", frame_max, FRAME_BYTES_MIN, session.settings.frame_bytes_max)
    _check_negotiated("channel_max", channel_max, 1, session.settings.channel_max)
    session.payload_bytes_max = frame_max - 8
    session.reader.payload_bytes_max = frame_max
    session.channel_max = channel_max
    session.heartbeat.interval_s = method["heartbeat"]
    session.enter(AmqpState.OPENING)


def open_host(session: AmqpSession, method: Method) -> None:
    """connection.open."""
    session.connection.open_host(method["virtual_host"])
    session.enter(AmqpState.RUNNING)
    session.send(0, "connection.open-ok")


def update_secret(session: AmqpSession, method: Method) -> None:
    """connection.update-secret."""
    session.hold()

    def answer(is_taken: bool) -> None:
        if not session.finished:
            if is_taken:
                session.send(0, "connection.update-secret-ok")
            else:
                log.warning("a new secret is refused")
                session.fail(ConnectionError_(530, "New secret was refused by one of the backends"))
        session.release()

    session.connection.update_secret(method["new_secret"], answer)


def _check_negotiated(name: str, value: int, least: int, most: int) -> None:
    if value and value < least:
        not_allowed(f"negotiated {name} = {value} is lower than the minimum allowed value ({least})")
    if value == 0 or value > most:
        detail = " (no limit)" if value == 0 else ""
        not_allowed(f"negotiated {name} = {value}{detail} is higher than the maximum allowed value ({most})")
