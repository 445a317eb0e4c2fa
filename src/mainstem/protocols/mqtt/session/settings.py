"""What MQTT clients may do and cost."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mainstem.model.bounds import NotNegative, Positive


class MqttSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of the listener, and of the one for WebSocket."""

    anonymous: bool = True
    """Clients without a user name are let in, with every right."""
    anybody_from_anywhere: bool = False
    """Listen beyond this machine, although nobody has to say who it is."""
    packet_bytes_max: Annotated[int, msgspec.Meta(ge=256, le=1 << 20)] = 768 << 10
    """Largest packet."""
    receive_maximum: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 1_000
    """Messages of QoS 1 and 2 that a client may send before the first of them is acknowledged."""
    in_flight_max: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 1_000
    """Messages of QoS 1 and 2 that a client is given before it acknowledges; a client may wish for fewer."""
    topic_alias_maximum: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 100
    """Aliases of one connection, each way; a client may wish for fewer."""
    keep_alive_s_max: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    """A client of version 5 that wishes for a longer keep-alive, or for none, is told this one; 0: as it wishes."""
    connect_timeout_s: Positive = 10
    """How long a client may take to say who it is."""
    output_bytes_max: Annotated[int, msgspec.Meta(ge=1 << 10)] = 4 << 20
    """Bytes that wait for one client; above it, messages of QoS 0 are dropped and counted."""
    sys_interval_s: NotNegative = 10
    """How often `$SYS` is published; 0: never."""


class MqttWebSocketSettings(MqttSettings, frozen=True, kw_only=True):
    """The same over WebSocket."""

    message_bytes_max: Positive = 16 << 20
    """Largest message of WebSocket, which may have several packets in it."""
