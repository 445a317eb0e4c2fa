"""What a start has found, made the logs, files and state that the engine works on."""

from __future__ import annotations

from mainstem.storage.local.read.file_set import FileSet
from mainstem.storage.local.recovery import Recovered
from mainstem.storage.sequencer import engine_scopes as scopes
from mainstem.storage.sequencer.ledger import Ledger
from mainstem.storage.sequencer.log_state import LogState


def restore(recovered: Recovered, ledger: Ledger, files: FileSet, copy_bytes_max: int) -> None:
    """Fill a new ledger and a new set of files."""
    ledger.scopes = recovered.scopes
    for wal_file in recovered.wal:
        files.wal[wal_file.generation] = wal_file
    nexts = dict(recovered.tail_nexts)
    sizes: dict[int, int] = {}
    for run in recovered.runs:
        files.add_run(run)
        index = run.index
        for log, next_offset, size in zip(index.logs, index.nexts, index.bytes, strict=True):
            if next_offset > nexts.get(log, -1):
                nexts[log] = next_offset
            sizes[log] = sizes.get(log, 0) + size
    for key, value in recovered.scopes.get(scopes.DELETED, {}).items():
        ledger.deleted.replay(key, value)
    for key, value in recovered.scopes.get(scopes.LOGS, {}).items():
        log = scopes.decode_log_key(key)
        entry = scopes.decode_log_entry(value)
        state = LogState(log, entry.config, ledger.default_rank, copy_bytes_max, entry.start, entry.floor)
        state.next = state.end = max(entry.start, nexts.get(log, 0))
        tail = recovered.tails.get(log)
        state.bytes = sizes.get(log, 0)
        if tail is not None and len(tail):
            state.tail = tail
            state.bytes += tail.bytes_from(0)
        state.producers = recovered.producers.get(log) or None
        ledger.logs.add(state)
        ledger.visible[log] = state
        ledger.classify(state)
        if entry.start:
            ledger.starts[log] = entry.start
            files.measure(state)
    files.deleted_logs.update(log for log in recovered.tails if log not in ledger.logs)
    _restore_transactions(recovered, ledger)


def _restore_transactions(recovered: Recovered, ledger: Ledger) -> None:
    for key, value in recovered.scopes.get(scopes.TRANSACTIONS, {}).items():
        log, producer = scopes.decode_pair_key(key)
        if (state := ledger.logs.get(log)) is not None:
            first = scopes.decode_number(value)
            if state.open is None:
                state.open = {}
            state.open[producer] = first
            state.visible_transactions().begin(producer, first)
    for key, value in sorted(recovered.scopes.get(scopes.ABORTED, {}).items()):
        log, marker = scopes.decode_pair_key(key)
        if (state := ledger.logs.get(log)) is not None:
            producer, first = scopes.decode_pair(value)
            transactions = state.visible_transactions()
            held = transactions.open.pop(producer, None)
            transactions.begin(producer, first)
            transactions.end(producer, marker, commit=False)
            if held is not None:
                transactions.begin(producer, held)
