"""What AMQP clients may do and cost. The defaults are RabbitMQ's where it has one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mainstem.model.bounds import NotNegative, Positive

FRAME_BYTES_MIN = 4096
"""What every peer can take (AMQP 0-9-1, 4.2.3)."""


class AmqpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and the one user."""

    user: str | None = None
    """Who may connect; besides, `guest` may, where only this machine can."""
    password_file: str | None = None
    """File that holds the password of the user, so that it is in no command line and no listing."""
    anybody_from_anywhere: bool = False
    """Listen beyond this machine even without a user, and let `guest` in there too."""
    channel_max: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 2_047
    """Channels of one connection."""
    frame_bytes_max: Annotated[int, msgspec.Meta(ge=FRAME_BYTES_MIN, le=16 << 20)] = 131_072
    """Largest frame, both ways."""
    heartbeat_s: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 60
    """Proposed to clients, who decide; 0 proposes none."""
    message_bytes_max: Annotated[int, msgspec.Meta(ge=1, le=512 << 20)] = 16 << 20
    """Largest body of a message."""
    handshake_timeout_ms: Positive = 10_000
    """From the connection to the open virtual host."""
    consumers_per_channel_max: NotNegative = 0
    """Consumers of one channel; 0 sets no limit."""
    consumer_timeout_ms: NotNegative = 1_800_000
    """How long a delivery may stay unacknowledged before its channel is closed; 0: for ever."""
    in_flight_bytes_max: Positive = 32 << 20
    """Published bytes of one connection that may wait for the disk; above it the connection is not read."""
