"""What the state on disk says about logs and files, as far as it can be read."""

from __future__ import annotations

import struct

import msgspec

from mainstem.storage.sequencer import engine_scopes as scopes

_OF_LOGS = (scopes.PRODUCERS, scopes.TRANSACTIONS, scopes.ABORTED)
_LOG_KEY_BYTES = 8


class UndecodableState(Exception):
    """A value of the engine's own is not what its scope holds."""


class ScopeSize(msgspec.Struct):
    """How much one scope holds."""

    keys: int = 0
    bytes: int = 0


class NodeState:
    """The last word on logs and files; of everything else only how much there is, where that is asked for."""

    def __init__(self, *, measured: bool = False) -> None:
        self.logs: dict[int, scopes.LogEntry] = {}
        self.runs: dict[int, scopes.RunEntry] = {}
        self.compacted: set[int] = set()
        """Logs that were compacted by key at least once."""
        self.merged = 0
        """Highest group whose batches are in runs."""
        self._sizes: dict[str, dict[bytes, int]] | None = {} if measured else None

    def apply(self, scope: str, key: bytes, value: bytes | None) -> None:
        """Take a mutation in. Raises UndecodableState."""
        if self._sizes is not None:
            sizes = self._sizes.setdefault(scope, {})
            if value is None:
                sizes.pop(key, None)
            else:
                sizes[key] = len(key) + len(value)
        try:
            if scope == scopes.LOGS:
                self._apply_log(scopes.decode_log_key(key), value)
            elif scope == scopes.FILES:
                self._apply_file(key, value)
        except (msgspec.DecodeError, struct.error) as error:
            raise UndecodableState(f"{scope} {key.hex()} does not decode: {error}") from error

    def _apply_log(self, log: int, value: bytes | None) -> None:
        if value is None:
            self.logs.pop(log, None)
        else:
            self.logs[log] = scopes.decode_log_entry(value)

    def _apply_file(self, key: bytes, value: bytes | None) -> None:
        if key == scopes.MERGED_KEY:
            self.merged = 0 if value is None else scopes.decode_number(value)
        elif key.startswith(scopes.COMPACTED_PREFIX):
            self.compacted.add(scopes.decode_log_key(key[len(scopes.COMPACTED_PREFIX) :]))
        elif key.startswith(scopes.RUN_PREFIX):
            if value is None:
                self.runs.pop(scopes.decode_run_key(key), None)
            else:
                self.runs[scopes.decode_run_key(key)] = scopes.decode_run_entry(value)

    def is_alive(self, log: int, next_offset: int) -> bool:
        """Whether anything below this offset can still be read."""
        entry = self.logs.get(log)
        return entry is not None and next_offset > entry.start

    def may_have_gaps(self, log: int) -> bool:
        """Whether records may be missing between others: compaction by key takes them out."""
        entry = self.logs.get(log)
        return entry is None or entry.config.compact or log in self.compacted

    def scope_sizes(self) -> dict[str, ScopeSize]:
        """Keys and bytes of each scope; what belongs to deleted logs does not count."""
        answer: dict[str, ScopeSize] = {}
        for scope, sizes in sorted((self._sizes or {}).items()):
            size = ScopeSize()
            for key, count in sizes.items():
                if scope not in _OF_LOGS or int.from_bytes(key[:_LOG_KEY_BYTES], "big") in self.logs:
                    size.keys += 1
                    size.bytes += count
            if size.keys:
                answer[scope] = size
        return answer
