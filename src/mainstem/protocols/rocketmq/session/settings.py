"""What RocketMQ clients may do and cost. The defaults are RocketMQ's where it has one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mainstem.model.bounds import Positive

MESSAGE_BYTES_MAX = 4 << 20


class RemotingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of the broker's listener."""

    anybody_from_anywhere: bool = False
    """Listen beyond this machine, although nobody has to say who it is."""
    cluster_name: str = "DefaultCluster"
    """What administrators name in their commands."""
    broker_name: str = "mainstem"
    """The one broker of the cluster, as routes name it."""
    frame_bytes_max: Annotated[int, msgspec.Meta(ge=65_536, le=512 << 20)] = 16 << 20
    """Largest request."""
    message_bytes_max: Annotated[int, msgspec.Meta(ge=1, le=128 << 20)] = MESSAGE_BYTES_MAX
    """Largest body of a message, decompressed."""
    queues_default: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 8
    """Queues of a topic that comes with its first message; a client may wish for fewer."""
    requests_in_flight_max: Positive = 10_000
    """Of one connection, pulls that wait included; above it the connection is not read."""
    reconsume_times_max: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 16
    """Retries of a message before it is a dead letter, where its consumer does not say."""


class GrpcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of the gRPC listener."""

    anybody_from_anywhere: bool = False
    """Listen beyond this machine, although nobody has to say who it is."""
    message_bytes_max: Annotated[int, msgspec.Meta(ge=1, le=128 << 20)] = MESSAGE_BYTES_MAX
    """Largest body of a message, decompressed."""
    queues_default: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 8
    """Queues of a topic that comes with its first use."""
    delivery_attempts_max: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 17
    """Deliveries of a message before it is a dead letter."""
    streams_max: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1_000
    """Calls of one connection at the same time."""


class NamesSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of the name server's listener."""

    anybody_from_anywhere: bool = False
    """Listen beyond this machine, although nobody has to say who it is."""
    frame_bytes_max: Annotated[int, msgspec.Meta(ge=4_096, le=512 << 20)] = 1 << 20
    """Largest request."""
    requests_in_flight_max: Positive = 1_000
    """Of one connection."""
