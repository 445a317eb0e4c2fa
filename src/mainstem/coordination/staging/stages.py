"""Stages and the sinks they belong to: what is open, and which batch of each sink was published last.

    batch of a commit, compared with the last one published      comes to
    none was published, or it is higher                          PUBLISH: its stages, and from now on it is the last
    the same                                                     REPEATED: it was published before; its stages are dropped
    lower                                                        StaleBatch: the checkpoint was rewound

That number is the fence. A query that was killed runs its last batch again, under the same number; whatever it stages
then is dropped if that batch had been published.

`decide_*` answers what is to be committed and changes nothing, `replay` applies one mutation, live and at a start. A stage
takes batches without waiting for those before them, so it is noted at once when it opens (`note`), and let go again if the
log refuses it (`retract`).

    n                      -> the next log
    s | log                -> StageEntry
    f | query 0 sink       -> SinkEntry
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Collection, Iterable

import msgspec

from mainstem.coordination.decision import Decision
from mainstem.coordination.errors import StaleBatch, TooManyStages, UnknownStage
from mainstem.model.staging import SinkKey, StageKey
from mainstem.storage.contract import CreateLog, DeleteLog, LogConfig, Mutation

SCOPE = "stages"
FIRST_LOG = 3 << 61
"""Stages have logs of a range of their own: topics and schedules (from 1 << 62 on) are never in their way, nor they in theirs."""
STAGES_MAX = 100_000
SINKS_MAX = 100_000
"""Beyond it the sink that was silent for longest is forgotten."""

_NEXT_LOG = b"n"
_STAGE = struct.Struct(">cQ")
_SINK = b"f"
_LOG_CONFIG = LogConfig(delete=False, acknowledged="hold", batch_bytes_max=2**31 - 1)
"""A stage never loses anything by retention, and takes whatever the topic behind it takes."""


class StageEntry(msgspec.Struct, frozen=True, array_like=True):
    """A stage as it is stored."""

    query: str
    sink: str
    batch: int
    task: int
    attempt: str
    opened_ms: int


class SinkEntry(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a sink: its fence."""

    batch: int
    published_ms: int
    lasting: bool
    """Whether another batch may follow; otherwise it is kept only as long as its commit may be repeated."""


class Stage:
    """An open stage."""

    __slots__ = ("is_damaged", "key", "log", "next", "opened_ms", "touched_ms")

    def __init__(self, key: StageKey, log: int, opened_ms: int) -> None:
        self.key = key
        self.log = log
        self.opened_ms = opened_ms
        self.touched_ms = opened_ms
        self.next = 0
        """The position at which it ends, counting what is on its way to the log."""
        self.is_damaged = False
        """The log has refused a batch of it: what came behind is not where its writer believes."""


class Fate(enum.Enum):
    """What becomes of a batch; see the module's table."""

    PUBLISH = "publish"
    REPEATED = "repeated"


_encode = msgspec.msgpack.Encoder().encode
_decode_stage = msgspec.msgpack.Decoder(StageEntry).decode
_decode_sink = msgspec.msgpack.Decoder(SinkEntry).decode
_decode_number = msgspec.msgpack.Decoder(int).decode


class StageTable:
    """All stages and sinks."""

    def __init__(self) -> None:
        self.stages: dict[StageKey, Stage] = {}
        self.sinks: dict[SinkKey, SinkEntry] = {}
        self._by_log: dict[int, Stage] = {}
        self._by_sink: dict[SinkKey, set[StageKey]] = {}
        self._next_log = FIRST_LOG

    # Questions

    def get(self, key: StageKey) -> Stage:
        """One that is open. Raises UnknownStage."""
        stage = self.stages.get(key)
        if stage is None:
            raise UnknownStage(
                f"task {key.task} of batch {key.batch} has no stage {key.attempt}: it was never written, "
                "has expired, or its batch is published; run the batch again"
            )
        return stage

    def of_batches(self, sink: SinkKey, last: int) -> list[Stage]:
        """Whatever is open of a sink, up to a batch."""
        return [self.stages[key] for key in sorted(self._by_sink.get(sink, ())) if key.batch <= last]

    def silent_since(self, ms: int) -> list[Stage]:
        """Stages into which nothing has come since."""
        return [stage for stage in self.stages.values() if stage.touched_ms <= ms]

    # Decisions

    def decide_open(self, key: StageKey, now_ms: int) -> tuple[Stage, Decision]:
        """A stage with a log of its own. Raises TooManyStages."""
        if len(self.stages) >= STAGES_MAX:
            raise TooManyStages(f"{STAGES_MAX} stages are open")
        stage = Stage(key, self._next_log, now_ms)
        entry = StageEntry(*key, now_ms)
        state = [
            Mutation(SCOPE, _NEXT_LOG, _encode(stage.log + 1)),
            Mutation(SCOPE, _STAGE.pack(b"s", stage.log), _encode(entry)),
        ]
        return stage, Decision([CreateLog(stage.log, _LOG_CONFIG)], state)

    def decide_fate(self, sink: SinkKey, batch: int) -> Fate:
        """Whether the batch is to be published. Raises StaleBatch."""
        last = self.sinks.get(sink)
        if last is None or batch > last.batch:
            return Fate.PUBLISH
        if batch < last.batch:
            raise StaleBatch(
                f"batch {batch} is older than batch {last.batch}, the last that query {sink.query} has published here"
                + (f" for sink {sink.sink}" if sink.sink else "")
            )
        return Fate.REPEATED

    def decide_published(self, sink: SinkKey, batch: int, now_ms: int, *, lasting: bool) -> list[Mutation]:
        """From now on this batch is the last of its sink."""
        state = [_put_sink(sink, SinkEntry(batch, now_ms, lasting))]
        if sink not in self.sinks and len(self.sinks) >= SINKS_MAX:
            oldest = min(self.sinks, key=lambda known: self.sinks[known].published_ms)
            state.append(_put_sink(oldest, None))
        return state

    def decide_drop(self, stages: Iterable[Stage]) -> Decision:
        """Stages go, with all that is in them."""
        change = Decision([], [])
        for stage in stages:
            change.logs.append(DeleteLog(stage.log))
            change.state.append(Mutation(SCOPE, _STAGE.pack(b"s", stage.log), None))
        return change

    def decide_forget(self, before_ms: int) -> list[Mutation]:
        """Sinks of single writes go when nobody can repeat their commit any more."""
        return [
            _put_sink(sink, None)
            for sink, entry in self.sinks.items()
            if not entry.lasting and entry.published_ms <= before_ms
        ]

    # Effects

    def note(self, stage: Stage) -> None:
        """It is being opened: what follows is written to it."""
        self._next_log = max(self._next_log, stage.log + 1)
        self.stages[stage.key] = self._by_log[stage.log] = stage
        self._by_sink.setdefault(stage.key.sink_key, set()).add(stage.key)

    def retract(self, stage: Stage) -> None:
        """It is gone, or the log has refused to open it."""
        if self._by_log.pop(stage.log, None) is None:
            return
        del self.stages[stage.key]
        sink = stage.key.sink_key
        self._by_sink[sink].discard(stage.key)
        if not self._by_sink[sink]:
            del self._by_sink[sink]

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one mutation of the scope."""
        if key == _NEXT_LOG:
            assert value is not None
            self._next_log = max(self._next_log, _decode_number(value))
        elif key.startswith(_SINK):
            query, _, sink = key[1:].decode().partition("\0")
            if value is None:
                self.sinks.pop(SinkKey(query, sink), None)
            else:
                self.sinks[SinkKey(query, sink)] = _decode_sink(value)
        else:
            self._replay_stage(_STAGE.unpack(key)[1], value)

    def _replay_stage(self, log: int, value: bytes | None) -> None:
        if value is None:
            gone = self._by_log.get(log)
            if gone is not None:
                self.retract(gone)
        elif log not in self._by_log:
            entry = _decode_stage(value)
            key = StageKey(entry.query, entry.sink, entry.batch, entry.task, entry.attempt)
            self.note(Stage(key, log, entry.opened_ms))


def check_listed(listed: Collection[StageKey]) -> None:
    """A batch has one attempt of each task: two would publish its rows twice. Raises UnknownStage."""
    if len({key.task for key in listed}) < len(listed):
        raise UnknownStage("two attempts of one task are listed; a batch has one of each")


def _put_sink(sink: SinkKey, entry: SinkEntry | None) -> Mutation:
    key = _SINK + sink.query.encode() + b"\0" + sink.sink.encode()
    return Mutation(SCOPE, key, None if entry is None else _encode(entry))
