"""The history of a dead letter, as RabbitMQ writes it into the headers."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.broker.queues import Death
from mainstem.protocols.amqp.codec.field_table import Field, Table, text


def death_headers(deaths: Sequence[Death]) -> Table:
    """`x-death`, the newest first, and what came first and last."""
    first = min(reversed(deaths), key=lambda death: death.first_ms)
    last = deaths[0]
    return {
        "x-death": Field("array", [_entry(death) for death in deaths]),
        "x-first-death-exchange": text(first.exchange),
        "x-first-death-queue": text(first.queue),
        "x-first-death-reason": text(first.reason),
        "x-last-death-exchange": text(last.exchange),
        "x-last-death-queue": text(last.queue),
        "x-last-death-reason": text(last.reason),
    }


def _entry(death: Death) -> Field:
    entry: Table = {}
    if death.ttl_ms >= 0:
        entry["original-expiration"] = text(str(death.ttl_ms))
    entry |= {
        "count": Field("long", death.count),
        "reason": text(death.reason),
        "queue": text(death.queue),
        "time": Field("timestamp", death.first_ms // 1000),
        "exchange": text(death.exchange),
        "routing-keys": Field("array", [text(key) for key in death.routing_keys]),
    }
    return Field("table", entry)
