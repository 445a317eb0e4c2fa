"""What consumers tell each other through a classic group: opaque bytes to the coordinator, but not to a client.

Both messages begin with their version. A newer version than we know is read as the newest that we do: fields are only
ever added at the end.
"""

from typing import Any

from mainstem.wire.errors import UnknownMessage
from mainstem.wire.kafka.codec import decode_message, encode_message
from mainstem.wire.kafka.reader import INT16, Buffer, Reader
from mainstem.wire.kafka.schema import Message

PROTOCOL_TYPE = "consumer"

SUBSCRIPTION = Message(
    "ConsumerProtocolSubscription",
    (0, 3),
    None,
    """
        topics: []string
        user_data: bytes? default=null
        owned_partitions: []TopicPartition 1+
            topic: string
            partitions: []int32
        generation_id: int32 2+ default=-1
        rack_id: string? 3+ default=null
    """,
)

ASSIGNMENT = Message(
    "ConsumerProtocolAssignment",
    (0, 3),
    None,
    """
        assigned_partitions: []TopicPartition
            topic: string
            partitions: []int32
        user_data: bytes? default=null
    """,
)


def encode_subscription(value: Any, version: int = SUBSCRIPTION.versions.last) -> bytearray:
    """What a member wants."""
    return _encode(SUBSCRIPTION, version, value)


def decode_subscription(buffer: Buffer) -> tuple[int, Any]:
    """The version that was sent, and what the member wants."""
    return _decode(SUBSCRIPTION, buffer)


def encode_assignment(value: Any, version: int = ASSIGNMENT.versions.last) -> bytearray:
    """What a member gets."""
    return _encode(ASSIGNMENT, version, value)


def decode_assignment(buffer: Buffer) -> tuple[int, Any]:
    """The version that was sent, and what the member gets."""
    return _decode(ASSIGNMENT, buffer)


def _encode(message: Message, version: int, value: Any) -> bytearray:
    out = bytearray(INT16.pack(version))
    encode_message(out, message, version, value)
    return out


def _decode(message: Message, buffer: Buffer) -> tuple[int, Any]:
    version: int = Reader(buffer).unpack(INT16)[0]
    if version < 0:
        raise UnknownMessage(f"{message.name} has no version {version}")
    value, _ = decode_message(message, min(version, message.versions.last), buffer, INT16.size)
    return version, value
