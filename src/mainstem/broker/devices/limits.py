"""What devices may cost."""

from __future__ import annotations

import msgspec

from mainstem.model.bounds import Positive


class DeviceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Of each namespace."""

    sessions_max: Positive = 1_000_000
    """Sessions, connected or not."""
    subscriptions_max: Positive = 1_000
    """Subscriptions of one session."""
    waiting_messages_max: Positive = 10_000
    """Messages of QoS 1 and 2 that wait for one session or one shared subscription. Newer ones are dropped and counted."""
    waiting_bytes_max: Positive = 16 << 20
    """Bytes of messages of QoS 1 and 2 that wait in memory for one client whose session ends with its connection."""
    session_expiry_s_max: Positive = 30 * 86_400
    """How long a session is kept without a connection, whatever its client wishes."""
    retained_messages_max: Positive = 1_000_000
    retained_bytes_max: Positive = 256 << 20
    """Names and payloads of retained messages, which are in memory."""
    partitions: Positive = 8
    """Of a topic that is made for messages of devices."""
    message_bytes_max: Positive = 1 << 20
    """Largest record of a topic that is made for them."""
