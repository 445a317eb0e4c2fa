"""The engine's own state: how its keys and values are written."""

from __future__ import annotations

import struct

import msgspec

from mainstem.storage.contract import LogConfig

LOGS = "engine/logs"
PRODUCERS = "engine/producers"
TRANSACTIONS = "engine/transactions"
ABORTED = "engine/aborted"
LEASES = "engine/leases"
FILES = "engine/files"
DELETED = "engine/deleted"
ACTIVE_PRODUCERS = "engine/active-producers/"
"""Followed by the number of a log: the producers that it knows, by id. Made when asked for, never stored."""

MERGED_KEY = b"merged"
RUN_PREFIX = b"run"
COMPACTED_PREFIX = b"compacted"

_ONE = struct.Struct(">Q")
_TWO = struct.Struct(">QQ")
_encode = msgspec.msgpack.Encoder().encode


class LogEntry(msgspec.Struct, array_like=True, frozen=True):
    """What is kept of a log besides its batches."""

    config: LogConfig
    start: int
    floor: int


class RunEntry(msgspec.Struct, array_like=True, frozen=True):
    """A live run."""

    directory: str
    adopted: int | None
    retention_class: int
    tier: int
    bytes: int
    ages: tuple[int, int]
    """First and last group of the write-ahead log from which it came."""


_decode_log = msgspec.msgpack.Decoder(LogEntry).decode
_decode_run = msgspec.msgpack.Decoder(RunEntry).decode
_decode_pair = msgspec.msgpack.Decoder(tuple[int, int]).decode


def log_key(log: int) -> bytes:
    """Key of a log, and prefix of all that belongs to it."""
    return _ONE.pack(log)


def pair_key(log: int, number: int) -> bytes:
    """Key of something numbered within a log."""
    return _TWO.pack(log, number)


def decode_log_key(key: bytes) -> int:
    """The log of a key."""
    return int(_ONE.unpack_from(key)[0])


def decode_pair_key(key: bytes) -> tuple[int, int]:
    """Log and number of a key."""
    log, number = _TWO.unpack(key)
    return log, number


def encode_log_entry(entry: LogEntry) -> bytes:
    """Value in engine/logs."""
    return _encode(entry)


def decode_log_entry(value: bytes) -> LogEntry:
    """From engine/logs."""
    return _decode_log(value)


def run_key(run: int) -> bytes:
    """Key in engine/files."""
    return RUN_PREFIX + _ONE.pack(run)


def decode_run_key(key: bytes) -> int:
    """Run id of a key."""
    return int(_ONE.unpack_from(key, len(RUN_PREFIX))[0])


def encode_run_entry(entry: RunEntry) -> bytes:
    """Value in engine/files."""
    return _encode(entry)


def decode_run_entry(value: bytes) -> RunEntry:
    """From engine/files."""
    return _decode_run(value)


def encode_number(number: int) -> bytes:
    """A plain number as value."""
    return _ONE.pack(number)


def decode_number(value: bytes) -> int:
    """A plain number from a value."""
    return int(_ONE.unpack(value)[0])


def encode_pair(first: int, second: int) -> bytes:
    """Two numbers as value."""
    return _encode((first, second))


def decode_pair(value: bytes) -> tuple[int, int]:
    """Two numbers from a value."""
    return _decode_pair(value)
