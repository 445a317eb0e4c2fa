"""What a declaration asks for -> properties of a queue; and whether two declarations ask for the same.

Arguments that RabbitMQ knows must be of the right type, and for this type of queue; others are kept and have no effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from mainstem.broker.queues import DeadLetterTarget, InvalidSelector, QueueProperties, compile_expression, read_retry
from mainstem.protocols.amqp.codec.field_table import INTEGER_TYPES, Field, Table, decode_stored_table, encode_table
from mainstem.protocols.amqp.errors import precondition_failed
from mainstem.protocols.amqp.mapping.words import inequivalent, term

Check = Callable[[Field, Table], str | None]
"""What is wrong with a value, in RabbitMQ's words; None: nothing."""

EXPIRY_MS_MAX = 315_360_000_000
"""Ten years."""
PRIORITY_MAX = 255
SEGMENT_BYTES_MAX = 3_000_000_000
PREFIX_BYTES_MAX = 64
NAME_PREFIX = "x-name-prefix"

SELECTOR = "x-mainstem-selector"
"""Of a consumer: an SQL92 expression over what it wants."""
TYPES = ("classic", "quorum", "stream")
COMMON = frozenset({"x-queue-type", "x-max-length-bytes", "x-queue-leader-locator"})
DEAD_LETTERS = frozenset({"x-dead-letter-exchange", "x-dead-letter-routing-key"})
SHARED = frozenset(
    {
        "x-expires",
        "x-message-ttl",
        "x-max-length",
        "x-overflow",
        "x-single-active-consumer",
        "x-consumer-timeout",
        "x-mainstem-retention-ms",
        "x-mainstem-retention-bytes",
        "x-mainstem-lease-ms",
        "x-mainstem-ordering",
        "x-mainstem-retry",
    }
)
KNOWN: dict[str, frozenset[str]] = {
    "classic": COMMON
    | DEAD_LETTERS
    | SHARED
    | {"x-max-priority", "x-queue-mode", "x-queue-version", "x-queue-master-locator"},
    "quorum": COMMON
    | DEAD_LETTERS
    | SHARED
    | {
        "x-dead-letter-strategy",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-quorum-initial-group-size",
        "x-delivery-limit",
        "x-quorum-target-group-size",
    },
    "stream": COMMON
    | {
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-stream-filter-size-bytes",
        "x-initial-cluster-size",
    },
}
ANYWHERE = frozenset().union(*KNOWN.values())
CONSUMER_KNOWN: dict[str, frozenset[str]] = {
    "classic": frozenset({"x-priority", "x-consumer-timeout", SELECTOR}),
    "quorum": frozenset({"x-priority", "x-consumer-timeout", SELECTOR}),
    "stream": frozenset({"x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered", "x-credit"}),
}
CONSUMER_ANYWHERE = frozenset().union(*CONSUMER_KNOWN.values()) - {"x-credit"}
AGE_UNITS_MS = {
    "Y": 365 * 86_400_000,
    "M": 30 * 86_400_000,
    "D": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
}
OVERFLOWS = (b"drop-head", b"reject-publish", b"reject-publish-dlx", b"back-pressure")
LOCATORS = (b"client-local", b"balanced", b"random", b"least-leaders")


def queue_type(arguments: Table, what: str) -> str:
    """Which type of queue is asked for. Raises ChannelError."""
    field = arguments.get("x-queue-type")
    if field is None or field == Field("longstr", b"") or field.type == "void":
        return "classic"
    if field.type != "longstr":
        precondition_failed(f"invalid arg 'x-queue-type' for {what}: {{unacceptable_type,{field.type}}}")
    name = term(field.value)
    if name not in TYPES:
        precondition_failed(f"invalid arg 'x-queue-type' for {what}: \"unsupported queue type '{name}'\"")
    return name


def queue_properties(
    arguments: Table, what: str, *, durable: bool, exclusive: bool, auto_delete: bool, hidden: bool
) -> QueueProperties:
    """All that a queue promises. Raises ChannelError."""
    kind = queue_type(arguments, what)
    check_arguments(arguments, what, kind, KNOWN[kind], ANYWHERE)
    if kind != "classic":
        _check_lasting(what, durable=durable, exclusive=exclusive, auto_delete=auto_delete)

    def number(name: str) -> int | None:
        field = arguments.get(name)
        return None if field is None else cast(int, field.value)

    overflow = arguments.get("x-overflow")
    age, ordering, retry = (arguments.get(name) for name in ("x-max-age", "x-mainstem-ordering", "x-mainstem-retry"))
    return QueueProperties(
        durable=durable,
        exclusive=exclusive,
        auto_delete=auto_delete,
        kind=cast(Literal["classic", "quorum", "stream"], kind),
        arguments=encode_table(dict(sorted(arguments.items()))),
        message_ttl_ms=number("x-message-ttl"),
        expires_ms=number("x-expires"),
        length_max=number("x-max-length"),
        bytes_max=number("x-max-length-bytes"),
        overflow=cast(Any, overflow.value.decode()) if overflow is not None else "drop-head",
        dead_letter=_dead_letter(arguments),
        priority_max=number("x-max-priority") or 0,
        single_active=arguments.get("x-single-active-consumer") == Field("bool", True),
        delivery_limit=number("x-delivery-limit"),
        retention_ms=number("x-mainstem-retention-ms"),
        retention_bytes=number("x-mainstem-retention-bytes"),
        lease_ms=number("x-mainstem-lease-ms"),
        ordering=cast(Any, ordering.value.decode()) if ordering is not None else "shared",
        retry=read_retry(retry.value.decode()) if retry is not None else None,
        age_max_ms=age_ms(age.value) if age is not None else None,
        hidden=hidden,
    )


def check_equivalent(present: QueueProperties, wanted: QueueProperties, what: str) -> None:
    """Whether a queue that is there may be declared like this. Raises ChannelError."""
    for name in ("durable", "auto_delete"):
        mine, theirs = getattr(wanted, name), getattr(present, name)
        if mine != theirs:
            precondition_failed(inequivalent(name, what, mine, theirs))
    current, received = declared_arguments(present), declared_arguments(wanted)
    for name in COMPARED:
        if name in KNOWN[present.kind]:
            _check_same(name, what, received.get(name), current.get(name))


def declared_arguments(properties: QueueProperties) -> Table:
    """As they were declared."""
    return decode_stored_table(properties.arguments)


def check_arguments(arguments: Table, what: str, kind: str, known: frozenset[str], anywhere: frozenset[str]) -> None:
    """Whether each is of the right type, and means something here. Raises ChannelError."""
    for name, field in arguments.items():
        check = CHECKS.get(name)
        if name in known and check is not None:
            wrong = check(field, arguments)
            if wrong is not None:
                precondition_failed(f"invalid arg '{name}' for {what}: {wrong}")
    for name in arguments:
        if name in anywhere and name not in known:
            precondition_failed(f"invalid arg '{name}' for {what} of queue type rabbit_{kind}_queue")


def age_ms(text: bytes) -> int | None:
    """An age like `7D`, in ms; None if it is none."""
    match = re.fullmatch(rb"([0-9]+)([YMDhms])", text)
    if match is None or not int(match[1]):
        return None
    return int(match[1]) * AGE_UNITS_MS[match[2].decode()]


def _check_lasting(what: str, *, durable: bool, exclusive: bool, auto_delete: bool) -> None:
    """Quorum queues and streams are made to last."""
    if auto_delete:
        precondition_failed(f"invalid property 'auto-delete' for {what}")
    if exclusive:
        precondition_failed(f"invalid property 'exclusive-owner' for {what}")
    if not durable:
        precondition_failed(f"invalid property 'non-durable' for {what}")


def _check_same(name: str, what: str, received: Field | None, current: Field | None) -> None:
    if received == current:
        return
    if name == "x-queue-type" and {received, current} <= {None, Field("longstr", b"classic")}:
        return
    if received is not None and current is not None:
        if received.value == current.value and _type_class(received) == _type_class(current):
            return
        precondition_failed(inequivalent(name, what, received.value, current.value))
    precondition_failed(inequivalent(name, what, received, current))


def _type_class(field: Field) -> str:
    if field.type in INTEGER_TYPES or field.type == "decimal":
        return "int"
    return "float" if field.type == "double" else field.type


def _dead_letter(arguments: Table) -> DeadLetterTarget | None:
    exchange = arguments.get("x-dead-letter-exchange")
    if exchange is None:
        return None
    key = arguments.get("x-dead-letter-routing-key")
    strategy = arguments.get("x-dead-letter-strategy")
    return DeadLetterTarget(
        exchange.value.decode("utf-8", "surrogateescape"),
        None if key is None else key.value.decode("utf-8", "surrogateescape"),
        "at-most-once" if strategy is None else cast(Any, strategy.value.decode()),
    )


# Checks, with RabbitMQ's words for what is wrong ---------------------------------------------------------------------


def _integer(field: Field, _: Table) -> str | None:
    return None if field.type in INTEGER_TYPES else f'"expected integer, got {field.type}"'


def _not_negative(field: Field, arguments: Table) -> str | None:
    wrong = _integer(field, arguments)
    return wrong or (f"{{value_negative,{field.value}}}" if field.value < 0 else None)


def _positive(field: Field, arguments: Table) -> str | None:
    return _not_negative(field, arguments) or (f"{{value_zero,{field.value}}}" if not field.value else None)


def _time_to_live(field: Field, arguments: Table) -> str | None:
    return _not_negative(field, arguments) or (
        f"{{value_too_large,{field.value}}}" if field.value > EXPIRY_MS_MAX else None
    )


def _expiry(field: Field, arguments: Table) -> str | None:
    wrong = _integer(field, arguments)
    return wrong or (f"{{value_zero,{field.value}}}" if not field.value else _time_to_live(field, arguments))


def _priority(field: Field, arguments: Table) -> str | None:
    return _not_negative(field, arguments) or (
        f"{{max_value_exceeded,{field.value}}}" if field.value > PRIORITY_MAX else None
    )


def _boolean(field: Field, _: Table) -> str | None:
    return None if field.type == "bool" else f"{{unacceptable_type,{field.type}}}"


def _string(field: Field, _: Table) -> str | None:
    return None if field.type == "longstr" else f"{{unacceptable_type,{field.type}}}"


def _dead_letter_key(field: Field, arguments: Table) -> str | None:
    return _string(field, arguments) or (
        "routing_key_but_no_dlx_defined" if "x-dead-letter-exchange" not in arguments else None
    )


def _one_of(values: tuple[bytes, ...], wrong: str) -> Check:
    def check(field: Field, arguments: Table) -> str | None:
        return _string(field, arguments) or (None if field.value in values else wrong)

    return check


def _version(field: Field, arguments: Table) -> str | None:
    return _not_negative(field, arguments) or (
        None if field.value in (1, 2) else f"\"unsupported queue version '{field.value}'\""
    )


def _age(field: Field, arguments: Table) -> str | None:
    return _string(field, arguments) or (None if age_ms(field.value) is not None else "invalid_max_age")


def _segment_bytes(field: Field, arguments: Table) -> str | None:
    return _not_negative(field, arguments) or (
        "Exceeded max value for x-stream-max-segment-size-bytes" if field.value > SEGMENT_BYTES_MAX else None
    )


def _filter_bytes(field: Field, arguments: Table) -> str | None:
    return _integer(field, arguments) or (
        None if 16 <= field.value <= 255 else "Invalid value for x-stream-filter-size-bytes"
    )


def _offset(field: Field, _: Table) -> str | None:
    if field.type == "timestamp" or field.type in INTEGER_TYPES:
        return None
    if field.type == "longstr" and (field.value in (b"first", b"last", b"next") or age_ms(field.value) is not None):
        return None
    return f"{{invalid_stream_offset_arg,{{{field.type},{term(field.value)}}}}}"


def _expression(field: Field, _: Table) -> str | None:
    if field.type != "longstr":
        return f"{{unacceptable_type,{field.type}}}"
    try:
        compile_expression(field.value.decode("utf-8", "replace"))
    except InvalidSelector as error:
        return str(error)
    return None


def _retry(field: Field, _: Table) -> str | None:
    if field.type != "longstr":
        return f"{{unacceptable_type,{field.type}}}"
    try:
        read_retry(field.value.decode())
    except ValueError as error:
        return f'"{error}"'
    return None


CHECKS: Mapping[str, Check] = {
    "x-expires": _expiry,
    "x-message-ttl": _time_to_live,
    "x-dead-letter-exchange": _string,
    "x-dead-letter-routing-key": _dead_letter_key,
    "x-dead-letter-strategy": _one_of((b"at-most-once", b"at-least-once"), "invalid_dlx_strategy"),
    "x-max-length": _not_negative,
    "x-max-length-bytes": _not_negative,
    "x-max-in-memory-length": _not_negative,
    "x-max-in-memory-bytes": _not_negative,
    "x-max-priority": _priority,
    "x-overflow": _one_of(OVERFLOWS, "invalid_overflow"),
    "x-queue-mode": _one_of((b"default", b"lazy"), "invalid_queue_mode"),
    "x-queue-version": _version,
    "x-single-active-consumer": _boolean,
    "x-consumer-timeout": _not_negative,
    SELECTOR: _expression,
    "x-quorum-initial-group-size": _positive,
    "x-quorum-target-group-size": _positive,
    "x-initial-cluster-size": _positive,
    "x-delivery-limit": _integer,
    "x-max-age": _age,
    "x-stream-max-segment-size-bytes": _segment_bytes,
    "x-stream-filter-size-bytes": _filter_bytes,
    "x-queue-leader-locator": _one_of(LOCATORS, "invalid_queue_locator_arg"),
    "x-mainstem-retention-ms": _not_negative,
    "x-mainstem-retention-bytes": _not_negative,
    "x-mainstem-lease-ms": _positive,
    "x-mainstem-ordering": _one_of((b"shared", b"key", b"exclusive", b"failover"), "invalid_ordering"),
    "x-mainstem-retry": _retry,
    "x-priority": _integer,
    "x-stream-offset": _offset,
    "x-stream-match-unfiltered": _boolean,
}
COMPARED = (*(name for name in CHECKS if name in ANYWHERE), "x-queue-type", "x-queue-master-locator")
"""In the order in which RabbitMQ tells a difference."""
assert set(COMPARED) == ANYWHERE
