"""The engine's own state in words: what keys and values of its scopes mean."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple, TypeAlias

import msgspec
from pyroaring import BitMap

from mainstem.storage.sequencer import engine_scopes as scopes
from mainstem.storage.sequencer.deleted_logs import PAGE_BITS
from mainstem.storage.sequencer.producers import decode_producer

Facts: TypeAlias = dict[str, Any]


class Meaning(NamedTuple):
    """What an item says."""

    log: int | None
    """The log that it belongs to."""
    facts: Facts
    """Of key and value."""


def explain_item(scope: str, key: bytes, value: bytes | None) -> Meaning | None:
    """What an item of the engine's scopes says; None for others, and for what does not decode."""
    try:
        return _explain(scope, key, value)
    except (msgspec.DecodeError, struct.error, ValueError):
        return None


def _explain(scope: str, key: bytes, value: bytes | None) -> Meaning | None:
    match scope:
        case scopes.LOGS:
            return Meaning(scopes.decode_log_key(key), {} if value is None else _log_facts(value))
        case scopes.PRODUCERS:
            log, producer = scopes.decode_pair_key(key)
            known = {} if value is None else msgspec.structs.asdict(decode_producer(value))
            return Meaning(log, {"producer": producer, **known})
        case scopes.TRANSACTIONS:
            log, producer = scopes.decode_pair_key(key)
            first = {} if value is None else {"first_offset": scopes.decode_number(value)}
            return Meaning(log, {"producer": producer, **first})
        case scopes.ABORTED:
            log, marker = scopes.decode_pair_key(key)
            facts: Facts = {"marker": marker}
            if value is not None:
                facts["producer"], facts["first_offset"] = scopes.decode_pair(value)
            return Meaning(log, facts)
        case scopes.LEASES:
            return Meaning(
                None, {"role": key.decode(), "epoch": None if value is None else scopes.decode_number(value)}
            )
        case scopes.DELETED:
            return Meaning(None, {} if value is None else _deleted_facts(key, value))
        case scopes.FILES:
            return _file_meaning(key, value)
        case _:
            return None


def _log_facts(value: bytes) -> Facts:
    entry = scopes.decode_log_entry(value)
    return {"start": entry.start, "floor": entry.floor, "config": msgspec.to_builtins(entry.config)}


def _deleted_facts(key: bytes, value: bytes) -> Facts:
    first = int.from_bytes(key, "big") << PAGE_BITS
    return {"deleted_from_page": first, "deleted_logs": len(BitMap.deserialize(value))}


def _file_meaning(key: bytes, value: bytes | None) -> Meaning | None:
    if key == scopes.MERGED_KEY:
        return Meaning(None, {"merged_to_group": None if value is None else scopes.decode_number(value)})
    if key.startswith(scopes.COMPACTED_PREFIX):
        log = scopes.decode_log_key(key[len(scopes.COMPACTED_PREFIX) :])
        progress = (None, None) if value is None else scopes.decode_pair(value)
        return Meaning(log, dict(zip(("compacted_to", "settle_ms"), progress, strict=True)))
    if key.startswith(scopes.RUN_PREFIX):
        entry = {} if value is None else msgspec.structs.asdict(scopes.decode_run_entry(value))
        return Meaning(None, {"run": f"{scopes.decode_run_key(key):016x}", **entry})
    return None
