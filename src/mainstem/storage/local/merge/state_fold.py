"""What consecutive stretches of the log say about state, folded into one: the last word per key.

Producers are the one exception: what two stretches say about a producer is joined, because each knows only the batches in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from mainstem.model.errors import CorruptData
from mainstem.storage.local.merge.job import MergeOutcome, StateJob
from mainstem.storage.local.runs.state_run import read_state_run, write_state_run
from mainstem.storage.runtime.disk import Disk
from mainstem.storage.sequencer.engine_scopes import ABORTED, LOGS, PRODUCERS, TRANSACTIONS, pair_key
from mainstem.storage.sequencer.entries import StateItem
from mainstem.storage.sequencer.producers import Producer, decode_producer, encode_producer

FIRST_GROUP = 1
_LOG_KEY_BYTES = 8


class StateFold:
    """State of a stretch of groups; take the parts in, oldest first, then ask for the items."""

    def __init__(self) -> None:
        self._scopes: defaultdict[str, dict[bytes, bytes | None]] = defaultdict(dict)

    def take(self, items: Iterable[StateItem]) -> None:
        """Mutations of STATE frames: the later one wins."""
        scopes = self._scopes
        for scope, key, value in items:
            scopes[scope][key] = value

    def take_run(self, items: Iterable[StateItem]) -> None:
        """All items of a state run that follows on what was taken so far."""
        scopes = self._scopes
        producers = scopes[PRODUCERS]
        for scope, key, value in items:
            if scope == PRODUCERS and value is not None:
                older = producers.get(key)
                if older is not None:
                    value = encode_producer(decode_producer(older).join(decode_producer(value)))
            scopes[scope][key] = value

    def take_producers(self, producers: Iterable[tuple[tuple[int, int], Producer]]) -> None:
        """What the batches of these same groups say, by log and producer id."""
        target = self._scopes[PRODUCERS]
        for (log, producer_id), producer in producers:
            target[pair_key(log, producer_id)] = encode_producer(producer)

    def expire_producers(self, before_ms: int) -> None:
        """Forget producers that wrote last before this, unless a transaction of theirs is open."""
        transactions = self._scopes[TRANSACTIONS]
        producers = self._scopes[PRODUCERS]
        for key in [
            key
            for key, value in producers.items()
            if value is not None and decode_producer(value).last_ms < before_ms and transactions.get(key) is None
        ]:
            del producers[key]

    def items(self, *, from_beginning: bool) -> Iterator[StateItem]:
        """All that remains, sorted by scope and key.

        When the stretch begins with group 1, nothing older can be meant: deletions are left out, and what belongs to logs that do
        not exist. Producers of a log deleted in this stretch go in any case; log ids are never used again.
        """
        logs = self._scopes[LOGS]
        for scope in sorted(self._scopes):
            entries = self._scopes[scope]
            belongs_to_logs = scope in (PRODUCERS, TRANSACTIONS, ABORTED)
            for key in sorted(entries):
                value = entries[key]
                if from_beginning:
                    if value is None or (belongs_to_logs and logs.get(key[:_LOG_KEY_BYTES]) is None):
                        continue
                elif scope == PRODUCERS and logs.get(key[:_LOG_KEY_BYTES], b"") is None:
                    continue
                yield scope, key, value


def join_state(disk: Disk, job: StateJob) -> MergeOutcome:
    """Do a job that joins state runs. Raises CorruptData, and OSError; then nothing is left behind."""
    assert job.inputs
    fold = StateFold()
    from_ = to = 0
    for path in job.inputs:
        run = read_state_run(disk, path)
        if to and run.from_ != to + 1:
            raise CorruptData(path, 0, f"state begins with group {run.from_}, not {to + 1}")
        from_ = from_ or run.from_
        to = run.to
        fold.take_run(run.items)
    from_beginning = from_ == FIRST_GROUP
    if from_beginning:
        fold.expire_producers(job.now_ms - job.producer_expiry_ms)
    items = fold.items(from_beginning=from_beginning)
    chunk_bytes = job.limits.state_chunk_bytes
    return MergeOutcome(state_run=write_state_run(disk, job.directory, from_, to, job.now_ms, items, chunk_bytes))
