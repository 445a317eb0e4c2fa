"""`$SYS`: what the broker says about itself, computed when it is asked for and in intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.broker.devices import DeviceMessage, DeviceSpace
from mainstem.broker.devices.levels import fits
from mainstem.broker.queues import encode_headers

if TYPE_CHECKING:
    from mainstem.protocols.mqtt.handlers.node import Node

SYSTEM_PREFIX = "$SYS"


def system_messages(node: Node, space: DeviceSpace, text: str | None = None) -> list[DeviceMessage]:
    """Those that fit a filter; None: all."""
    messages: list[DeviceMessage] = []
    for name, value in system_values(node, space).items():
        if text is None or fits(text, name):
            headers = encode_headers([("mqtt.topic", name.encode()), ("mqtt.qos", b"0")])
            messages.append(DeviceMessage(name, value.encode(), 0, True, headers))
    return messages


def system_values(node: Node, space: DeviceSpace) -> dict[str, str]:
    """By topic, in mosquitto's words."""
    sessions = space.sessions.values()
    connected = sum([session.receiver is not None for session in sessions])
    counts = space.counts
    return {
        "$SYS/broker/version": f"mainstem version {node.version}",
        "$SYS/broker/uptime": f"{int(node.uptime_s)} seconds",
        "$SYS/broker/clients/total": str(len(sessions)),
        "$SYS/broker/clients/connected": str(connected),
        "$SYS/broker/clients/disconnected": str(len(sessions) - connected),
        "$SYS/broker/subscriptions/count": str(space.subscription_count),
        "$SYS/broker/retained messages/count": str(len(space.retained)),
        "$SYS/broker/messages/received": str(counts["received"]),
        "$SYS/broker/messages/sent": str(counts["sent"]),
        "$SYS/broker/publish/messages/dropped": str(counts["dropped"]),
    }


def publish_in_intervals(node: Node) -> None:
    """Give `$SYS` out to its subscribers, again and again. One listener does it for all."""
    interval_s = node.settings.sys_interval_s
    if not interval_s or not node.broker.devices.claim("$SYS"):
        return

    def publish() -> None:
        for space in node.broker.devices.spaces.values():
            if space.subscription_count:
                for message in system_messages(node, space):
                    space.give_out_live(message)
        node.broker.clock.call_later(interval_s, publish)

    node.broker.clock.call_later(interval_s, publish)
