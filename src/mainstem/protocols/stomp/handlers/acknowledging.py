"""ACK and NACK. A delivery is named by its `message-id`, in 1.2 by its `ack`: consumer tag, session and number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.broker.queues import Message
from mainstem.protocols.stomp.codec.escapes import V1_2
from mainstem.protocols.stomp.codec.frames import Head
from mainstem.protocols.stomp.errors import StompError
from mainstem.protocols.stomp.handlers.subscription import SEPARATOR, Subscription
from mainstem.protocols.stomp.mapping.declarations import read_boolean

if TYPE_CHECKING:
    from mainstem.protocols.stomp.handlers.connection import StompConnection

NUMBER_DIGITS_MAX = 18


def acknowledge(connection: StompConnection, head: Head, body: bytes) -> None:
    """ACK."""
    _decide(connection, head, "settle")


def refuse(connection: StompConnection, head: Head, body: bytes) -> None:
    """NACK: given back, or, with `requeue:false`, given up."""
    requeue = head.headers.get("requeue")
    is_requeued = connection.node.settings.default_nack_requeue if requeue is None else read_boolean("requeue", requeue)
    _decide(connection, head, "requeue" if is_requeued else "reject")


def _decide(connection: StompConnection, head: Head, verdict: str) -> None:
    transaction = head.headers.get("transaction")
    if transaction is not None:
        # Whether it is a delivery that waits is asked at the commit: an ABORT leaves it waiting.
        parse_delivery(connection, head)
        connection.transactions.get(transaction).decide(connection, head, verdict)
        return
    subscription, messages = take(connection, head)
    carry_out(connection, subscription, verdict, messages)


def take(connection: StompConnection, head: Head) -> tuple[Subscription, list[Message]]:
    """The deliveries that a frame names; they wait no longer. Raises StompError."""
    tag, number = parse_delivery(connection, head)
    subscription = connection.subscriptions.get(tag)
    messages = [] if subscription is None else subscription.take(number)
    if not messages:
        for ended in connection.ended:
            if ended.tag == tag and (messages := ended.take(number)):
                subscription = ended
                break
        connection.ended = [ended for ended in connection.ended if ended.unacked]
    if subscription is None or not messages:
        raise StompError("Message not found", f"unknown delivery tag {number}\n")
    return subscription, messages


def parse_delivery(connection: StompConnection, head: Head) -> tuple[str, int]:
    """Consumer tag and number of the delivery that a frame names. Raises StompError."""
    name = "id" if connection.session.version == V1_2 else "message-id"
    text = head.headers.get(name)
    if text is None:
        raise StompError("Missing header", f"{head.command} must include the '{name}' header\n")
    parts = text.rsplit(SEPARATOR, 2)
    if (
        len(parts) != 3
        or parts[1] != connection.session_id
        or not (parts[2].isascii() and parts[2].isdecimal() and len(parts[2]) <= NUMBER_DIGITS_MAX)
    ):
        raise StompError("Invalid header", f"{head.command} must include a valid '{name}' header\n")
    return parts[0], int(parts[2])


def carry_out(connection: StompConnection, subscription: Subscription, verdict: str, messages: list[Message]) -> None:
    """Do with deliveries what was said."""
    if verdict == "settle":
        connection.settle(subscription, messages)
        return
    connection.flush_settled()
    connection.relieve(subscription)
    if verdict == "requeue":
        connection.settling.requeue(messages, failed=True)
    else:
        connection.settling.reject(messages)


FRAMES = {"ACK": acknowledge, "NACK": refuse}
