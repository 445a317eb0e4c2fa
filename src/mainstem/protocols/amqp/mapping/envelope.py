"""An AMQP message <-> the headers of a record.

    record header     holds
    amqp.raw          exchange, routing key and the property list, exactly as they came: what a consumer is given back. In
                      base64, because many clients take every header for UTF-8 text
    amqp              the same without base64, in records of earlier versions
    mainstem-ttl      the expiration, for the queue
    NAME              each of the message's own headers, readable
    amqp.PROPERTY     each property that is set, readable; and amqp.exchange, amqp.routing-key where an exchange was named

The readable ones are for consumers that know topics and no AMQP; nothing here looks at them again. Messages that were not
published by AMQP have neither of the two: what they have becomes headers and properties when they are delivered.
"""

from __future__ import annotations

import struct
from binascii import Error as BinasciiError
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping
from typing import NamedTuple

from mainstem.broker.envelopes import Address
from mainstem.broker.queues import Message, deaths_of, decode_headers, encode_headers, find_header
from mainstem.model.header_names import KEY_HEADER, TTL_HEADER
from mainstem.protocols.amqp.codec.field_table import Field, Table, encode_table
from mainstem.protocols.amqp.codec.methods import encode_short_string
from mainstem.protocols.amqp.codec.properties import Properties, decode_properties, encode_properties
from mainstem.protocols.amqp.errors import AmqpError
from mainstem.protocols.amqp.mapping.deaths import death_headers
from mainstem.protocols.amqp.mapping.quick_seal import AVAILABLE, QuickSeal
from mainstem.protocols.amqp.mapping.values import plain_table, readable

RAW_HEADER = "amqp.raw"
OLD_HEADER = "amqp"
MARKS = (RAW_HEADER, OLD_HEADER)
"""Headers by which a message of AMQP is known."""
RESERVED_PREFIXES = ("mainstem-", "amqp.")
CACHED_MAX = 4_096
CACHED_BYTES_MAX = 2_048
"""Longer blocks are not remembered: each would be the only one of its kind."""

_MARK, _OLD_MARK = b"\x10amqp.raw", b"\x08amqp"
"""How the headers' names stand in a block: a zigzag length, then the name."""
_LENGTH = struct.Struct(">I")


class Envelope(NamedTuple):
    """What is around the body of a message."""

    exchange: str
    routing_key: str
    address: bytes
    """Both, as they stand in basic.deliver."""
    properties: bytes
    """The property list."""
    is_lasting: bool = True
    """Whether it is the same for every message with these headers."""


def seal(exchange: str, routing_key: str, properties: bytes, decoded: Properties, ttl_ms: int) -> bytes:
    """The block of record headers of a message that is published."""
    headers: list[tuple[str, bytes | None]] = []
    for name, field in decoded.get("headers", {}).items():
        if name != OLD_HEADER and not name.startswith(RESERVED_PREFIXES):
            headers.append((name.encode("utf-8", "replace").decode(), readable(field)))
    headers += _address_entries(exchange, routing_key)
    for name, value in decoded.items():
        if name not in ("headers", "delivery_mode"):
            headers.append((f"amqp.{name.replace('_', '-')}", _utf8(str(value))))
    if ttl_ms >= 0:
        headers.append((TTL_HEADER, str(ttl_ms).encode()))
    raw = encode_short_string(exchange) + encode_short_string(routing_key) + properties
    headers.append((RAW_HEADER, b2a_base64(raw, newline=False)))
    return encode_headers(headers)


def _address_entries(exchange: str, routing_key: str) -> list[tuple[str, bytes | None]]:
    return [("amqp.exchange", _utf8(exchange)), ("amqp.routing-key", _utf8(routing_key))] if exchange else []


def _utf8(text: str) -> bytes:
    """For readers: what is no UTF-8 is replaced, the raw header has it exactly."""
    encoded = text.encode("utf-8", "surrogateescape")
    return encoded if text.isascii() else encoded.decode("utf-8", "replace").encode()


def encode_address(exchange: str, routing_key: str) -> tuple[bytes, int, bytes]:
    """What `seal` makes of an address: entries of the block, how many, and the beginning of the raw content."""
    names = _address_entries(exchange, routing_key)
    return encode_headers(names)[1:], len(names), encode_short_string(exchange) + encode_short_string(routing_key)


class Envelopes:
    """Opens envelopes, and addresses dead letters anew; remembers the last ones."""

    def __init__(self) -> None:
        self._opened: dict[bytes, Envelope] = {}
        self._quick = QuickSeal()

    def open(self, message: Message) -> Envelope:
        """Of a message on its way to a consumer."""
        known = self._opened.get(message.headers)
        return known if known is not None else self._open(message)

    def _open(self, message: Message) -> Envelope:
        block = message.headers
        if _MARK not in block and _OLD_MARK not in block:
            return self._foreign(message)
        try:
            envelope = self._read(block)
        except (AmqpError, IndexError, UnicodeDecodeError):
            return self._foreign(message)  # Somebody else has put such a header there.
        if len(block) <= CACHED_BYTES_MAX:
            if len(self._opened) >= CACHED_MAX:
                self._opened.clear()
            self._opened[block] = envelope
        return envelope

    def _read(self, block: bytes) -> Envelope:
        content = raw_envelope(block)
        if content is None:
            raise IndexError
        key_at = 1 + content[0]
        end = key_at + 1 + content[key_at]
        address, properties = content[:end], content[end:]
        deaths = deaths_of(block)
        if deaths:
            decoded = decode_properties(properties)
            headers: Table = decoded.get("headers", {})
            decoded["headers"] = dict(sorted((headers | death_headers(deaths)).items()))
            properties = encode_properties(decoded)
        elif not (AVAILABLE and self._quick.is_whole(properties)):
            decode_properties(properties)  # What a peer is sent must be whole.
        exchange = content[1:key_at].decode("utf-8", "surrogateescape")
        return Envelope(exchange, content[key_at + 1 : end].decode("utf-8", "surrogateescape"), address, properties)

    def _foreign(self, message: Message) -> Envelope:
        """Of a record: sent to the queue by its name, with its key and time among the headers."""
        headers: Table = {}
        for name, value in decode_headers(message.headers):
            if len(name.encode()) > 255 or name in (RAW_HEADER, OLD_HEADER) or name.startswith("mainstem-"):
                continue
            headers[name] = Field("void", None) if value is None else Field("longstr", value)
        if message.key is not None:
            headers[KEY_HEADER] = Field("longstr", message.key)
        deaths = deaths_of(message.headers)
        if deaths:
            headers |= death_headers(deaths)
        properties: Properties = {"delivery_mode": 2}
        if message.timestamp_ms >= 0:
            headers["timestamp_in_ms"] = Field("long", message.timestamp_ms)
            properties["timestamp"] = message.timestamp_ms // 1000
        if headers:
            properties["headers"] = headers
        name = message.lane.queue.name
        if deaths:
            exchange, routing_key = "", deaths[0].routing_keys[0]
        else:
            exchange, routing_key = "", name
        address = b"\0" + encode_short_string(routing_key)
        return Envelope(exchange, routing_key, address, encode_properties(properties), is_lasting=False)

    # What dead-lettering asks (broker.envelopes)

    def address_of(self, message: Message) -> Address:
        """Where it was published, with the keys of its CC header."""
        envelope = self.open(message)
        return Address(envelope.exchange, (envelope.routing_key, *further_keys(self._table(message), "CC")))

    def headers_of(self, message: Message) -> Mapping[str, object]:
        """Headers as routes look at them."""
        return plain_table(self._table(message))

    def properties_of(self, message: Message) -> Mapping[str, object]:
        """Properties as routes look at them."""
        return decode_properties(self.open(message).properties)

    def readdressed(self, message: Message, exchange: str, key: str) -> bytes:
        """Its block, addressed anew; without a time to live, and without further keys when it got another one."""
        block = [
            header
            for header in decode_headers(message.headers)
            if header[0] not in (TTL_HEADER, "amqp.expiration", "amqp.exchange", "amqp.routing-key")
        ]
        stored = raw_envelope(message.headers)
        if stored is None:
            return encode_headers(block)
        key_at = 1 + stored[0]
        end = key_at + 1 + stored[key_at]
        properties = decode_properties(stored[end:])
        properties.pop("expiration", None)
        if "CC" in properties.get("headers", {}) and key != self.open(message).routing_key:
            del properties["headers"]["CC"]
        content = encode_short_string(exchange) + encode_short_string(key) + encode_properties(properties)
        kept = [header for header in block if header[0] not in (RAW_HEADER, OLD_HEADER)]
        return encode_headers([*kept, (RAW_HEADER, b2a_base64(content, newline=False))])

    def is_lasting(self, message: Message) -> bool:
        """Whether all of this is the same for every message of its queue that has the same headers."""
        return self.open(message).is_lasting

    def _table(self, message: Message) -> Table:
        headers: Table = decode_properties(self.open(message).properties).get("headers", {})
        return headers


def raw_envelope(block: bytes) -> bytes | None:
    """Exchange, routing key and properties, as they came; None: there is nothing that could be them."""
    encoded = find_header(block, b"amqp.raw")
    if encoded is None:
        return find_header(block, b"amqp")
    try:
        return a2b_base64(encoded)
    except BinasciiError:
        return None


def further_keys(headers: Table, name: str) -> list[str]:
    """The routing keys in a CC or BCC header."""
    field = headers.get(name)
    if field is None or field.type != "array":
        return []
    return [entry.value.decode("utf-8", "surrogateescape") for entry in field.value if entry.type == "longstr"]


def with_headers(properties: bytes, added: Mapping[str, Field]) -> bytes:
    """A property list with further headers, without decoding it: they go behind those that are there."""
    flags = int.from_bytes(properties[:2], "big")
    position = 2
    for flag in (1 << 15, 1 << 14):  # content type and content encoding stand before the headers
        if flags & flag:
            position += 1 + properties[position]
    entries = encode_table(added)[4:]
    if flags & (1 << 13):
        (length,) = _LENGTH.unpack_from(properties, position)
        end = position + 4 + length
        table = properties[position + 4 : end]
    else:
        end = position
        table = b""
    return b"".join(
        (
            (flags | 1 << 13).to_bytes(2, "big"),
            properties[2:position],
            _LENGTH.pack(len(table) + len(entries)),
            table,
            entries,
            properties[end:],
        )
    )
