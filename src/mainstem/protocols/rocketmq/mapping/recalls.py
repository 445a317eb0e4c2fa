"""Handles by which clients of the remoting protocol recall a message that is not due.

A client takes the broker's name out of the handle, so the form is RocketMQ's: `v1 TOPIC BROKER TIME ID` in URL-safe base64.
"""

from __future__ import annotations

import base64
import binascii

from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode

ID_BYTES = 16
HANDLE_CHARACTERS_MAX = 1_024


def encode_handle(topic: str, broker: str, due_ms: int, scheduled: str) -> str:
    """The handle of a scheduled record."""
    return base64.urlsafe_b64encode(f"v1 {topic} {broker} {due_ms} {scheduled}".encode()).decode()


def decode_handle(handle: str, topic: str) -> bytes:
    """The id of the scheduled record. Raises RequestRefused."""
    try:
        if len(handle) > HANDLE_CHARACTERS_MAX:
            raise ValueError
        version, named, _, _, scheduled = base64.urlsafe_b64decode(handle).decode().split(" ")
        found = bytes.fromhex(scheduled)
    except (ValueError, binascii.Error):
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, "this is no recall handle") from None
    if version != "v1" or named != topic or len(found) != ID_BYTES:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"this is no recall handle of topic {topic}")
    return found
