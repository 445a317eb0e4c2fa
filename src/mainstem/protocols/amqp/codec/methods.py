"""Every method of AMQP 0-9-1 with RabbitMQ's extensions, from one table: bytes <-> name and arguments.

Methods that come once per message are read and written by hand in `framing`; all others are dealt with here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from mainstem.protocols.amqp.codec.field_table import decode_table, encode_table
from mainstem.protocols.amqp.errors import fail

# id, name, arguments: o octet, s short, l long, q longlong, S short string, L long string, T table, b bit
_TABLE = """
10.10  connection.start         version_major:o version_minor:o server_properties:T mechanisms:L locales:L
10.11  connection.start-ok      client_properties:T mechanism:S response:L locale:S
10.20  connection.secure        challenge:L
10.21  connection.secure-ok     response:L
10.30  connection.tune          channel_max:s frame_max:l heartbeat:s
10.31  connection.tune-ok       channel_max:s frame_max:l heartbeat:s
10.40  connection.open          virtual_host:S reserved_1:S reserved_2:b
10.41  connection.open-ok       reserved_1:S
10.50  connection.close         reply_code:s reply_text:S class_id:s method_id:s
10.51  connection.close-ok
10.60  connection.blocked       reason:S
10.61  connection.unblocked
10.70  connection.update-secret new_secret:L reason:S
10.71  connection.update-secret-ok
20.10  channel.open             reserved_1:S
20.11  channel.open-ok          reserved_1:L
20.20  channel.flow             active:b
20.21  channel.flow-ok          active:b
20.40  channel.close            reply_code:s reply_text:S class_id:s method_id:s
20.41  channel.close-ok
30.10  access.request           realm:S exclusive:b passive:b active:b write:b read:b
30.11  access.request-ok        ticket:s
40.10  exchange.declare         ticket:s exchange:S type:S passive:b durable:b auto_delete:b internal:b nowait:b arguments:T
40.11  exchange.declare-ok
40.20  exchange.delete          ticket:s exchange:S if_unused:b nowait:b
40.21  exchange.delete-ok
40.30  exchange.bind            ticket:s destination:S source:S routing_key:S nowait:b arguments:T
40.31  exchange.bind-ok
40.40  exchange.unbind          ticket:s destination:S source:S routing_key:S nowait:b arguments:T
40.51  exchange.unbind-ok
50.10  queue.declare            ticket:s queue:S passive:b durable:b exclusive:b auto_delete:b nowait:b arguments:T
50.11  queue.declare-ok         queue:S message_count:l consumer_count:l
50.20  queue.bind               ticket:s queue:S exchange:S routing_key:S nowait:b arguments:T
50.21  queue.bind-ok
50.30  queue.purge              ticket:s queue:S nowait:b
50.31  queue.purge-ok           message_count:l
50.40  queue.delete             ticket:s queue:S if_unused:b if_empty:b nowait:b
50.41  queue.delete-ok          message_count:l
50.50  queue.unbind             ticket:s queue:S exchange:S routing_key:S arguments:T
50.51  queue.unbind-ok
60.10  basic.qos                prefetch_size:l prefetch_count:s global:b
60.11  basic.qos-ok
60.20  basic.consume            ticket:s queue:S consumer_tag:S no_local:b no_ack:b exclusive:b nowait:b arguments:T
60.21  basic.consume-ok         consumer_tag:S
60.30  basic.cancel             consumer_tag:S nowait:b
60.31  basic.cancel-ok          consumer_tag:S
60.40  basic.publish            ticket:s exchange:S routing_key:S mandatory:b immediate:b
60.50  basic.return             reply_code:s reply_text:S exchange:S routing_key:S
60.60  basic.deliver            consumer_tag:S delivery_tag:q redelivered:b exchange:S routing_key:S
60.70  basic.get                ticket:s queue:S no_ack:b
60.71  basic.get-ok             delivery_tag:q redelivered:b exchange:S routing_key:S message_count:l
60.72  basic.get-empty          reserved_1:S
60.80  basic.ack                delivery_tag:q multiple:b
60.90  basic.reject             delivery_tag:q requeue:b
60.100 basic.recover-async      requeue:b
60.110 basic.recover            requeue:b
60.111 basic.recover-ok
60.120 basic.nack               delivery_tag:q multiple:b requeue:b
85.10  confirm.select           nowait:b
85.11  confirm.select-ok
90.10  tx.select
90.11  tx.select-ok
90.20  tx.commit
90.21  tx.commit-ok
90.30  tx.rollback
90.31  tx.rollback-ok
"""
_FIXED = {kind: struct.Struct(f">{form}") for kind, form in zip("oslq", "BHIQ", strict=True)}
_LENGTH = struct.Struct(">I")
_ID = struct.Struct(">HH")
ID_BYTES = _ID.size


class Signature(NamedTuple):
    """A method: its numbers, its name, its arguments with their kinds."""

    class_id: int
    method_id: int
    name: str
    arguments: tuple[tuple[str, str], ...]


class Method:
    """A method as it was called."""

    __slots__ = ("arguments", "signature")

    def __init__(self, signature: Signature, arguments: dict[str, Any]) -> None:
        self.signature = signature
        self.arguments = arguments

    @property
    def name(self) -> str:
        """Class and method, with a dot."""
        return self.signature.name

    def __getitem__(self, argument: str) -> Any:
        return self.arguments[argument]


def _read_signatures() -> list[Signature]:
    signatures = []
    for line in _TABLE.strip().splitlines():
        numbers, name, *arguments = line.split()
        class_id, method_id = map(int, numbers.split("."))
        pairs = tuple((argument, kind) for argument, _, kind in (entry.partition(":") for entry in arguments))
        signatures.append(Signature(class_id, method_id, name, pairs))
    return signatures


SIGNATURES = {(signature.class_id, signature.method_id): signature for signature in _read_signatures()}
BY_NAME = {signature.name: signature for signature in SIGNATURES.values()}


def signature_of(payload: bytes) -> Signature:
    """Which method a frame holds."""
    try:
        class_id, method_id = _ID.unpack_from(payload)
    except struct.error:
        fail(501, "a method frame is too short")
    signature = SIGNATURES.get((class_id, method_id))
    if signature is None:
        fail(503, f"unimplemented method {class_id}.{method_id}")
    return signature


def decode_method(payload: bytes) -> Method:
    """The content of a method frame."""
    signature = signature_of(payload)
    try:
        return Method(signature, _decode_arguments(signature, payload))
    except (struct.error, IndexError):
        fail(501, f"cannot decode {signature.name}")


def _decode_arguments(signature: Signature, payload: bytes) -> dict[str, Any]:
    values: dict[str, Any] = {}
    position = ID_BYTES
    bit = bits = 0
    for name, kind in signature.arguments:
        if kind == "b":
            if bit == 0:
                bits = payload[position]
                position += 1
            values[name] = bool(bits >> bit & 1)
            bit = (bit + 1) % 8
            continue
        bit = 0
        values[name], position = _DECODERS[kind](payload, position)
    return values


def _short_string(payload: bytes, position: int) -> tuple[str, int]:
    start = position + 1
    end = start + payload[position]
    if end > len(payload):
        raise IndexError
    try:
        return payload[start:end].decode(), end
    except UnicodeDecodeError:
        fail(501, "Malformed UTF-8 in shortstr")


def _sized(payload: bytes, position: int) -> tuple[int, int]:
    (length,) = _LENGTH.unpack_from(payload, position)
    start = position + 4
    if start + length > len(payload):
        raise IndexError
    return start, start + length


def _long_string(payload: bytes, position: int) -> tuple[bytes, int]:
    start, end = _sized(payload, position)
    return payload[start:end], end


def _table(payload: bytes, position: int) -> tuple[Any, int]:
    start, end = _sized(payload, position)
    return decode_table(payload, start, end), end


def _fixed(form: struct.Struct) -> Callable[[bytes, int], tuple[int, int]]:
    return lambda payload, position: (form.unpack_from(payload, position)[0], position + form.size)


_DECODERS: dict[str, Callable[[bytes, int], tuple[Any, int]]] = {
    "S": _short_string,
    "L": _long_string,
    "T": _table,
    **{kind: _fixed(form) for kind, form in _FIXED.items()},
}


def encode_method(name: str, **arguments: Any) -> bytes:
    """The content of a method frame; arguments that are not given are empty, zero or false."""
    signature = BY_NAME[name]
    out = bytearray(_ID.pack(signature.class_id, signature.method_id))
    bit = 0
    for argument, kind in signature.arguments:
        value = arguments.pop(argument, None)
        if kind == "b":
            if bit == 0:
                out.append(0)
            out[-1] |= bool(value) << bit
            bit = (bit + 1) % 8
            continue
        bit = 0
        if kind == "S":
            text = encode_short_string(value or "")
            out += text
        elif kind == "L":
            content = value.encode() if isinstance(value, str) else value or b""
            out += _LENGTH.pack(len(content)) + content
        elif kind == "T":
            out += encode_table(value or {})
        else:
            out += _FIXED[kind].pack(value or 0)
    assert not arguments, arguments
    return bytes(out)


def encode_short_string(text: str) -> bytes:
    """With its length in front."""
    encoded = text.encode("utf-8", "surrogateescape")
    assert len(encoded) < 256
    return bytes((len(encoded),)) + encoded
