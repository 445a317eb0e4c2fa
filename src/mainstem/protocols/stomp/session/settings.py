"""What STOMP clients may do and cost. The defaults are RabbitMQ's where it has one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mainstem.model.bounds import NotNegative, Positive

HEAD_BYTES_MIN = 1_024


class StompSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits, and who a client is that does not say."""

    default_user: str = "guest"
    """Who a client is that sends no `login`; empty: nobody, it is refused."""
    default_password_file: str | None = None
    """File that holds the password of that user; without it the password is the user's name, as it is of `guest`."""
    implicit_connect: bool = False
    """Whether a client that does not begin with CONNECT is the default user, and speaks 1.0."""
    default_virtual_host: str = "/"
    """Where a client works that sends no `host`."""
    anybody_from_anywhere: bool = False
    """Let `guest` in from other machines, too."""
    head_bytes_max: Annotated[int, msgspec.Meta(ge=HEAD_BYTES_MIN, le=1 << 20)] = 65_536
    """Command and headers of a frame."""
    headers_max: Annotated[int, msgspec.Meta(ge=16, le=10_000)] = 1_000
    """Headers of a frame."""
    message_bytes_max: Annotated[int, msgspec.Meta(ge=1, le=512 << 20)] = 16 << 20
    """Largest body of a frame."""
    handshake_timeout_ms: Positive = 10_000
    """From the connection to CONNECTED."""
    subscriptions_max: Positive = 2_000
    """Subscriptions of one connection."""
    transactions_max: Positive = 16
    """Transactions of one connection at the same time."""
    transaction_frames_max: Positive = 10_000
    """Frames of one transaction."""
    consumer_timeout_ms: NotNegative = 1_800_000
    """How long a delivery may stay unacknowledged before its connection is closed; 0: for ever."""
    in_flight_bytes_max: Positive = 32 << 20
    """Published bytes of one connection that may wait for the disk; above it the connection is not read."""
    default_nack_requeue: bool = True
    """Whether NACK without a `requeue` header gives the message back; else it is a dead letter, or gone."""


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of the listener for WebSocket; all else is as the settings of STOMP say."""

    path: str = "/ws"
    """Where pages find it."""
    origins: tuple[str, ...] = ()
    """Pages of other sites that may connect, as `https://shop.example`; `*`: all. Those of this machine, or of this host, may."""
