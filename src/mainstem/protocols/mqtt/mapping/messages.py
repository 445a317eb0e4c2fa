"""Properties of messages as record headers, and record headers as properties.

mqtt.topic, mqtt.qos, mqtt.retain, mqtt.client   where and how it was published
mqtt.content-type, mqtt.response-topic, mqtt.correlation-data, mqtt.payload-format, mqtt.expiry
mainstem-ttl                                     the expiry, for queues
NAME                                             a user property
mqtt.property.NAME                               a user property whose name the broker keeps for itself
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from mainstem.broker.queues import encode_headers
from mainstem.model.header_names import TTL_HEADER
from mainstem.protocols.mqtt.codec.fields import STRING_BYTES_MAX
from mainstem.protocols.mqtt.codec.properties import encode_entries

RESERVED = ("mqtt.", "mainstem-")
ESCAPE = "mqtt.property."
BLOCKS_MAX = 4_096
BLOCK_BYTES_MAX = 1_024
_TEXTS = {"content_type": "mqtt.content-type", "response_topic": "mqtt.response-topic"}
_NAMES = {header: name for name, header in _TEXTS.items()}


def headers_of(
    topic: str, qos: int, retain: bool, client_id: str, properties: Mapping[str, Any]
) -> list[tuple[str, bytes]]:
    """Headers of the record of a message."""
    headers = [("mqtt.topic", topic.encode()), ("mqtt.qos", b"012"[qos : qos + 1]), ("mqtt.client", client_id.encode())]
    if retain:
        headers.append(("mqtt.retain", b"1"))
    if not properties:
        return headers
    for name, header in _TEXTS.items():
        if name in properties:
            headers.append((header, properties[name].encode()))
    if "correlation_data" in properties:
        headers.append(("mqtt.correlation-data", properties["correlation_data"]))
    if properties.get("payload_format_indicator"):
        headers.append(("mqtt.payload-format", b"1"))
    if (expiry_s := properties.get("message_expiry_interval")) is not None:
        headers += [("mqtt.expiry", str(expiry_s).encode()), (TTL_HEADER, str(expiry_s * 1000).encode())]
    for name, value in properties.get("user_property", ()):
        headers.append((ESCAPE + name if name.startswith(RESERVED) else name, value.encode()))
    return headers


class HeaderBook:
    """Blocks of headers that were made, and properties that were read: those of a device are mostly the same."""

    def __init__(self, hidden: Collection[str] = ()) -> None:
        self._hidden = hidden
        """Headers that only their protocol can read."""
        self._blocks: dict[tuple[str, int, bool, str], bytes] = {}
        self._entries: dict[bytes, bytes] = {}

    def block_of(self, topic: str, qos: int, retain: bool, client_id: str, properties: Mapping[str, Any]) -> bytes:
        """The block of headers of a message."""
        if properties:
            return encode_headers(headers_of(topic, qos, retain, client_id, properties))
        key = (topic, qos, retain, client_id)
        known = self._blocks.get(key)
        if known is None:
            known = encode_headers(headers_of(topic, qos, retain, client_id, properties))
            if len(self._blocks) >= BLOCKS_MAX:
                self._blocks.clear()
            self._blocks[key] = known
        return known

    def entries_of(self, block: bytes, headers: Any) -> bytes:
        """Properties of a message with these headers, encoded, without what differs from subscriber to subscriber."""
        known = self._entries.get(block)
        if known is None:
            known = encode_entries(properties_of(headers, self._hidden))
            if len(block) <= BLOCK_BYTES_MAX:
                if len(self._entries) >= BLOCKS_MAX:
                    self._entries.clear()
                self._entries[block] = known
        return known


def properties_of(headers: Any, hidden: Collection[str] = ()) -> dict[str, Any]:
    """What MQTT can show: headers that are text are user properties."""
    properties: dict[str, Any] = {}
    pairs: list[tuple[str, str]] = []
    for name, content in headers:
        if content is None or len(content) > STRING_BYTES_MAX:
            continue
        if name == "mqtt.payload-format":
            if content == b"1":
                properties["payload_format_indicator"] = 1
        elif name == "mqtt.correlation-data":
            properties["correlation_data"] = content
        elif name in _NAMES:
            if (text := _text(content)) is not None:
                properties[_NAMES[name]] = text
        elif not name.startswith(RESERVED) or name.startswith(ESCAPE):
            text = _text(content)
            shown = name.removeprefix(ESCAPE)
            if text is not None and name not in hidden and "\0" not in name and len(shown.encode()) <= STRING_BYTES_MAX:
                pairs.append((shown, text))
    if pairs:
        properties["user_property"] = pairs
    return properties


def _text(content: bytes) -> str | None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
